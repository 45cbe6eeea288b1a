package replication

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// pairs lets frames pass between the members of each pair only.
func (w *world) pairs(linked ...[2]gossip.NodeID) {
	in := map[[2]gossip.NodeID]bool{}
	for _, p := range linked {
		in[p], in[[2]gossip.NodeID{p[1], p[0]}] = true, true
	}
	w.cut = func(a, b gossip.NodeID) bool { return !in[[2]gossip.NodeID{a, b}] }
}

// A write that reaches others late is not stamped anew: a later write that has seen it
// stands. (With acknowledgements that carry stamps, and a second write above them, w2
// undoes w3, which was acknowledged after w2 had been read.)
func TestWriteIsNotStampedAnew(t *testing.T) {
	h := registers(t, 3)
	// w1 comes to stand at 1 alone, above what 2 and 3 know: it reaches nobody in time.
	h.pairs([2]gossip.NodeID{1, 2})
	h.dropKind = func(m Message) bool { _, deltas := m.(*Deltas); return deltas }
	h.writeAt(1)
	h.run(3 * time.Second)
	// w2 at 2 asks 3, and reaches nobody with its write but a reader at 3.
	h.pairs([2]gossip.NodeID{2, 3})
	h.writeAt(2)
	h.run(500 * time.Millisecond)
	h.readAt(3)
	h.run(500 * time.Millisecond)
	// w3 at 1 reads w2 at 3 and writes above it, at 1 and 3.
	h.pairs([2]gossip.NodeID{1, 3})
	h.dropKind = nil
	h.writeAt(1)
	h.run(500 * time.Millisecond)
	// Now w2 reaches the others, and ends.
	h.cut = nil
	h.run(time.Second)
	for _, id := range h.order {
		h.readAt(id)
		h.run(time.Second)
	}
	if wrong := h.verdict(); wrong != "" {
		t.Fatal(wrong)
	}
	if got, _ := h.nodes[2].core.Value(registerKey).(*crdt.LWWRegister[string]).Value(); got != h.ops[len(h.ops)-4].Input {
		t.Errorf("%q stands", got)
	}
}

// A write asks again when former voters no longer count: those who answered may have
// caught up since.
func TestStampsAreAskedForAnewWhenKeptSetsAreDropped(t *testing.T) {
	h := registers(t, 3)
	h.pairs([2]gossip.NodeID{1, 2})
	h.writeAt(1)
	h.run(2 * time.Second)
	h.writeAt(1)
	h.run(2 * time.Second)
	h.start(4)
	h.start(5)
	h.pairs([2]gossip.NodeID{3, 4}, [2]gossip.NodeID{3, 5}, [2]gossip.NodeID{4, 5})
	h.setView(h.next(add(gossip.Up, 4, 5)))
	h.writeAt(3) // of 3, 4 and 5 none knows what 1 and 2 have acknowledged
	h.run(100 * time.Millisecond)
	if len(h.nodes[3].core.table.writes) != 0 {
		t.Fatal("written above the stamps of a majority that met no majority of the former view")
	}
	h.cut = nil
	h.run(3 * time.Second)
	h.readAt(5)
	h.run(3 * time.Second)
	if wrong := h.verdict(); wrong != "" {
		t.Fatal(wrong)
	}
}

// A write without an answer from the level changes nothing, and says so.
func TestWriteThatLearnsNoStampsChangesNothing(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.cut = func(a, b gossip.NodeID) bool { return true }
	r := w.reply(1, w.update(1, majority, replicator.Fence{}, stampRegister(1, "v")))
	var q *replicator.Error
	if !errors.As(r.Err, &q) || !q.Unchanged || !errors.Is(r.Err, replicator.ErrOutcomeUnknown) {
		t.Errorf("%v", r.Err)
	}
	if w.nodes[1].core.Value(registerKey) != nil {
		t.Error("written here")
	}
}

// A stamp at the end of the range is an error, and not a write that is lost.
func TestNoStampIsAboveTheLast(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	for _, malformed := range []uint64{timeMax, math.MaxUint64 - 1, math.MaxUint64} {
		if r := w.reply(2, w.update(2, majority, replicator.Fence{}, fixedIn(registerKey, "never", crdt.Stamp{Time: malformed, Node: 2}))); !errors.Is(r.Err, replicator.ErrAhead) {
			t.Errorf("%d: %v", malformed, r.Err)
		}
	}
	if r := w.reply(2, w.update(2, majority, replicator.Fence{}, fixedIn(registerKey, "last", crdt.Stamp{Time: timeMax - 1, Node: 2}))); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, level := range []replicator.Level{replicator.Local, majority} {
		if r := w.reply(2, w.update(2, level, replicator.Fence{}, stampRegister(2, "v"))); !errors.Is(r.Err, replicator.ErrStamp) {
			t.Errorf("%v: %v", level, r.Err)
		}
	}
	if r := w.reply(3, w.update(3, majority, replicator.Fence{}, operation.Op{Key: registerKey, Delete: true})); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, stampRegister(1, "free again"))); r.Err != nil {
		t.Error(r.Err)
	}
	if v := w.reply(2, w.read(2, majority, replicator.Fence{}, registerKey)).Values[0]; v == nil {
		t.Error("nothing")
	} else if got, _ := v.(*crdt.LWWRegister[string]).Value(); got != "free again" {
		t.Errorf("%q", got)
	}
}

// A replica that is five deletions behind deletes above all of them, and writes into the
// newest generation.
func TestGenerationsAreAskedForToo(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoStream, c.NoGossip, c.SpreadMax = true, true, time.Minute })
	w.pairs([2]gossip.NodeID{1, 2})
	for range 5 {
		w.reply(1, w.update(1, majority, replicator.Fence{}, stampRegister(1, "old")))
		w.reply(1, w.update(1, majority, replicator.Fence{}, operation.Op{Key: registerKey, Delete: true}))
	}
	w.pairs([2]gossip.NodeID{2, 3})
	if r := w.reply(3, w.update(3, majority, replicator.Fence{}, stampRegister(3, "new"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := w.reply(2, w.read(2, majority, replicator.Fence{}, registerKey)).Values[0]; got == nil {
		t.Fatal("an acknowledged write is gone: it was made in a generation that had ended")
	}
	if r := w.reply(3, w.update(3, majority, replicator.Fence{}, operation.Op{Key: registerKey, Delete: true})); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.pairs([2]gossip.NodeID{1, 2})
	if got := w.reply(1, w.read(1, majority, replicator.Fence{}, registerKey)).Values[0]; got != nil {
		t.Error("an acknowledged deletion has ended nothing")
	}
}

// What a newcomer sets is above what all had forgotten before it came.
func TestStampsAreAboveWhatWasForgottenBeforeThisReplicaCame(t *testing.T) {
	w := newWorld(t, 1, 1, nil)
	c := w.nodes[1].core
	c.barrier.inherited = 1 << 50
	for _, entry := range []string{"a", "b"} {
		w.reply(1, w.update(1, replicator.Local, replicator.Fence{}, operation.Op{Key: "m", Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
			return operation.Plan{Entries: []string{entry}, Stamped: func(v crdt.Value, above []uint64, _ uint64) crdt.Value {
				return v.(*entryMap).Set(entry, "v", crdt.Stamp{Time: above[0] + 1, Node: 1})
			}}, nil
		}}))
		if s, _ := c.Value("m").(*entryMap).Stamp(entry); s.Time <= 1<<50 {
			t.Errorf("%s at %d", entry, s.Time)
		}
	}
}
