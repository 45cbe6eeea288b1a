package coordinator_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// The world: coordinator and region cores of a few nodes over a network that
// loses, doubles and reorders; a replicator with fences, majorities and unknown
// outcomes; a view service whose promise is that a node outside the
// newest committed view runs nothing; entities that take their time to start and
// to stop; and messages in ordered streams, so that markers mean something.
//
// Everything runs on one thread and virtual time, from one seed.

const typeName = "counter"

// stepsMax bounds a run: what goes on for longer goes round in circles.
const stepsMax = 200_000

// plan is what a run is made of.
type plan struct {
	nodes, proxies, shards int
	minMembers             int
	strategy               strategy.Strategy
	// zones has the zones of nodes, by their names.
	zones map[string]string
	// outside leaves the cores' checks of themselves out.
	outside     bool
	coordinator coordinator.Config
	// Network, per control message.
	drop, double float64
	delay        time.Duration
	slow         float64 // probability of 20 times the delay
	viewDelay    time.Duration
	startDelay   time.Duration
	stopDelay    time.Duration
	declines     float64 // probability that a node declines in a view to coordinate
	slowStop     float64 // probability of a stop that takes longer than it may
	// Messages: one every interval, from a random node to a random shard.
	traffic time.Duration
	// keep: no message may be lost in this run.
	keep bool
	// scripted: nothing happens but what a test does.
	scripted bool
}

func directed(nodes int) plan {
	return plan{
		nodes: nodes, shards: 6, delay: time.Millisecond, viewDelay: 2 * time.Millisecond,
		startDelay: time.Millisecond, stopDelay: 2 * time.Millisecond, scripted: true,
		coordinator: quick(),
	}
}

// quick are time-outs short enough to be met often.
func quick() coordinator.Config {
	return coordinator.Config{
		Resend: 20 * time.Millisecond, BeginTimeout: 200 * time.Millisecond, StopTimeout: 150 * time.Millisecond,
		Rebalance: 150 * time.Millisecond, RemoveAfter: 300 * time.Millisecond, RetryWrite: 10 * time.Millisecond,
	}
}

type event struct {
	at  clock.Instant
	seq int
	do  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

type world struct {
	plan plan
	rng  *rand.Rand
	now  clock.Instant
	q    queue
	seq  int

	nodes []*node
	// cur is the newest committed view.
	cur *gossip.View
	// cut links carry nothing, by (from, to).
	cut map[[2]gossip.NodeID]bool
	// hook, if set, decides about control messages: it returns how many copies
	// arrive, and after how long.
	hook func(from, to gossip.NodeID, m protocol.Message) (copies int, delay time.Duration)

	// unstored replicas take no writes.
	unstored func(gossip.NodeID) bool

	check  checker
	nextID gossip.NodeID
	lines  []string
	loud   bool
	steps  int
	calm   bool
}

func newWorld(seed uint64, p plan) *world {
	w := &world{plan: p, rng: rand.New(rand.NewPCG(seed, 77)), now: 1, cut: map[[2]gossip.NodeID]bool{}}
	w.check.init(w)
	var members []gossip.Member
	for i := range p.nodes + p.proxies {
		n := w.newNode(i < p.nodes)
		n.joined = gossip.FirstEpoch(7)
		members = append(members, n.member(gossip.Up))
	}
	w.commit(&gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(7), Members: members})
	if p.traffic > 0 {
		w.every(p.traffic, w.talk)
	}
	return w
}

func (w *world) newNode(host bool) *node {
	w.nextID++
	n := newNode(w, w.nextID, host)
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) node(id gossip.NodeID) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// at runs do after d. Closures check for themselves whether their node lives.
func (w *world) at(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.q, event{w.now.Add(d), w.seq, do})
}

func (w *world) every(d time.Duration, do func()) {
	w.at(d, func() {
		do()
		w.every(d, do)
	})
}

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// jitter returns a duration between a tenth of d and d.
func (w *world) jitter(d time.Duration) time.Duration {
	return d/10 + time.Duration(w.rng.Int64N(int64(d)+1))*9/10
}

// run lets d pass, and stops early when a check fails.
func (w *world) run(d time.Duration) *world {
	end := w.now.Add(d)
	for len(w.q) > 0 && w.q[0].at <= end && w.check.err == nil {
		e := heap.Pop(&w.q).(event)
		w.now = e.at
		e.do()
		if w.steps++; w.steps > stepsMax {
			w.check.fail("the run does not end: %d events", w.steps)
		}
		w.check.all()
	}
	w.now = end
	return w
}

func (w *world) logf(format string, args ...any) {
	if w.loud {
		w.lines = append(w.lines, fmt.Sprintf("%9.3fms ", float64(w.now)/1e6)+fmt.Sprintf(format, args...))
	}
}

func (w *world) tail(n int) string {
	return strings.Join(w.lines[max(0, len(w.lines)-n):], "\n")
}

// commit makes v the newest view. Members that it leaves out abandon first: that
// is what membership promises, and all that sharding asks of it.
func (w *world) commit(v *gossip.View) {
	for _, n := range w.nodes {
		if n.alive && w.cur.Member(n.id) != nil && v.Member(n.id) == nil {
			n.leave("removed")
		}
	}
	w.cur = v
	w.logf("view %v: %s", v.Epoch, members(v))
	for i := range v.Members {
		n := w.node(v.Members[i].ID)
		w.at(w.jitter(w.plan.viewDelay), func() { n.learn(v) })
	}
}

func members(v *gossip.View) string {
	var b strings.Builder
	for i := range v.Members {
		fmt.Fprintf(&b, " %d:%v", v.Members[i].ID, v.Members[i].Status)
	}
	return b.String()
}

// change commits a view in which the members are as edit leaves them.
func (w *world) change(edit func([]gossip.Member) []gossip.Member) {
	v := *w.cur
	v.Epoch++
	v.Members = edit(slices.Clone(w.cur.Members))
	if len(v.Members) > 0 {
		w.commit(&v)
	}
}

// remove takes nodes out of the view; anew opens a generation, as an emergency
// takeover does.
func (w *world) remove(anew bool, ids ...gossip.NodeID) {
	w.change(func(ms []gossip.Member) []gossip.Member {
		return slices.DeleteFunc(ms, func(m gossip.Member) bool { return slices.Contains(ids, m.ID) })
	})
	if anew {
		v := *w.cur
		v.Epoch = gossip.FirstEpoch(v.Epoch.Generation() + 1)
		w.commit(&v)
	}
}

func (w *world) status(id gossip.NodeID, s gossip.Status) {
	w.change(func(ms []gossip.Member) []gossip.Member {
		for i := range ms {
			if ms[i].ID == id {
				ms[i].Status = s
			}
		}
		return ms
	})
}

// join adds a fresh node, first joining, then up.
func (w *world) join(host bool) *node {
	n := w.newNode(host)
	n.joined = w.cur.Epoch + 1
	w.change(func(ms []gossip.Member) []gossip.Member { return append(ms, n.member(gossip.Joining)) })
	w.at(4*w.plan.viewDelay, func() {
		if n.alive {
			w.status(n.id, gossip.Up)
		}
	})
	return n
}

// send carries a control message, or not.
func (w *world) send(from, to gossip.NodeID, m protocol.Message) {
	dest := w.node(to)
	deliver := func() {
		if dest.alive && !w.cut[[2]gossip.NodeID{from, to}] {
			w.logf("%d <- %d %s", to, from, describe(m))
			dest.receive(from, m)
		}
	}
	if w.hook != nil {
		if copies, delay := w.hook(from, to, m); copies != 1 || delay != 0 {
			for range copies {
				w.at(delay, deliver)
			}
			return
		}
	}
	if from == to {
		w.at(0, deliver)
		return
	}
	if w.chance(w.plan.drop) {
		w.logf("%d -> %d lost: %s", from, to, describe(m))
		return
	}
	w.at(w.netDelay(), deliver)
	if w.chance(w.plan.double) {
		w.at(10*w.netDelay(), deliver)
	}
}

func (w *world) netDelay() time.Duration {
	d := w.jitter(w.plan.delay)
	if w.chance(w.plan.slow) {
		d *= 20
	}
	return d
}

func describe(m protocol.Message) string {
	return fmt.Sprintf("%s %+v", protocol.Name(m), m)
}

// talk sends one message from somewhere to a shard.
func (w *world) talk() {
	if w.calm {
		return
	}
	if n := w.anyNode(); n != nil && n.view != nil {
		n.tell(protocol.ShardID(w.rng.IntN(w.plan.shards)))
	}
}

func (w *world) anyNode() *node {
	var living []*node
	for _, n := range w.nodes {
		if n.alive {
			living = append(living, n)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return living[w.rng.IntN(len(living))]
}

// inOffice returns the node whose core is in office under the newest term.
func (w *world) inOffice() *node {
	var best *node
	for _, n := range w.nodes {
		if n.alive && n.coord != nil && n.coord.Term() != 0 && (best == nil || n.coord.Term() > best.coord.Term()) {
			best = n
		}
	}
	return best
}
