package peerage_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// placed answers with the node that it lives on.
type placed struct{ node *peerage.Node }

func (w placed) Handle(*sharding.Context, int) (int, error) { return int(w.node.Self().ID), nil }

// sent sums the bytes that a node has sent to other nodes, framing included, without the
// messages of applications.
func sent(t *testing.T, r *prometheus.Registry) (bytes int) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "peerage_transport_bytes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["direction"] == "sent" && labels["class"] != "message" {
				bytes += int(m.GetCounter().GetValue())
			}
		}
	}
	return bytes
}

// coldStart lets each of ten nodes ask every shard of an unused type, all at the same time,
// and returns the bytes that this cost and the time until the last answer.
func coldStart(t *testing.T, shards int) (bytes int, took time.Duration) {
	const nodes = 10
	inBubble(t, 0, func(c *cluster) {
		t := c.t
		var regions []*sharding.Region[int, int]
		var counted []*prometheus.Registry
		for i := range nodes {
			counted = append(counted, prometheus.NewRegistry())
			c.addWith(i, func(c *peerage.Config) { c.Registerer = counted[i] }, func(n *peerage.Node) {
				r, err := sharding.Register(n.Registry(), sharding.Type[int, int]{
					Name: "cold", Shards: shards, New: func(string) sharding.Entity[int, int] { return placed{n} },
					ShardOf: func(id string) (s sharding.ShardID) { _, _ = fmt.Sscan(id, &s); return s },
				})
				if err != nil {
					t.Fatal(err)
				}
				regions = append(regions, r)
			})
		}
		c.ready(c.nodes...)
		pass(5 * time.Second) // registered, and at rest
		total := func() (sum int) {
			for _, r := range counted {
				sum += sent(t, r)
			}
			return sum
		}
		before, begin := total(), time.Now()
		var asks sync.WaitGroup
		homes := make([][]int, nodes)
		for i, r := range regions {
			homes[i] = make([]int, shards)
			for s := range shards {
				asks.Go(func() {
					at, err := r.Ask(t.Context(), fmt.Sprint(s), 0)
					if err != nil {
						t.Error(err)
					}
					homes[i][s] = at
				})
			}
		}
		asks.Wait()
		took = time.Since(begin)
		pass(100 * time.Millisecond) // every replica has the writes
		bytes = total() - before
		on := map[int]int{}
		for s := range shards {
			on[homes[0][s]]++
			for i := range nodes {
				if homes[i][s] != homes[0][s] {
					t.Errorf("shard %d answers from %v and %v", s, homes[0][s], homes[i][s])
				}
			}
		}
		for node, n := range on {
			if len(on) != nodes || n < shards/nodes-1 || n > shards/nodes+1 {
				t.Errorf("%d of %d shards live on %v, of %d nodes", n, shards, node, len(on))
			}
		}
	})
	return bytes, took
}

// A28: a thousand shards on ten nodes, from cold, asked for by all nodes at the same time.
// The bytes are in proportion to shards and nodes: each node receives each home once, and
// each replica each record once. The last answer arrives after a few round trips, or after
// one retransmission, if the coordinator's inbox was full.
func TestA28ThousandShardsFromCold(t *testing.T) {
	per := func(shards int) int {
		bytes, took := coldStart(t, shards)
		each := bytes / shards / 10
		t.Logf("%d shards: %d bytes, %d per shard and node, the last answer after %v", shards, bytes, each, took)
		if took > 500*time.Millisecond {
			t.Errorf("%d shards: the last answer after %v of virtual time", shards, took)
		}
		return each
	}
	few, many := per(250), per(1000)
	if many > 150 || many > few+few/2 {
		t.Errorf("%d bytes per shard and node with 250 shards, %d with 1000", few, many)
	}
}
