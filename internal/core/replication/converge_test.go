package replication

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// oracle merges every delta that anybody ever made: what all replicas must hold
// in the end.
type oracle map[string]crdt.Value

// spy wraps an op so that the oracle gets its delta.
func (o oracle) spy(op operation.Op) operation.Op {
	plan := op.Plan
	op.Plan = func(v crdt.Value) (operation.Plan, error) {
		p, err := plan(v)
		apply := p.Apply
		p.Apply = func(v crdt.Value) crdt.Value {
			d := apply(v)
			if d != nil {
				if o[op.Key] == nil {
					o[op.Key], _ = crdt.New(op.Kind)
				}
				if _, err := o[op.Key].Join(d); err != nil {
					panic(err)
				}
			}
			return d
		}
		return p, err
	}
	return op
}

func (o oracle) check(t testing.TB, w *world) {
	t.Helper()
	for _, id := range w.order {
		c := w.nodes[id].core
		if got := c.Keys(""); len(got) != len(o) {
			t.Fatalf("node %v holds %d keys, the oracle %d", id, len(got), len(o))
		}
		for key, want := range o {
			if got := c.Value(key); got == nil || got.Digest() != want.Digest() {
				t.Fatalf("node %v, key %s: differs from what was written", id, key)
			}
		}
	}
}

// randomOp returns an op on one of a few keys.
func randomOp(rng *rand.Rand, id gossip.NodeID, n int) operation.Op {
	k := fmt.Sprint(rng.IntN(4))
	switch rng.IntN(5) {
	case 0:
		return count(id, "c"+k, uint64(rng.IntN(9)+1))
	case 1:
		return setIn(id, "m"+k, fmt.Sprint(rng.IntN(5)), fmt.Sprint(n), uint64(n), 1)
	case 2:
		return removeFrom("s"+k, fmt.Sprint(rng.IntN(20)))
	}
	return addTo(id, "s"+k, fmt.Sprint(rng.IntN(20)))
}

func TestEachWayOfSpreadingConvergesAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		tweak func(*Config)
	}{
		{"deltas alone, a third lost", func(c *Config) { c.NoGossip = true }},
		{"anti-entropy alone, a third lost", func(c *Config) { c.NoStream = true }},
		{"both, a third lost", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(40) {
				w := newWorld(t, seed, 5, c.tweak)
				w.drop, w.dup, w.delayMax = 0.33, 0.2, 5*time.Millisecond
				o := oracle{}
				for i := range 60 {
					id := w.order[w.rng.IntN(5)]
					w.update(id, replicator.Local, replicator.Fence{}, o.spy(randomOp(w.rng, id, i)), o.spy(randomOp(w.rng, id, i)))
					w.run(time.Duration(w.rng.IntN(10)) * time.Millisecond)
				}
				w.settle(20 * time.Second)
				o.check(t, w)
			}
		})
	}
}

func TestHealedPartitionConverges(t *testing.T) {
	w := newWorld(t, 1, 5, nil)
	o := oracle{}
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 3) != (b <= 3) }
	acked := 0
	for i := range 200 {
		id := w.order[i%5]
		rid := w.update(id, majority, replicator.Fence{}, o.spy(addTo(id, "k", fmt.Sprint(i))))
		w.onAnswer(id, rid, func(r Reply) {
			if r.Err == nil {
				acked++
			}
		})
		w.run(time.Millisecond)
	}
	w.run(3 * time.Second)
	if acked != 120 {
		t.Errorf("%d majority writes acknowledged, want the 120 of the larger side", acked)
	}
	w.cut = nil
	took := w.settle(10 * time.Second)
	o.check(t, w)
	t.Logf("equal %v after heal", took)
}

func TestLogThatIsTooShortIsMadeUpForByComparing(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.Limits.LogEntries = 10 })
	o := oracle{}
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	for i := range 100 {
		w.update(1, replicator.Local, replicator.Fence{}, o.spy(addTo(1, fmt.Sprint("k", i), "e")))
		w.run(time.Millisecond)
	}
	if s := w.nodes[1].core.Stats(); s.LogEntries > 10 {
		t.Errorf("the log holds %d entries", s.LogEntries)
	}
	w.cut = nil
	w.settle(10 * time.Second)
	o.check(t, w)
}

// In a large cluster, too: any peer mends what the log of its writer has lost, not only one
// that was compared often.
func TestAStreamThatStandsStillIsMendedByAnyPeer(t *testing.T) {
	const n = 20
	w := newWorld(t, 1, n, func(c *Config) { c.Limits.LogEntries = 10 })
	w.run(time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return a == n || b == n }
	for i := range 30 {
		w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", fmt.Sprint(i)))
		w.run(5 * time.Millisecond)
	}
	w.cut = nil
	if took := w.settle(20 * time.Second); took > 4*w.nodes[1].core.cfg.GossipEvery {
		t.Errorf("mended after %v", took)
	}
}

func TestIdleCostDoesNotGrowWithKeys(t *testing.T) {
	t.Parallel()
	cost := func(keys int) (frames, bytes int) {
		w := newWorld(t, 1, 5, nil)
		w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", "e"))
		for i := range keys {
			w.update(1, replicator.Local, replicator.Fence{}, addTo(1, fmt.Sprint("k", i), "e"))
			if i%1000 == 0 {
				w.run(5 * time.Millisecond)
			}
		}
		w.settle(20 * time.Second)
		w.run(5 * time.Second)
		w.frames, w.bytes = 0, 0
		w.run(20 * time.Second)
		return w.frames, w.bytes
	}
	f1, b1 := cost(10)
	f2, b2 := cost(3000)
	t.Logf("10 keys: %d frames, %d B/s per node; 3000 keys: %d frames, %d B/s per node", f1, b1/100, f2, b2/100)
	if f1 != f2 || b2 > b1+f1*8 {
		t.Errorf("cost at rest grew from %d frames, %d bytes to %d, %d", f1, b1, f2, b2)
	}
	if b2/100 > 1024 {
		t.Errorf("%d B/s per node at rest", b2/100)
	}
}

func TestJoinerIsFilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3, nil)
	const keys = 5000
	for i := range keys {
		w.update(1, replicator.Local, replicator.Fence{}, addTo(1, fmt.Sprintf("key-%06d", i), strings.Repeat("x", 60)))
		if i%100 == 0 {
			w.run(5 * time.Millisecond)
		}
	}
	w.settle(10 * time.Second)
	w.run(time.Second)
	w.bytes = 0
	w.start(4)
	w.setView(w.next(add(gossip.Joining, 4)))
	took := w.settle(2 * time.Second)
	t.Logf("%d keys in %v of virtual time, %d bytes on the wire", keys, took, w.bytes)
	if n := w.nodes[4].core.Stats().ValuesReceived; n > keys*11/10 {
		t.Errorf("%d values moved for %d keys", n, keys)
	}
	// It counts only once the view says so.
	w.cut = func(a, b gossip.NodeID) bool { return a == 2 || b == 2 || a == 3 || b == 3 }
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))); r.Err == nil {
		t.Error("a joining member was counted")
	}
}

func TestValueLargerThanAFrame(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, seed, 3, func(c *Config) { c.Limits.FrameBytes = 4096 })
		w.drop, w.dup = 0.1, 0.1
		largest, full := 0, map[gossip.NodeID]int{}
		w.posted = func(_, to gossip.NodeID, m Message) {
			n := len(Append(nil, m))
			if largest = max(largest, n); n > 2000 {
				full[to]++
			}
		}
		o := oracle{}
		var ops []operation.Op
		for i := range 1000 {
			// Nothing to pack: frames are packed before they are cut.
			ops = append(ops, o.spy(addTo(1, "big", fmt.Sprintf("%d-%x%x%x%x", i, w.rng.Uint64(), w.rng.Uint64(), w.rng.Uint64(), w.rng.Uint64()))))
		}
		if r := w.reply(1, w.update(1, majority, replicator.Fence{}, ops...)); r.Err != nil {
			t.Fatal(r.Err)
		}
		w.settle(20 * time.Second)
		w.drop = 0
		w.start(4)
		w.setView(w.next(add(gossip.Joining, 4)))
		w.settle(20 * time.Second)
		o.check(t, w)
		// 32,000 bytes of chance to each, in more letters.
		if largest > 4096 || full[2] < 10 || full[3] < 10 || full[4] < 10 {
			t.Fatalf("seed %d: frames of up to %d bytes; full ones to each: %v", seed, largest, full)
		}
	}
}

func TestBusyWritersMoveNoWholeValues(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	var fill []operation.Op
	for i := range 4000 {
		fill = append(fill, setIn(1, "map", fmt.Sprint("entry", i), "value", 1, uint64(i+1)))
	}
	w.reply(1, w.update(1, replicator.All, replicator.Fence{}, fill...))
	w.run(3 * time.Second)
	w.bytes, w.frames = 0, 0
	const writes = 1000
	failed := 0
	for i := range writes {
		id := w.order[i%3]
		w.onAnswer(id, w.update(id, majority, replicator.Fence{}, setIn(id, "map", fmt.Sprint("entry", i), "new", 2, uint64(i+1))), func(r Reply) {
			if r.Err != nil {
				failed++
			}
		})
		w.run(2 * time.Millisecond)
	}
	w.settle(5 * time.Second)
	t.Logf("%d bytes per majority write at 3 nodes", w.bytes/writes)
	if failed > 0 || w.bytes/writes > 600 {
		t.Errorf("%d failed, %d bytes per write of a 3-byte value into a map of 4000 entries", failed, w.bytes/writes)
	}
}

// removedOriginCase: what only one survivor has of a node that is gone reaches
// the others by anti-entropy.
func TestChangeOfADeadWriterSpreads(t *testing.T) {
	w := newWorld(t, 1, 4, nil)
	w.dropKind = func(m Message) bool { _, ok := m.(*Deltas); return ok }
	w.cut = func(a, b gossip.NodeID) bool { return a == 1 && b != 2 || b == 1 && a != 2 }
	w.update(1, replicator.To(2), replicator.Fence{}, addTo(1, "k", "e"))
	w.run(time.Millisecond)
	w.dropKind = nil
	w.run(200 * time.Millisecond)
	if len(elements(w.nodes[2].core.Value("k"))) != 1 || w.nodes[3].core.Value("k") != nil {
		t.Fatal("not the situation that this test is about")
	}
	w.crash(1)
	w.cut = nil
	w.setView(w.next(remove(1)))
	took := w.settle(3 * time.Second)
	if !slices.Equal(elements(w.nodes[4].core.Value("k")), []string{"e"}) {
		t.Error("lost")
	}
	t.Logf("everywhere %v after the view", took)
	w.run(3 * time.Second)
	for _, id := range w.order {
		if _, still := w.nodes[id].core.stream.tracks[1]; still {
			t.Errorf("node %v still keeps the stream of a node that is gone", id)
		}
	}
}

// The marks of S9: what a core holds for others stays bounded, whatever they do, and each
// limit is met: that on entries by small ones, those on bytes and transfers by large ones
// in which there is nothing to pack.
func TestPeersThatNeverAnswerCostABoundedAmount(t *testing.T) {
	for _, words := range []int{1, 200} {
		w := newWorld(t, 1, 3, func(c *Config) {
			c.Limits = Limits{LogEntries: 25, LogBytes: 1 << 16, Pending: 50, FrameBytes: 1024, Transfers: 2}
		})
		w.cut = func(a, b gossip.NodeID) bool { return true }
		refused, transfers, entries, bytes, most := 0, 0, 0, 0, 0
		for i := range 300 {
			var e strings.Builder
			for range words {
				fmt.Fprintf(&e, "%016x", w.rng.Uint64())
			}
			most = 1<<16 + e.Len() + 200
			rid := w.update(1, majority, replicator.Fence{}, addTo(1, fmt.Sprint("k", i), e.String()))
			if r, ok := w.nodes[1].replies[rid]; ok && r.Err != nil {
				refused++
			}
			c := w.nodes[1].core
			s := c.Stats()
			transfers, entries, bytes = max(transfers, len(c.members.peers[0].out.queue)), max(entries, s.LogEntries), max(bytes, s.LogBytes)
			if s.LogEntries > 25 || s.LogBytes > most || s.Pending > 50 || transfers > 2 {
				t.Fatalf("%+v, %d transfers", s, transfers)
			}
		}
		if small := words == 1; small != (entries == 25) || small == (bytes > 60_000) || small == (transfers == 2) {
			t.Errorf("%d words: up to %d entries of %d bytes, %d transfers: the limits were not met", words, entries, bytes, transfers)
		}
		if refused != 250 {
			t.Errorf("%d requests refused, want 250", refused)
		}
		w.run(10 * time.Second)
		if s := w.nodes[1].core.Stats(); s.Pending != 0 || s.QuorumErrors != 50 {
			t.Errorf("%+v", s)
		}
	}
}
