package daemon

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func TestPlansFollowEachOther(t *testing.T) {
	members := Members{7, []gossip.NodeID{1, 2}}
	s := &State{Acked: map[gossip.NodeID]Ack{1: {Since: 5}, 2: {Since: 5}}}
	step := func(term gossip.Epoch, want Plan) {
		t.Helper()
		got, write := Next(s, term, 3, members)
		if write != (want != Plan{}) || got != want {
			t.Fatalf("plan %+v, %v, want %+v", got, write, want)
		}
		if write {
			s.Plan = got
		}
	}
	step(5, Plan{Rev{5, 1}, 3, false})
	step(5, Plan{})
	s.Acked[1] = Ack{Rev{5, 1}, 5}
	step(5, Plan{})
	s.Acked[2] = Ack{Rev{5, 1}, 5}
	step(5, Plan{Rev{5, 2}, 3, true})
	step(5, Plan{})
	step(6, Plan{}) // a new term leaves what runs
	s.Wish = 5
	step(4, Plan{}) // one that was replaced writes nothing
	step(6, Plan{Rev{6, 1}, 5, false})
	s.Wish = 2 // another wish meanwhile asks for another stop
	step(6, Plan{Rev{6, 2}, 2, false})
	s.Acked[1], s.Acked[3] = Ack{Rev{6, 2}, 5}, Ack{Rev{5, 1}, 5}
	step(6, Plan{})
	members = Members{8, []gossip.NodeID{1, 7}} // 2 is out of the view, 7 does not host
	s.Acked[4] = Ack{Since: 9}                  // the writer's view is older than 4
	step(6, Plan{})
	s.Acked[4] = Ack{Rev{6, 2}, 9}
	step(6, Plan{Rev{6, 3}, 2, true})
	if gone := Stale(s, members); len(gone) != 2 || slices.Contains(gone, 1) || slices.Contains(gone, 4) {
		t.Errorf("stale are %v", gone)
	}
}

// What runs is left alone, and a plan names workers from 0 to one less than their number,
// while they are to run.
func TestPlansRunWhatTheySay(t *testing.T) {
	running := Plan{Rev{5, 2}, 3, true}
	if p, write := Next(&State{Plan: running}, 5, 3, Members{Epoch: 5}); write {
		t.Errorf("%+v is written although %+v runs", p, running)
	}
	for worker, want := range map[int]bool{-1: false, 0: true, 2: true, 3: false} { // order-free: a table
		if running.Runs(worker) != want {
			t.Errorf("worker %d of 3 runs: %v", worker, !want)
		}
		if stopping := (Plan{Rev{5, 3}, 3, false}); stopping.Runs(worker) {
			t.Errorf("worker %d runs while all are to end", worker)
		}
	}
}

// world is a register that holds what a majority holds, and nodes that look at it.
type world struct {
	rand  *rand.Rand
	state State
	nodes map[gossip.NodeID]*worker
	// members are those of the newest view, whose number is epoch; known is the view that
	// the coordinator in office holds, which may be older.
	members []gossip.NodeID
	epoch   gossip.Epoch
	known   Members
	term    gossip.Epoch
	fence   gossip.Epoch
	// pending are writes of coordinators that have not arrived.
	pending []pending
	next    gossip.NodeID
	mutant  mutant
}

// mutant is a bug that a test plants.
type mutant int

const (
	sound mutant = iota
	// skipAck: a node acknowledges before it has ended its workers.
	skipAck
	// noSince: a node does not say by which view it is a member, so that a coordinator
	// with an older one takes it for one that has left.
	noSince
)

type pending struct {
	term gossip.Epoch
	plan Plan
	gone []gossip.NodeID
}

// worker is a node: what it has seen, and under which number of workers its
// workers run.
type worker struct {
	plan    Plan
	ready   bool
	present bool
	since   gossip.Epoch
	runs    map[int]int
}

func newWorld(seed uint64) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), nodes: map[gossip.NodeID]*worker{}, term: 1}
	w.state.Acked = map[gossip.NodeID]Ack{}
	for range 3 {
		w.join()
	}
	w.catchUp()
	return w
}

func (w *world) join() {
	w.next++
	w.epoch++
	w.nodes[w.next] = &worker{runs: map[int]int{}, since: w.epoch}
	if w.mutant == noSince {
		w.nodes[w.next].since = 0
	}
	w.members = append(w.members, w.next)
}

// catchUp gives the coordinator in office the newest view.
func (w *world) catchUp() { w.known = Members{w.epoch, slices.Clone(w.members)} }

// leave takes a node out of the view: its lease ended before, so it runs nothing.
func (w *world) leave(i int) {
	delete(w.nodes, w.members[i])
	w.members = slices.Delete(w.members, i, i+1)
	w.epoch++
	w.term = w.epoch // somebody takes office in this view
	w.catchUp()
}

func (w *world) step() {
	switch w.rand.IntN(13) {
	case 0:
		if w.rand.IntN(6) == 0 {
			w.state.Wish = 1 + w.rand.IntN(4)
		}
	case 1:
		if len(w.members) < 4 {
			w.join()
		}
	case 2:
		if len(w.members) > 1 && w.rand.IntN(6) == 0 {
			w.leave(w.rand.IntN(len(w.members)))
		}
	case 3, 4:
		w.office(w.term)
	case 5:
		w.deliver()
	case 6:
		w.catchUp()
	default:
		w.node(w.members[w.rand.IntN(len(w.members))])
	}
}

// office reads, fenced, and sends the next plan on its way.
func (w *world) office(term gossip.Epoch) {
	w.fence = max(w.fence, term)
	if p, write := Next(&w.state, term, 2, w.known); write {
		w.pending = append(w.pending, pending{term, p, Stale(&w.state, w.known)})
	}
}

// deliver lets a write arrive, maybe late. A fenced one is merged too, as
// the replicator does: its stamp orders it.
func (w *world) deliver() {
	if len(w.pending) == 0 {
		return
	}
	i := w.rand.IntN(len(w.pending))
	if p := w.pending[i].plan; p.Rev.Compare(w.state.Plan.Rev) > 0 {
		w.state.Plan = p
	}
	for _, n := range w.pending[i].gone {
		delete(w.state.Acked, n)
	}
	w.pending = slices.Delete(w.pending, i, i+1)
}

func (w *world) node(id gossip.NodeID) {
	n := w.nodes[id]
	switch {
	case !n.present:
		n.present = true
		w.state.Acked[id] = Ack{Since: n.since}
		return
	case !n.ready || w.rand.IntN(2) == 0:
		n.ready = true
		if w.state.Plan.Rev.Compare(n.plan.Rev) > 0 {
			n.plan = w.state.Plan
		}
		return
	}
	if n.plan.Running {
		i := w.rand.IntN(4)
		if _, on := n.runs[i]; !on && n.plan.Runs(i) && !w.elsewhere(id, i) && slices.Contains(w.known.Nodes, id) {
			n.runs[i] = n.plan.Workers // the coordinator gives shards to the members it knows
		}
		return
	}
	if w.mutant == skipAck || len(n.runs) == 0 {
		w.state.Acked[id] = Ack{n.plan.Rev, n.since}
	}
	for i := range n.runs { // order-free: one of them ends
		delete(n.runs, i)
		break
	}
}

// elsewhere: sharding keeps one instance of each worker.
func (w *world) elsewhere(id gossip.NodeID, i int) bool {
	for o, n := range w.nodes { // order-free: any will do
		if _, on := n.runs[i]; on && o != id {
			return true
		}
	}
	return false
}

// check: all workers that run were told the same number.
func (w *world) check() bool {
	number := 0
	for _, n := range w.nodes { // order-free: all are compared
		for _, of := range n.runs { // order-free: all are compared
			if number != 0 && number != of {
				return false
			}
			number = of
		}
	}
	return true
}

func play(seed uint64, m mutant) (sound bool, changes int) {
	w := newWorld(seed)
	w.mutant = m
	for range 400 {
		before := w.state.Plan
		w.step()
		if w.state.Plan != before {
			changes++
		}
		if !w.check() {
			return false, changes
		}
	}
	return true, changes
}

func TestNoTwoNumbersOfWorkersRunAtOnce(t *testing.T) {
	changes := 0
	for seed := range uint64(2000) {
		ok, n := play(seed, sound)
		if !ok {
			t.Fatalf("seed %d: workers of two numbers run at once", seed)
		}
		changes += n
	}
	if changes < 10_000 {
		t.Errorf("only %d plans in all: the test shows little", changes)
	}
}

func caught(m mutant) bool {
	for seed := range uint64(2000) {
		if ok, _ := play(seed, m); !ok {
			return true
		}
	}
	return false
}

func TestTheCheckCatchesAnEarlyAck(t *testing.T) {
	if !caught(skipAck) {
		t.Error("a node that acknowledges too early was not caught")
	}
}

// The coordinator's view may be older than that of a node which is there already.
func TestTheCheckCatchesACoordinatorWithALateView(t *testing.T) {
	if !caught(noSince) {
		t.Error("a node that the coordinator's view does not have yet was not missed")
	}
}

// A node has left if it is missing from a view that should have it: that of its record, or a later
// one. An earlier view may not have it yet.
func TestANodeIsGoneFromTheViewOfItsRecordOn(t *testing.T) {
	s := &State{Acked: map[gossip.NodeID]Ack{1: {Since: 5}, 9: {Since: 5}}}
	for epoch, want := range map[gossip.Epoch][]gossip.NodeID{4: nil, 5: {9}, 6: {9}} {
		if got := Stale(s, Members{Epoch: epoch, Nodes: []gossip.NodeID{1}}); !slices.Equal(got, want) {
			t.Errorf("in view %d, %v are gone, want %v", epoch, got, want)
		}
	}
}
