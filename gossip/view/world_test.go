package view

import (
	"container/heap"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

const (
	testPing   = 100 * time.Millisecond
	testLease  = time.Second
	testRemove = 2 * time.Second
)

// world runs cores on virtual time over a network that a test shapes.
type world struct {
	t       *testing.T
	now     time.Duration
	nodes   map[NodeID]*simNode
	order   []NodeID
	queue   eventQueue
	seq     int
	rng     uint64
	latency time.Duration
	// cut decides whether a message gets lost.
	cut func(from, to NodeID) bool
	log []string
}

type simNode struct {
	id      NodeID
	core    *Core
	down    bool
	paused  bool
	held    []func()
	ticks   int
	views   []*View
	removed *Removed
	lease   Lease
	skew    time.Duration
}

type queued struct {
	at  time.Duration
	seq int
	run func()
}

type eventQueue []queued

func (q eventQueue) Len() int           { return len(q) }
func (q eventQueue) Less(i, j int) bool { return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq }
func (q eventQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)        { *q = append(*q, x.(queued)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func newWorld(t *testing.T) *world {
	return &world{t: t, nodes: map[NodeID]*simNode{}, latency: 200 * time.Microsecond, rng: 1}
}

func (w *world) at(d time.Duration, run func()) {
	w.seq++
	heap.Push(&w.queue, queued{w.now + d, w.seq, run})
}

// clock is a node's own clock: skewed, never the same as another's.
func (w *world) clock(n *simNode) clock.Instant {
	return clock.Instant(w.now + time.Hour + n.skew)
}

func (w *world) add(id NodeID) *simNode {
	n := &simNode{id: id, skew: time.Duration(id) * time.Minute}
	n.core = New(Config{
		Self: Node{ID: id, Name: fmt.Sprintf("n%d", id), Addr: fmt.Sprintf("10.0.0.%d:1", id)},
		Ping: testPing, Lease: testLease, RemoveAfter: testRemove, DriftPPM: 1000, Seed: uint64(id) * 77,
	}, w.clock(n))
	w.nodes[id] = n
	w.order = append(w.order, id)
	return n
}

func (w *world) step(id NodeID, ev Event) {
	n := w.nodes[id]
	if n.down {
		return
	}
	if n.paused {
		n.held = append(n.held, func() { w.step(id, ev) })
		return
	}
	var out Effects
	n.core.Step(w.clock(n), ev, &out)
	w.effects(n, &out)
	if err := n.core.Check(); err != nil {
		w.fail("%v", err)
	}
	w.checkLeases()
	w.arm(n)
}

func (w *world) arm(n *simNode) {
	n.ticks++
	mine := n.ticks
	d := n.core.Deadline()
	if d == clock.Never {
		return
	}
	w.at(max(d.Sub(w.clock(n)), 0), func() {
		if n.ticks == mine {
			w.step(n.id, Tick{})
		}
	})
}

func (w *world) effects(n *simNode, out *Effects) {
	if out.Lease != nil {
		n.lease = *out.Lease
	}
	if out.View != nil {
		n.views = append(n.views, out.View)
	}
	if out.Removed != nil {
		n.removed = out.Removed
	}
	for _, e := range out.Trace {
		w.log = append(w.log, fmt.Sprintf("%9.3fms %v %s %v %v %s", float64(w.now)/1e6, n.id, e.Kind, e.Subject, e.Epoch, e.Detail))
	}
	for _, s := range out.Send {
		frame := Append(nil, s.Msg)
		from, to := n.id, s.To
		if w.cut != nil && w.cut(from, to) {
			continue
		}
		w.at(w.latency, func() {
			if w.nodes[to] == nil || w.nodes[to].down {
				return
			}
			msg, err := Decode(frame)
			if err != nil {
				w.fail("%T does not decode: %v", s.Msg, err)
			}
			w.step(to, Received{From: from, Msg: msg})
		})
	}
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= end {
		q := heap.Pop(&w.queue).(queued)
		w.now = q.at
		q.run()
	}
	w.now = end
}

// until runs until a condition holds, and returns how long that took.
func (w *world) until(most time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	began := w.now
	for !ok() {
		if w.now-began > most || len(w.queue) == 0 {
			w.fail("not within %v: %s", most, what)
		}
		q := heap.Pop(&w.queue).(queued)
		w.now = q.at
		q.run()
	}
	return w.now - began
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-80):] {
		w.t.Log(line)
	}
	for _, id := range w.order {
		n := w.nodes[id]
		w.t.Logf("%v down=%v paused=%v %+v lease until %v", id, n.down, n.paused, n.core.State(), n.lease)
	}
	w.t.Fatalf(format, args...)
}

// holds reports whether a node's lease is valid by its own clock.
func (w *world) holds(n *simNode) bool { return !n.down && n.lease.Valid(w.clock(n)) }

// checkLeases checks that whoever holds a lease stands in the newest view.
func (w *world) checkLeases() {
	var newest *View
	for _, id := range w.order {
		if v := w.nodes[id].core.View(); v != nil && (newest == nil || v.Epoch > newest.Epoch) {
			newest = v
		}
	}
	leaders := 0
	for _, id := range w.order {
		n := w.nodes[id]
		if !w.holds(n) {
			continue
		}
		if newest.Member(id) == nil {
			w.fail("%v is outside the newest view %v and holds a lease", id, newest.Epoch)
		}
		if n.core.LeaderLease().After(w.clock(n)) {
			leaders++
		}
	}
	if leaders > 1 {
		w.fail("%d leader leases at once", leaders)
	}
}

// cluster forms a cluster of n nodes with ids 1 to n, in that order of seniority.
func cluster(t *testing.T, n int) *world {
	w := newWorld(t)
	w.add(1)
	w.step(1, Form{Generation: 100})
	for id := NodeID(2); id <= NodeID(n); id++ {
		w.add(id)
		w.step(id, Contacts{Nodes: []Node{w.nodes[1].core.cfg.Self}})
		w.until(time.Second, fmt.Sprintf("node %d is up", id), func() bool { return w.allUp(int(id)) })
	}
	w.until(time.Second, "all hold leases", func() bool { return w.allHold() })
	return w
}

func (w *world) living() []*simNode {
	var out []*simNode
	for _, id := range w.order {
		if n := w.nodes[id]; !n.down && n.removed == nil {
			out = append(out, n)
		}
	}
	return out
}

// allUp reports whether all living nodes hold one view of n up members.
func (w *world) allUp(n int) bool {
	for _, x := range w.living() {
		v := x.core.View()
		if v == nil || len(v.Members) != n || slices.ContainsFunc(v.Members, func(m Member) bool { return m.Status != Up }) {
			return false
		}
	}
	return true
}

func (w *world) allHold() bool {
	return !slices.ContainsFunc(w.living(), func(n *simNode) bool { return !w.holds(n) })
}

// kill crashes nodes; the living have the proof after the delay.
func (w *world) kill(proofAfter time.Duration, ids ...NodeID) {
	for _, id := range ids {
		w.nodes[id].down = true
	}
	for _, n := range w.living() {
		for _, id := range ids {
			w.step(n.id, Link{Subject: id, Up: false})
			w.at(proofAfter, func() { w.step(n.id, ProvenDead{Subject: id, Reason: "refused"}) })
		}
	}
}
