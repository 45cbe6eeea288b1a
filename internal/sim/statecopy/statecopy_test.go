package statecopy

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// world has processes with Copies of one type, on one schedule.
type world struct {
	t        *testing.T
	schedule virtual.Schedule
	homes    map[gossip.NodeID]*home
	view     *gossip.View
	// cut has the processes that reach no other.
	cut map[gossip.NodeID]bool
}

// home is the Env of one process, and notes what it is told.
type home struct {
	*world
	id     gossip.NodeID
	thread *virtual.Thread
	clock  virtual.Clock
	copies *Copies
	log    []string
}

func (h *home) Now() clock.Instant               { return h.clock.Read(h.schedule.Now()) }
func (h *home) Put(do func())                    { h.thread.After(0, do) }
func (h *home) Later(d time.Duration, do func()) { h.thread.After(d, do) }
func (h *home) NewTimer(fire func()) *virtual.Timer {
	return virtual.NewTimer(h.thread, h.clock, func() time.Duration { return 0 }, fire)
}

func (h *home) Send(to gossip.NodeID, m standby.Message) {
	if p := h.homes[to]; p != nil && !h.cut[h.id] && !h.cut[to] {
		h.thread.After(time.Millisecond, func() { p.copies.Receive(h.id, m) })
	}
}

func (h *home) note(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }

func (h *home) Ready(st protocol.ShardToken, states map[int]uint64, short bool) {
	h.note("ready %d %v short %v", st.Token.Seq, states, short)
}
func (h *home) Superseded(st protocol.ShardToken) { h.note("superseded %d", st.Token.Seq) }
func (h *home) Kept(_ protocol.ShardToken, entity int, state uint64) {
	h.note("kept %d of %d", state, entity)
}
func (h *home) Announced(protocol.ShardID, standby.Layout) {}
func (h *home) Recorded(standby.Announced)                 {}
func (h *home) Reply(msg *datapath.Message, kept bool)     { h.note("reply %d %v", msg.Call, kept) }

// expect compares the log of a process since the last call.
func (h *home) expect(what string, want ...string) {
	h.t.Helper()
	if !slices.Equal(h.log, want) {
		h.t.Errorf("%s: %q, want %q", what, h.log, want)
	}
	h.log = nil
}

// newWorld returns processes that are members, and that host a type with as many copies.
func newWorld(t *testing.T, ids ...gossip.NodeID) *world {
	w := &world{t: t, homes: map[gossip.NodeID]*home{}, cut: map[gossip.NodeID]bool{}}
	for _, id := range ids {
		h := &home{world: w, id: id, clock: virtual.NewClock(1, 0)}
		h.thread = virtual.NewThread(&w.schedule)
		h.copies = New(id, "t", h, 0)
		h.copies.Configure(Hosted{Replicas: len(ids)})
		w.homes[id] = h
	}
	w.setMembers(ids...)
	w.pass(time.Second)
	return w
}

// setMembers gives all processes the next view.
func (w *world) setMembers(ids ...gossip.NodeID) {
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	if w.view != nil {
		v.Epoch = w.view.Epoch + 1
	}
	for _, id := range ids {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	w.view = v
	for _, id := range slices.Sorted(maps.Keys(w.homes)) {
		w.homes[id].copies.SetView(v)
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for end := w.schedule.Now().Add(d); w.schedule.Next(end); {
	}
}

// allocation is the shard of all tests under one of its tokens.
func allocation(seq uint64) protocol.ShardToken {
	return protocol.ShardToken{Shard: 2, Token: protocol.Token{Term: gossip.FirstEpoch(1), Seq: seq}}
}

func ask(call uint64) *datapath.Message { return &datapath.Message{Call: call} }

// keepFirst has process 1 be the home of the shard, with a state that all processes have.
func keepFirst(w *world) *home {
	w.t.Helper()
	h := w.homes[1]
	h.copies.Begin(allocation(1))
	w.pass(time.Second)
	h.expect("a shard that never had a state", "ready 1 map[] short false")
	h.copies.Keep(allocation(1), 7, 70, ask(1))
	h.expect("before a copy has the state")
	w.pass(time.Second)
	h.expect("once the copies have it", "kept 70 of 7", "reply 1 true")
	return h
}

// An answer waits for a majority of the copies, and the next home begins with what was kept.
func TestAnswersWaitForCopies(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	h := keepFirst(w)
	w.cut[3] = true
	h.copies.Keep(allocation(1), 7, 71, ask(2))
	h.copies.Keep(allocation(1), 7, 72, ask(3))
	w.pass(time.Second)
	h.expect("two of three have the newer states", "kept 72 of 7", "reply 2 true", "reply 3 true")

	h.copies.Keep(allocation(1), 7, 73, ask(4))
	w.pass(time.Millisecond)
	h.copies.Keep(allocation(1), 7, 74, ask(5))
	w.pass(time.Second)
	h.expect("a state that came while another was in flight", "kept 73 of 7", "reply 4 true", "kept 74 of 7", "reply 5 true")

	gone := false
	h.copies.Finish(allocation(1), time.Second, func() { gone = true })
	w.pass(time.Second)
	if !gone {
		t.Error("a shard whose states are kept does not leave")
	}
	w.cut[1], w.cut[3] = true, false
	w.setMembers(2, 3)
	next := w.homes[3]
	next.copies.Begin(allocation(2))
	w.pass(time.Second)
	next.expect("the next home, which had an older copy", "ready 2 map[7:74] short false")
}

// Without a majority an answer fails in time, and so do those of a shard that is abandoned or lives
// elsewhere.
func TestAnswersWithoutCopiesFail(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	h := keepFirst(w)
	w.cut[2], w.cut[3] = true, true
	h.copies.Keep(allocation(1), 7, 71, ask(2))
	w.pass(replyTimeout - 10*time.Millisecond)
	h.expect("before its time is over")
	w.pass(2 * lookEvery)
	h.expect("after it", "reply 2 false")

	h.copies.Keep(allocation(2), 7, 72, ask(3))
	h.expect("of an allocation that does not live here", "reply 3 false")
	h.copies.Keep(allocation(1), 7, 73, ask(4))
	h.copies.AbandonAll()
	h.expect("of a shard that is abandoned", "reply 4 false")
}

// A shard leaves without its last states when its time is over.
func TestAShardLeavesInTime(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	h := keepFirst(w)
	w.cut[2], w.cut[3] = true, true
	h.copies.Keep(allocation(1), 7, 71, ask(2))
	gone := false
	h.copies.Finish(allocation(1), time.Second, func() { gone = true })
	if w.pass(time.Second - lookEvery); gone {
		t.Error("it leaves before its states are kept or its time is over")
	}
	w.pass(3 * lookEvery)
	if h.expect("it leaves", "reply 2 false"); !gone {
		t.Error("it does not leave in time")
	}
	gone = false
	if h.copies.Finish(allocation(1), time.Hour, func() { gone = true }); !gone {
		t.Error("a shard that does not live here does not leave immediately")
	}
}

// A home that a later one has superseded learns it from a holder, and keeps nothing.
func TestASupersededHomeEnds(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	h := keepFirst(w)
	next := w.homes[2]
	next.copies.Begin(allocation(2))
	w.pass(time.Second)
	next.expect("the next home", "ready 2 map[7:70] short false")
	h.copies.Keep(allocation(1), 7, 71, ask(2))
	w.pass(time.Second)
	h.expect("the former home", "reply 2 false", "superseded 1")
}

// Too many holders are gone: the next home says that states may be missing.
func TestLostCopiesAreReported(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	h := keepFirst(w)
	w.cut[3] = true
	h.copies.Keep(allocation(1), 7, 71, ask(2))
	w.pass(time.Second)
	h.expect("two of three have it", "kept 71 of 7", "reply 2 true")
	w.cut[1], w.cut[2], w.cut[3] = true, true, false
	w.setMembers(3)
	w.pass(time.Second)
	last := w.homes[3]
	last.copies.Begin(allocation(2))
	w.pass(time.Second)
	last.expect("the last holder", "ready 2 map[7:70] short true")
}

// A message of a process that is in no view yet waits for the view.
func TestEarlyMessagesWaitForTheView(t *testing.T) {
	w := newWorld(t, 1, 2)
	h, answers := w.homes[1], w.homes[2]
	w.homes[3] = answers // the answer to 3 would come here
	h.copies.Receive(3, standby.Collect{Shard: 2, Token: allocation(1).Token})
	w.pass(time.Second)
	if n := len(h.copies.early); n != 1 {
		t.Fatalf("%d messages wait", n)
	}
	delete(w.homes, 3)
	w.setMembers(1, 2, 3)
	w.pass(time.Second)
	if n := len(h.copies.early); n != 0 {
		t.Errorf("%d messages wait after the view", n)
	}
	h.copies.Begin(protocol.ShardToken{Shard: 2, Token: protocol.Token{Term: 1}})
	w.pass(time.Second)
	h.expect("the message of 3 has raised the fence", "superseded 0")
}
