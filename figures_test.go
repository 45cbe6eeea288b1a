package peerage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/figures"
)

// collect returns the figures of the cluster as a node collects them.
func collect(t *testing.T, n *peerage.Node) figures.Cluster {
	t.Helper()
	all, err := door.Open[func(context.Context) figures.Cluster](n)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return all(ctx)
}

// Each node collects the figures of all, and after a crash the coordinator reports what it
// moved, why, and how long each step took.
func TestFiguresOfTheCluster(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for i := range 50 {
			if _, err := c.nodes[0].counters.Ask(context.Background(), fmt.Sprint(i), add{1}); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range c.nodes {
			got := collect(t, m.Node)
			shards, entities := 0, 0
			for i, n := range got.Nodes {
				typ := n.Types[0]
				shards, entities = shards+typ.Shards, entities+typ.Entities
				if !n.Ready || !n.Lease.Valid || n.Lease.FullSeconds == 0 || len(n.Links) != 2 || !n.Links[0].Out || typ.ShardsTotal != 12 || typ.AskBuckets != nil {
					t.Errorf("node %d: %+v", i, n)
				}
			}
			if got.View == nil || len(got.Nodes) != 3 || got.Self != m.Self().ID || got.Nodes[0].ID != got.Self || shards != 12 || entities != 50 {
				t.Errorf("%d nodes, %d shards, %d entities, view %v", len(got.Nodes), shards, entities, got.View)
			}
		}
		gone := c.nodes[2].Self().ID
		c.net.Crash(c.nodes[2].addr)
		pass(20 * time.Second)
		got := collect(t, c.nodes[1].Node)
		if len(got.View.Members) != 2 || len(got.Nodes) != 2 {
			t.Fatalf("%d members, %d nodes", len(got.View.Members), len(got.Nodes))
		}
		var moves []figures.Moves
		for _, n := range got.Nodes {
			moves = append(moves, n.Types[0].Moves...)
		}
		last := moves[len(moves)-1]
		if last.From != gone || last.Shards != 4 || last.Hosted != 4 || last.Why == "" || last.ChosenMillis < 0 || last.WrittenMillis < last.ChosenMillis || last.DoneMillis < last.WrittenMillis {
			t.Errorf("%+v, want four shards of %v", last, gone)
		}
	})
}

// A node that hangs is missing from the figures once the time is over.
func TestFiguresWithoutANodeThatHangs(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		c.net.Pause(c.nodes[2].addr)
		defer c.net.Resume(c.nodes[2].addr)
		began := time.Now()
		got := collect(t, c.nodes[0].Node)
		if len(got.View.Members) != 3 || len(got.Nodes) != 2 || time.Since(began) > time.Second {
			t.Errorf("%d of %d nodes after %v", len(got.Nodes), len(got.View.Members), time.Since(began))
		}
	})
}

// The durations of asks, and of majority writes and reads, come from the histograms of the metrics.
func TestFiguresHaveLatenciesOfMetrics(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		m := c.addWith(1, func(cfg *peerage.Config) { cfg.Registerer = prometheus.NewRegistry() }, nil)
		c.ready(c.nodes...)
		for i := range 20 {
			if _, err := m.counters.Ask(context.Background(), fmt.Sprint(i), add{1}); err != nil {
				t.Fatal(err)
			}
		}
		for i, level := range []ddata.Level{ddata.Majority, ddata.Majority, ddata.Majority, ddata.Local} {
			if err := ddata.Update(context.Background(), m.Data(""), ddata.ORSetKey[string]("words"), level, func(s *ddata.ORSetTx[string]) error { s.Add(fmt.Sprint(i)); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		for _, level := range []ddata.Level{ddata.Majority, ddata.Majority, ddata.Local} {
			if _, err := ddata.Get(context.Background(), m.Data(""), ddata.ORSetKey[string]("words"), level); err != nil {
				t.Fatal(err)
			}
		}
		got := collect(t, m.Node)
		if b := got.Nodes[0].Types[0].AskBuckets; len(b) != len(figures.LatencyBounds())+1 || b[len(b)-1] != 20 {
			t.Errorf("buckets %v, want 20 asks", b)
		}
		if b := got.Nodes[0].Data[0].WriteBuckets; len(b) != len(figures.LatencyBounds())+1 || b[len(b)-1] != 3 {
			t.Errorf("buckets %v, want three majority writes", b)
		}
		if b := got.Nodes[0].Data[0].ReadBuckets; len(b) != len(figures.LatencyBounds())+1 || b[len(b)-1] != 2 {
			t.Errorf("buckets %v, want two majority reads", b)
		}
	})
}

// Outside a cluster a node reports itself, and why it is in none.
func TestFiguresWithoutACluster(t *testing.T) {
	n, err := peerage.New(peerage.Config{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, n)
	if got.View != nil || len(got.Nodes) != 1 || got.Nodes[0].Ready || got.Nodes[0].NotReady == "" || got.Nodes[0].Version == "" {
		t.Errorf("%+v", got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// The figures of a large node fit into one answer.
func TestFiguresFitIntoAnAnswer(t *testing.T) {
	n := figures.Node{NotReady: "x"}
	for i := range 100 {
		n.Links = append(n.Links, figures.Link{DownSeconds: 1.0 / 3, Dead: "sealed refusal"})
		typ := figures.Type{Name: fmt.Sprintf("a type with a name of fifty characters, number %03d", i), ShardsTotal: 1000, Sent: 1 << 60, Handled: 1 << 60,
			AskBuckets: make([]uint64, len(figures.LatencyBounds())+1)}
		for j := range typ.AskBuckets {
			typ.AskBuckets[j] = 1 << 40
		}
		for range 8 {
			typ.Moves = append(typ.Moves, figures.Moves{From: 1, Why: "its home left the view", Shards: 1000, Began: time.Now(), DoneMillis: 1234.567})
		}
		n.Types = append(n.Types, typ)
	}
	text, err := json.Marshal(&n)
	if err != nil || len(text) > protocol.FiguresBytesMax {
		t.Errorf("%d bytes for 100 links and 100 types, %v; at most %d fit", len(text), err, protocol.FiguresBytesMax)
	}
}
