package peerage_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

// purse counts, and its state is replicated.
type purse struct{ sum uint64 }

func (p *purse) Handle(_ *sharding.Context, add uint64) (uint64, error) {
	p.sum += add
	return p.sum, nil
}
func (p *purse) Snapshot(*sharding.Context) ([]byte, error) {
	return binary.AppendUvarint(nil, p.sum), nil
}
func (p *purse) Restore(_ *sharding.Context, state []byte) error {
	p.sum, _ = binary.Uvarint(state)
	return nil
}

// where answers with the node that it runs on.
func where(ctx *sharding.Context, _ string) (gossip.NodeID, error) { return ctx.Self().Node, nil }

// loopNode is a node over TCP with one type of each kind.
type loopNode struct {
	*peerage.Node
	purses *sharding.Region[uint64, uint64]
	orders *sharding.Region[int, struct{}]
	throne sharding.Ref[string, gossip.NodeID]
	crew   *sharding.RunningDaemon[string, gossip.NodeID]
}

// orderBook holds the messages that the consumers of a Reliable have run, in one process.
type orderBook struct {
	mu  sync.Mutex
	ran map[string][]int
}

func (b *orderBook) note(id string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran[id] = append(b.ran[id], n)
}

// check compares with the guarantee of Reliable across a crash: every message ran, in
// order, and a repetition skips none.
func (b *orderBook) check(t *testing.T, ids, n int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range ids {
		id := fmt.Sprint("o", i)
		seen := -1
		for k, got := range b.ran[id] {
			if got > seen+1 || k > 0 && got > b.ran[id][k-1]+1 {
				t.Errorf("%s ran %v", id, b.ran[id])
				break
			}
			seen = max(seen, got)
		}
		if seen != n-1 {
			t.Errorf("%s ran up to %d of %d", id, seen, n-1)
		}
	}
}

const crewSize = 8

// loop starts a node on the loopback interface.
func loop(t *testing.T, contact string, book *orderBook) *loopNode {
	t.Helper()
	cfg := peerage.LocalConfig()
	if cfg.Bootstrap = contact == ""; !cfg.Bootstrap {
		cfg.Join, cfg.BootstrapExpect = []string{contact}, 1
	}
	node, err := peerage.New(cfg)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	t.Cleanup(func() { _ = node.Close() })
	n := &loopNode{Node: node}
	n.purses, err = sharding.Register(node.Registry(), sharding.Type[uint64, uint64]{
		Name: "purse", Shards: 16, New: func(string) sharding.Entity[uint64, uint64] { return &purse{} },
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	})
	must(err)
	n.orders, err = sharding.Register(node.Registry(), sharding.Type[int, struct{}]{
		Name: "order", Shards: 16, New: func(id string) sharding.Entity[int, struct{}] {
			return sharding.Func(func(_ *sharding.Context, k int) (struct{}, error) { book.note(id, k); return struct{}{}, nil })
		},
	})
	must(err)
	n.throne, err = sharding.RegisterSingleton(node.Registry(), sharding.Singleton[string, gossip.NodeID]{
		Name: "throne", MinMembers: 4, New: func() sharding.Entity[string, gossip.NodeID] { return sharding.Func(where) },
	})
	must(err)
	n.crew, err = sharding.RegisterDaemon(node.Registry(), sharding.Daemon[string, gossip.NodeID]{
		Name: "crew", Workers: crewSize, MinMembers: 4,
		New: func(int, int) sharding.Entity[string, gossip.NodeID] { return sharding.Func(where) },
	})
	must(err)
	must(node.Start(deadline(t)))
	return n
}

// homes returns where the singleton and the workers answer from.
func (n *loopNode) homes(t *testing.T, ctx context.Context) (throne gossip.NodeID, crew []gossip.NodeID) {
	t.Helper()
	throne, err := n.throne.Ask(ctx, "?", sharding.Retry())
	if err != nil {
		t.Fatal(err)
	}
	for i := range crewSize {
		at, err := n.crew.Worker(i).Ask(ctx, "?", sharding.Retry())
		for ctx.Err() == nil && errors.As(err, new(*sharding.HandlerError)) { // the plan is on its way
			pass(10 * time.Millisecond)
			at, err = n.crew.Worker(i).Ask(ctx, "?", sharding.Retry())
		}
		if err != nil {
			t.Fatal(err)
		}
		crew = append(crew, at)
	}
	return throne, crew
}

// purseLoad adds to purses, one after the other, until stop, and counts what was
// acknowledged and tried, by purse.
type purseLoad struct{ acked, tried [10]atomic.Uint64 }

func (l *purseLoad) run(ctx context.Context, n *loopNode, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		k := i % len(l.acked)
		l.tried[k].Add(1)
		if _, err := n.purses.Ask(ctx, "p"+strconv.Itoa(k), 1); err == nil {
			l.acked[k].Add(1)
		}
	}
}

// The node of the singleton, the most senior one, which also coordinates and leads, is
// killed over real connections under load.
func TestKilledHomeOverTCP(t *testing.T) {
	ctx, book := deadline(t), &orderBook{ran: map[string][]int{}}
	var nodes []*loopNode
	contact := ""
	for range 4 {
		nodes = append(nodes, loop(t, contact, book))
		contact = nodes[0].Self().Addr
	}
	for _, n := range nodes {
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	last := nodes[3]
	former, before := last.homes(t, ctx)
	if !slices.Contains(before, former) {
		t.Fatalf("no worker lives on %v: %v", former, before)
	}
	if former != nodes[0].Self().ID {
		t.Fatalf("the singleton lives on %v, not on the most senior node %v", former, nodes[0].Self().ID)
	}
	var confirmed, failed atomic.Int64
	producer, err := last.orders.Reliable(sharding.ReliableConfig[int]{OnConfirm: func(_ string, _ int, err error) {
		if confirmed.Add(1); err != nil {
			failed.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var l purseLoad
	var work sync.WaitGroup
	stop := make(chan struct{})
	for _, n := range nodes[1:] {
		work.Go(func() { l.run(ctx, n, stop) })
	}
	for k := range l.acked {
		for l.acked[k].Load() == 0 && ctx.Err() == nil {
			pass(time.Millisecond)
		}
	}
	const ids, each = 20, 40
	for k := range each {
		if k == each/2 {
			work.Go(func() { _ = nodes[0].Close() }) // without a drain: a crash for the other nodes
		}
		for i := range ids {
			if err := producer.Send(ctx, fmt.Sprint("o", i), k); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	throne, crew := last.homes(t, ctx)
	close(stop)
	work.Wait()
	if throne == former {
		t.Error("the singleton answers from the dead")
	}
	for i, at := range crew {
		if at == former {
			t.Errorf("worker %d answers from the dead", i)
		}
	}
	if confirmed.Load() != ids*each || failed.Load() != 0 {
		t.Errorf("%d messages confirmed of %d, %d with an error", confirmed.Load(), ids*each, failed.Load())
	}
	book.check(t, ids, each)
	for k := range l.acked {
		sum, err := nodes[1+k%3].purses.Ask(ctx, "p"+strconv.Itoa(k), 0, sharding.Retry())
		if err != nil || sum < l.acked[k].Load() || sum > l.tried[k].Load() {
			t.Errorf("purse %d holds %d, %v: acknowledged %d, tried %d", k, sum, err, l.acked[k].Load(), l.tried[k].Load())
		}
		if l.acked[k].Load() == 0 {
			t.Error("no load")
		}
	}
	if err := producer.Close(); err != nil {
		t.Error(err)
	}
}
