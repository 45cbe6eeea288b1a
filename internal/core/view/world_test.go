package view

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

const (
	testPing   = 100 * time.Millisecond
	testLease  = time.Second
	testRemove = 2 * time.Second
	testDrift  = 1000
)

// world runs cores on virtual time, one event after the other, over a network that
// a test or a seed shapes. now is the true time; each node has a clock of its own.
type world struct {
	t     testing.TB
	seed  uint64
	rng   *rand.Rand
	now   time.Duration
	nodes map[gossip.NodeID]*simNode
	order []gossip.NodeID
	queue eventQueue
	seq   int

	// cfg is the configuration of new cores, except Self and Seed.
	cfg Config
	// packFrom is the number of members from which views are packed, 0 for the cores'
	// default.
	packFrom int
	// latency is how long a message takes, jitter the bound of a random addition.
	latency, jitter time.Duration
	// dropPct and dupPct are the shares of messages lost and doubled, in percent.
	dropPct, dupPct int
	// viaCodec sends messages as frames.
	viaCodec bool
	// cut decides whether a message gets lost.
	cut func(from, to gossip.NodeID) bool
	// lose decides by message.
	lose func(from, to gossip.NodeID, m Message) bool
	// sent is called with every message before it is sent.
	sent func(from, to gossip.NodeID, m Message)
	// removed is called with every node whose incarnation ends.
	removed func(n *simNode)
	// traced is called with every trace event.
	traced func(n *simNode, e *TraceEvent)

	truth  *truth
	hash   uint64
	marks  map[string]int
	log    []string
	quiet  bool
	setup  bool
	lastID gossip.NodeID
	// events counts all events; calm and calmAt are its last check point, to catch a core
	// that requests timers in an endless loop.
	events, calm int
	calmAt       time.Duration
}

// simNode is one incarnation.
type simNode struct {
	id      gossip.NodeID
	name    int
	core    *Core
	down    bool
	paused  bool
	leaves  bool
	held    []func()
	armed   clock.Instant
	ticks   int
	views   []*gossip.View
	removed *gossip.Removed
	lease   Lease
	abandon int
	// origin and ppm make its clock.
	origin time.Duration
	ppm    int64
	links  map[gossip.NodeID]bool
	broken []gossip.NodeID
}

type queued struct {
	at  time.Duration
	seq int
	run func()
}

type eventQueue []queued

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(queued)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = queued{}
	*q = old[:len(old)-1]
	return x
}

func newWorld(t testing.TB) *world { return newSeededWorld(t, 1) }

func newSeededWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), nodes: map[gossip.NodeID]*simNode{},
		cfg:     Config{Ping: testPing, Lease: testLease, RemoveAfter: testRemove, DriftPPM: testDrift},
		latency: 200 * time.Microsecond, viaCodec: true, marks: map[string]int{}, hash: 14695981039346656037,
	}
	w.truth = newTruth(w)
	return w
}

func (w *world) at(d time.Duration, run func()) {
	w.seq++
	heap.Push(&w.queue, queued{w.now + max(d, 0), w.seq, run})
}

// clock is a node's own clock, with its own origin and rate.
func (w *world) clock(n *simNode) clock.Instant { return n.clockAt(w.now) }

func (n *simNode) clockAt(t time.Duration) clock.Instant {
	return clock.Instant(time.Hour + n.origin + t + time.Duration(int64(t)*n.ppm/1e6))
}

// trueTime is when a node's clock shows i.
func (n *simNode) trueTime(i clock.Instant) time.Duration {
	own := time.Duration(i) - time.Hour - n.origin
	return time.Duration(int64(own) - int64(float64(own)*float64(n.ppm)/float64(1e6+n.ppm)))
}

func (w *world) add(id gossip.NodeID) *simNode {
	return w.addNode(id, int(id), time.Duration(id)*time.Minute, int64(id)%7*60-180)
}

func (w *world) addNode(id gossip.NodeID, name int, origin time.Duration, ppm int64) *simNode {
	n := &simNode{id: id, name: name, origin: origin, ppm: ppm, links: map[gossip.NodeID]bool{}}
	cfg := w.cfg
	cfg.Self = gossip.Node{ID: id, Name: fmt.Sprintf("n%d", name), Addr: fmt.Sprintf("10.0.0.%d:1", name)}
	cfg.Seed = uint64(id)*77 + w.seed
	n.core = New(cfg, w.clock(n))
	if w.packFrom > 0 {
		n.core.packFrom = w.packFrom
	}
	w.nodes[id] = n
	w.order = append(w.order, id)
	w.lastID = max(w.lastID, id)
	return n
}

// step applies an event to a node: later, if it is paused.
func (w *world) step(id gossip.NodeID, ev Event) {
	n := w.nodes[id]
	if n == nil || n.down || n.removed != nil {
		return
	}
	if n.paused {
		n.held = append(n.held, func() { w.step(id, ev) })
		return
	}
	var out Effects
	before, had := n.core.View(), n.core.Lease()
	n.core.Step(w.clock(n), ev, &out)
	w.mix(uint64(w.now), uint64(id), uint64(len(out.Send)))
	w.effects(n, &out)
	w.truth.check(n, before, &out)
	w.truth.checkAbandon(n, had, &out)
	w.arm(n)
	if out.Removed != nil && w.removed != nil {
		w.removed(n)
	}
}

func (w *world) mix(vs ...uint64) {
	for _, v := range vs {
		w.hash = (w.hash ^ v) * 1099511628211
		w.hash ^= w.hash >> 29
	}
}

// arm sets the one timer that a node has.
func (w *world) arm(n *simNode) {
	d := n.core.Deadline()
	if d == n.armed {
		return
	}
	n.armed = d
	n.ticks++
	if d == clock.Never {
		return
	}
	mine := n.ticks
	w.at(max(n.trueTime(d)-w.now, 0)+1, func() {
		if n.ticks == mine {
			n.armed = 0
			w.step(n.id, Tick{})
		}
	})
}

func (w *world) effects(n *simNode, out *Effects) {
	if out.Lease != nil {
		n.lease = *out.Lease
	}
	if out.Abandon {
		n.abandon++
	}
	if out.View != nil {
		n.views = append(n.views, out.View)
	}
	if out.Removed != nil {
		n.removed = out.Removed
	}
	for i := range out.Trace {
		w.trace(n, &out.Trace[i])
	}
	for _, s := range out.Send {
		w.transmit(n.id, s.To, s.Msg)
	}
}

func (w *world) trace(n *simNode, e *TraceEvent) {
	w.marks[e.Kind]++
	w.mix(uint64(len(e.Kind)), uint64(e.Subject), uint64(e.Epoch))
	if !w.quiet {
		w.note("%d %s %d %v %s", n.id, e.Kind, uint64(e.Subject), e.Epoch, e.Detail)
	}
	if w.traced != nil {
		w.traced(n, e)
	}
	if e.Kind == "drive does not end" {
		w.fail("the core of %d drives in circles", n.id)
	}
}

func (w *world) note(format string, args ...any) {
	if w.quiet {
		return
	}
	w.log = append(w.log, fmt.Sprintf("%10.3fms ", float64(w.now)/1e6)+fmt.Sprintf(format, args...))
}

// chance draws true in pct of 100 cases.
func (w *world) chance(pct int) bool { return pct > 0 && w.rng.IntN(100) < pct }

func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) transmit(from, to gossip.NodeID, msg Message) {
	if from == to {
		w.fail("%d sends to itself: %T", from, msg)
	}
	if w.sent != nil {
		w.sent(from, to, msg)
	}
	if w.lose != nil && w.lose(from, to, msg) {
		return
	}
	if w.cut != nil && w.cut(from, to) || w.chance(w.dropPct) {
		return
	}
	w.deliver(w.latency+w.between(0, w.jitter), from, to, msg)
	if w.chance(w.dupPct) {
		w.deliver(w.latency+w.between(0, 20*w.jitter), from, to, msg)
	}
}

func (w *world) deliver(after time.Duration, from, to gossip.NodeID, msg Message) {
	var frame []byte
	if w.viaCodec {
		frame = Append(nil, msg)
	}
	w.at(after, func() {
		if n := w.nodes[to]; n == nil || n.down {
			return
		}
		msg := msg
		if frame != nil {
			m, err := Decode(frame)
			if err != nil {
				w.fail("%T does not decode: %v", msg, err)
			}
			msg = m
		}
		w.step(to, Received{From: from, Msg: msg})
	})
}

// inject delivers a message now.
func (w *world) inject(from, to gossip.NodeID, m Message) { w.step(to, Received{From: from, Msg: m}) }

// next runs the next event, if there is one before end.
func (w *world) next(end time.Duration) bool {
	if len(w.queue) == 0 || w.queue[0].at > end {
		return false
	}
	q := heap.Pop(&w.queue).(queued)
	w.now = q.at
	if w.events++; w.events-w.calm > 20_000 {
		if w.now-w.calmAt < 50*time.Millisecond {
			w.fail("runs hot: 20,000 events in %v", w.now-w.calmAt)
		}
		w.calm, w.calmAt = w.events, w.now
	}
	q.run()
	return true
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now + d
	for w.next(end) {
	}
	w.now = end
}

// until runs until a condition holds, and returns how long that took. A scenario in which
// it never holds proves nothing.
func (w *world) until(most time.Duration, what string, ok func() bool) time.Duration {
	w.setup = true
	defer func() { w.setup = false }()
	return w.must(most, what, ok)
}

// must is until for a condition that the protocol guarantees.
func (w *world) must(most time.Duration, what string, ok func() bool) time.Duration {
	if w.t != nil {
		w.t.Helper()
	}
	began := w.now
	for !ok() {
		if !w.next(began + most) {
			text := fmt.Sprintf("not within %v: %s", most, what)
			if w.setup && w.t == nil {
				panic(failure{text, true})
			}
			w.fail("%s", text)
		}
	}
	return w.now - began
}

// failure is the panic value of a world without a test.
type failure struct {
	text  string
	setup bool
}

func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.t == nil {
		panic(failure{text, false})
	}
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-80):] {
		w.t.Log(line)
	}
	w.t.Log(w.states())
	w.t.Fatal(text)
}

func (w *world) states() string {
	s := ""
	for _, id := range w.order {
		n := w.nodes[id]
		if n.down || n.removed != nil {
			s += fmt.Sprintf("%d down=%v removed=%v\n", id, n.down, n.removed)
			continue
		}
		s += fmt.Sprintf("%d paused=%v %+v lease ends in %v, view %s\n", id, n.paused, n.core.State(),
			n.core.Lease().Until.Sub(w.clock(n)), viewText(n.core.View()))
	}
	return s
}

func viewText(v *gossip.View) string {
	if v == nil {
		return "none"
	}
	s := v.Epoch.String() + "{"
	for _, m := range v.Members {
		s += fmt.Sprintf(" %d%s", uint64(m.ID), map[gossip.Status]string{gossip.Joining: "j", gossip.Up: "", gossip.Leaving: "l"}[m.Status])
	}
	return s + " }"
}

// policy returns the nodes' policy.
func (w *world) policy() gossip.Policy {
	if w.cfg.Partition == nil {
		return gossip.KeepMajority{}
	}
	return w.cfg.Partition
}

func (w *world) quorum(v *gossip.View, in has) bool { return w.policy().Quorum(v, in) }
