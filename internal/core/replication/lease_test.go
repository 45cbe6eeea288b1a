package replication

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// leased is a world in which some nodes hold no lease.
func leased(t *testing.T, n int, without map[gossip.NodeID]bool) *world {
	return newWorld(t, 1, n, func(c *Config) {
		self := c.Self
		c.LeaseValid = func() bool { return !without[self] }
	})
}

// removedMajority: of 1 to 4 only 1 goes on, with 5 and 6 that join it. The other three,
// which were cut off, are removed and do not know it: they have no lease, and are a
// majority of the view that they hold.
func removedMajority(t *testing.T) string {
	without := map[gossip.NodeID]bool{}
	w := leased(t, 4, without)
	lost := ids(2, 3, 4)
	w.cut = func(a, b gossip.NodeID) bool { return slices.Contains(lost, a) != slices.Contains(lost, b) }
	for _, id := range lost {
		without[id] = true
	}
	w.start(5)
	w.start(6)
	v := w.next(func(v *gossip.View) { remove(lost...)(v); add(gossip.Up, 5, 6)(v) })
	w.view = v
	for _, id := range ids(1, 5, 6) {
		w.step(id, ViewChanged{View: v})
	}
	w.run(time.Second)
	if r := w.reply(5, w.update(5, majority, replicator.Fence{}, addTo(5, "k", "of those that go on"))); r.Err != nil {
		return fmt.Sprintf("the majority that goes on cannot write: %v", r.Err)
	}
	for _, level := range []replicator.Level{replicator.To(2), majority, replicator.All} {
		if r := w.reply(2, w.read(2, level, replicator.Fence{}, "k")); r.Err == nil && level == majority {
			return fmt.Sprintf("a majority read misses what a majority had confirmed: it has %v", elements(r.Values[0]))
		} else if !errors.Is(r.Err, replicator.ErrNoLease) {
			return fmt.Sprintf("a read at %v of one that was removed: %v", level, r.Err)
		}
		r := w.reply(3, w.update(3, level, replicator.Fence{}, addTo(3, "k", "lost")))
		if r.Err == nil {
			return fmt.Sprintf("a write at %v was confirmed, and is lost", level)
		}
		if !errors.Is(r.Err, replicator.ErrNoLease) || !errors.Is(r.Err, replicator.ErrOutcomeUnknown) {
			return fmt.Sprintf("a write at %v of one that was removed: %v", level, r.Err)
		}
	}
	return ""
}

// The whole role is cut off, and others with the role come: the same with no common
// member at all.
func TestARoleThatWasCutOffConfirmsNothing(t *testing.T) {
	without := map[gossip.NodeID]bool{}
	w := leased(t, 3, without)
	lost := ids(1, 2, 3)
	w.cut = func(a, b gossip.NodeID) bool { return slices.Contains(lost, a) != slices.Contains(lost, b) }
	for _, id := range ids(4, 5) {
		w.start(id)
	}
	// Requests under way when the lease ends do not end well either.
	w.delayMax = 100 * time.Millisecond
	write := w.update(1, majority, replicator.Fence{}, addTo(1, "k", "lost"))
	read := w.read(2, majority, replicator.Fence{}, "k")
	for _, id := range lost {
		without[id] = true
	}
	w.run(500 * time.Millisecond)
	w.delayMax = 200 * time.Microsecond
	w.setView(w.next(func(v *gossip.View) { remove(lost...)(v); add(gossip.Up, 4, 5)(v) }))
	if r := w.reply(4, w.update(4, majority, replicator.Fence{}, addTo(4, "k", "kept"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := w.reply(1, write); !errors.Is(r.Err, replicator.ErrNoLease) {
		t.Errorf("write: %v", r.Err)
	}
	if r := w.reply(2, read); !errors.Is(r.Err, replicator.ErrNoLease) || r.Values != nil {
		t.Errorf("read: %v %v", r.Values, r.Err)
	}
}

func TestRequestsWaitForTheLease(t *testing.T) {
	without := map[gossip.NodeID]bool{}
	w := leased(t, 3, without)
	w.run(time.Second)
	begin := map[string]func(replicator.Level) RequestID{
		"write": func(l replicator.Level) RequestID {
			return w.update(1, l, replicator.Fence{}, addTo(1, "k", fmt.Sprint(w.now)))
		},
		"echo": func(l replicator.Level) RequestID {
			return w.update(1, l, replicator.Fence{}, setIn(1, "m", "k", "v", 7, 1))
		},
		"read": func(l replicator.Level) RequestID { return w.read(1, l, replicator.Fence{}, "k") },
	}
	for _, name := range []string{"write", "echo", "read"} {
		for _, level := range []replicator.Level{replicator.To(2), majority, replicator.All} {
			for _, told := range []bool{true, false} {
				without[1] = true
				rid := begin[name](level)
				w.run(500 * time.Millisecond)
				if r, ok := w.nodes[1].replies[rid]; ok {
					t.Fatalf("%s at %v without a lease: %+v", name, level, r)
				}
				delete(without, 1)
				if told {
					w.step(1, LeaseRegained{})
				} else {
					w.run(50 * time.Millisecond) // ResendAfter
				}
				if r, ok := w.nodes[1].replies[rid]; !ok || r.Err != nil {
					t.Errorf("%s at %v, told %v, with the lease back: %+v", name, level, told, r)
				}
			}
		}
		without[1] = true
		for _, level := range []replicator.Level{replicator.Local, replicator.To(1)} {
			if r, ok := w.nodes[1].replies[begin[name](level)]; !ok || r.Err != nil {
				t.Errorf("%s at %v without a lease: %+v", name, level, r)
			}
		}
	}
}

func TestDeadlineWithoutALease(t *testing.T) {
	without := map[gossip.NodeID]bool{1: true}
	w := leased(t, 3, without)
	w.run(time.Second)
	start := w.now
	r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e")))
	var q *replicator.Error
	if !errors.As(r.Err, &q) || q.Code != replicator.ErrNoLease || q.Got < q.Need || !errors.Is(r.Err, replicator.ErrOutcomeUnknown) || !errors.Is(r.Err, replicator.ErrNoLease) {
		t.Errorf("%+v", r.Err)
	}
	if took := w.now.Sub(start); took < 2*time.Second || took > 2010*time.Millisecond {
		t.Errorf("took %v of 2 s", took)
	}
	w.cut = func(a, b gossip.NodeID) bool { return true }
	if r := w.reply(1, w.read(1, majority, replicator.Fence{}, "k")); !errors.As(r.Err, &q) || q.Code != replicator.ErrNoLease || q.Got != 1 {
		t.Errorf("%+v", r.Err)
	}
	delete(without, 1)
	if r := w.reply(1, w.read(1, majority, replicator.Fence{}, "k")); !errors.As(r.Err, &q) || q.Code != replicator.ErrOutcomeUnknown || errors.Is(r.Err, replicator.ErrNoLease) {
		t.Errorf("with a lease, and nobody there: %+v", r.Err)
	}
	if s := w.nodes[1].core.Stats(); s.LeaseErrors != 2 || s.QuorumErrors != 3 {
		t.Errorf("%d without a lease, %d in all", s.LeaseErrors, s.QuorumErrors)
	}
	// A lease that is back by the deadline is in time, though nobody said so.
	w.cut = nil
	w.nextReq++
	rid, deadline := w.nextReq, w.now.Add(20*time.Millisecond)
	without[1] = true
	w.step(1, Read{ID: rid, Keys: []string{"k"}, Level: majority, Deadline: deadline})
	w.run(10 * time.Millisecond)
	delete(without, 1)
	if r := w.reply(1, rid); r.Err != nil || !slices.Equal(elements(r.Values[0]), []string{"e"}) {
		t.Errorf("%v, %v", r.Values, r.Err)
	}
}

// Fences and limits answer at once, with or without a lease.
func TestRefusalsDoNotWaitForTheLease(t *testing.T) {
	w := leased(t, 3, map[gossip.NodeID]bool{1: true})
	w.reply(3, w.read(3, majority, replicator.Fence{Group: "g", Term: 7}, "k"))
	w.run(time.Second)
	rid := w.update(1, majority, replicator.Fence{Group: "g", Term: 5}, addTo(1, "k", "e"))
	w.run(50 * time.Millisecond)
	if r := w.nodes[1].replies[rid]; !errors.Is(r.Err, replicator.ErrFenced) {
		t.Errorf("%+v", r)
	}
	if r := w.nodes[1].replies[w.update(1, replicator.To(4), replicator.Fence{}, addTo(1, "k", "e"))]; !errors.Is(r.Err, replicator.ErrTooFewMembers) {
		t.Errorf("%+v", r)
	}
}

// A view that is decided while the request waits counts: what was enough before is not
// now.
func TestViewThatComesWhileTheLeaseIsAwayCounts(t *testing.T) {
	without := map[gossip.NodeID]bool{1: true}
	w := leased(t, 3, without)
	w.run(time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return a > 2 || b > 2 }
	rid := w.update(1, majority, replicator.Fence{}, Mutate("n", crdt.KindGCounter, 24, func(v crdt.Value) crdt.Value {
		return v.(*crdt.GCounter).Add(1, 1)
	}))
	w.run(500 * time.Millisecond)
	for id := gossip.NodeID(4); id <= 7; id++ {
		w.start(id)
	}
	w.setView(w.next(add(gossip.Up, 4, 5, 6, 7)))
	delete(without, 1)
	w.step(1, LeaseRegained{})
	w.run(100 * time.Millisecond)
	if r, ok := w.nodes[1].replies[rid]; ok {
		t.Fatalf("two of seven are no majority: %+v", r)
	}
	w.cut = nil
	if r := w.reply(1, rid); r.Err != nil {
		t.Error(r.Err)
	}
}

// A node receives its lease before the view in which it votes. Its requests are not counted
// over the view before, in which no node of its role votes:
// two others may be voters by now, and a majority with it (seed 1003612 of the simulator's
// TestOrderly with several leaves at once).
func TestALeaseCountsOnlyWithItsView(t *testing.T) {
	w := leased(t, 3, map[gossip.NodeID]bool{})
	w.run(time.Second)
	w.start(4)
	w.setView(w.next(add(gossip.Joining, 4)))
	w.cut = func(gossip.NodeID, gossip.NodeID) bool { return true }
	write := w.update(4, majority, replicator.Fence{}, addTo(4, "k", "e"))
	read := w.read(4, majority, replicator.Fence{}, "k")
	w.setView(w.next(remove(1, 2, 3)))
	w.step(4, LeaseRegained{})
	w.run(time.Second)
	for _, rid := range []RequestID{write, read} {
		if r, ok := w.nodes[4].replies[rid]; ok {
			t.Fatalf("confirmed by nobody: %+v", r)
		}
	}
	w.setView(w.next(func(v *gossip.View) { v.Members[0].Status = gossip.Up }))
	for _, rid := range []RequestID{write, read} {
		if r, ok := w.nodes[4].replies[rid]; !ok || r.Err != nil {
			t.Errorf("%+v, with its view", r)
		}
	}
}

// A node that is joining reads a voter's values in a view that has passed, of which neither knows. A
// write was acknowledged before, by the voter of the newest view. Once the reader is a voter, its read
// must have the write: what it read before it voted does not count (seed 2501782 of internal/sim).
func TestAReadOfAJoinerCountsFromItsVote(t *testing.T) {
	w := leased(t, 1, nil)
	w.start(2)
	w.start(3)
	w.setView(w.next(add(gossip.Joining, 2, 3)))
	w.run(time.Second)

	w.cut = func(a, b gossip.NodeID) bool { return (a == 2) != (b == 2) }
	none := w.next(remove(1))
	w.view = none
	one := w.next(add(gossip.Up, 2))
	w.view = one
	w.step(2, ViewChanged{View: none})
	w.step(2, ViewChanged{View: one})
	if r := w.reply(2, w.update(2, majority, replicator.Fence{}, addTo(2, "k", "acknowledged"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	late := w.read(3, majority, replicator.Fence{}, "k")
	w.run(100 * time.Millisecond)

	w.cut = nil
	w.view = w.next(add(gossip.Up, 3))
	for _, v := range []*gossip.View{none, one, w.view} {
		w.step(3, ViewChanged{View: v})
	}
	w.step(2, ViewChanged{View: w.view})
	if r := w.reply(3, late); r.Err != nil || !slices.Equal(elements(r.Values[0]), []string{"acknowledged"}) {
		t.Errorf("the read has %v, %v", r.Values, r.Err)
	}
}
