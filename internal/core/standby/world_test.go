package standby

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// The world: the cores of some nodes over a network that loses, doubles and
// reorders; a coordinator that gives each shard a home under growing tokens; and at
// each home one counter per shard, which is counted up whenever the last change is
// through, or sooner.
//
// An owner that was removed goes on acting for a while: it must not get anything
// kept that its successor does not have.

type plan struct {
	nodes, shards, replicas int
	mode                    Mode
	drop, double            float64
	delay                   time.Duration
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

type simNode struct {
	w     *world
	id    gossip.NodeID
	core  *Core
	alive bool
	out   Effects
	// counters are those of the shards that are ready here.
	counters map[protocol.ShardID]*counter
	tickAt   clock.Instant
}

type counter struct {
	token protocol.Token
	value uint64
}

// truth is what the checker has recorded of a shard.
type truth struct {
	token protocol.Token
	home  gossip.NodeID
	ready bool
	// guard is the layout that the newest acknowledgements rest on; lost is set when
	// so many of it died that the promise does not hold.
	guard []gossip.NodeID
	lost  bool
	kept  uint64
	// readied are the values at the starts, by token.
	readied map[protocol.Token]uint64
	// after is the token of the newest start after a loss: a majority that was removed and
	// lives keeps changes under lower tokens.
	after protocol.Token
}

type world struct {
	plan
	rng    *rand.Rand
	now    clock.Instant
	q      queue
	seq    int
	nodes  []*simNode
	cur    *gossip.View
	shards []*truth
	tokens uint64
	// block, if set, says what is lost.
	block func(from, to gossip.NodeID, m Message) bool
	err   error
	lines []string

	acks, readies, shorts, losses int
}

func newWorld(seed uint64, p plan) *world {
	w := &world{plan: p, rng: rand.New(rand.NewPCG(seed, 5)), now: 1}
	for range p.shards {
		w.shards = append(w.shards, &truth{readied: map[protocol.Token]uint64{}})
	}
	w.cur = &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	for range p.nodes {
		w.join()
	}
	w.run(20 * time.Millisecond)
	w.place()
	w.every(2*time.Millisecond, w.load)
	return w
}

func (w *world) logf(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%8.2fms ", float64(w.now)/1e6)+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.logf("FAIL %v", w.err)
	}
}

func (w *world) tail() string { return strings.Join(w.lines[max(0, len(w.lines)-60):], "\n") }

func (w *world) at(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.q, event{w.now.Add(d), w.seq, do})
}

func (w *world) every(d time.Duration, do func()) { w.at(d, func() { do(); w.every(d, do) }) }

func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.q) > 0 && w.q[0].at <= end && w.err == nil {
		e := heap.Pop(&w.q).(event)
		w.now = e.at
		e.do()
		w.renew()
	}
	w.now = end
}

func (w *world) node(id gossip.NodeID) *simNode { return w.nodes[id-1] }

// join adds a node to the view.
func (w *world) join() *simNode {
	n := &simNode{w: w, id: gossip.NodeID(len(w.nodes) + 1), alive: true, counters: map[protocol.ShardID]*counter{}}
	n.core = New(Config{
		Self: n.id, Type: "counter", Mode: w.mode, Replicas: w.replicas,
		Resend: 15 * time.Millisecond, Grace: 20 * time.Millisecond, PageBytes: 200,
	})
	w.nodes = append(w.nodes, n)
	w.commit(append(slices.Clone(w.cur.Members), gossip.Member{Node: gossip.Node{ID: n.id}, Status: gossip.Up}))
	return n
}

func (w *world) commit(members []gossip.Member) {
	w.cur = &gossip.View{Cluster: 1, Epoch: w.cur.Epoch + 1, Members: members}
	v := w.cur
	for _, m := range members {
		n := w.node(m.ID)
		w.at(w.jitter(3*time.Millisecond), func() {
			if n.core.view == nil || n.core.view.Epoch < v.Epoch {
				n.step(ViewChanged{View: v})
			}
		})
	}
}

func (w *world) jitter(d time.Duration) time.Duration {
	return d/10 + time.Duration(w.rng.Int64N(int64(d)+1))*9/10
}

// remove ends nodes: they leave the view, and those killed lose their memory. A
// removed owner that lives acts on until its shard has another home.
func (w *world) remove(kill bool, ids ...gossip.NodeID) {
	for _, id := range ids {
		w.logf("remove %d kill=%v", id, kill)
		w.node(id).alive = w.node(id).alive && !kill
	}
	w.commit(slices.DeleteFunc(slices.Clone(w.cur.Members), func(m gossip.Member) bool { return slices.Contains(ids, m.ID) }))
	for _, t := range w.shards {
		gone := countNodes(t.guard, func(id gossip.NodeID) bool { return w.cur.Member(id) == nil })
		if len(t.guard) > 0 && gone >= quorum(len(t.guard)) {
			t.lost = true
		}
	}
	w.at(w.jitter(10*time.Millisecond), w.place)
}

// place gives every shard without a living home a new one.
func (w *world) place() {
	for i, t := range w.shards {
		if t.home == 0 || w.cur.Member(t.home) == nil {
			w.move(protocol.ShardID(i))
		}
	}
}

// move gives a shard a new home, under a new token.
func (w *world) move(s protocol.ShardID) {
	t := w.shards[s]
	if old := t.home; old != 0 && w.cur.Member(old) != nil {
		w.node(old).step(End{Shard: s, Token: t.token})
		delete(w.node(old).counters, s)
	}
	w.tokens++
	t.token, t.ready = protocol.Token{Term: w.cur.Epoch, Seq: w.tokens}, false
	w.home(s, w.cur.Members[w.rng.IntN(len(w.cur.Members))].ID)
}

// home sends a shard to a node.
func (w *world) home(s protocol.ShardID, id gossip.NodeID) {
	t := w.shards[s]
	t.home = id
	n := w.node(id)
	if n.core.view == nil || n.core.view.Epoch < w.cur.Epoch {
		n.step(ViewChanged{View: w.cur})
	}
	w.logf("shard %d to %d under %v", s, t.home, t.token)
	n.step(Begin{Shard: s, Token: t.token})
}

// load counts up somewhere.
func (w *world) load() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.alive {
		return
	}
	for _, s := range slices.Sorted(maps.Keys(n.counters)) {
		c := n.counters[s]
		c.value++
		// Ballast makes collections and fills take several pages.
		n.step(Changes{
			{Shard: s, Token: c.token, ID: fmt.Sprint("ballast", c.value%7), Version: c.value, State: make([]byte, 60)},
			{Shard: s, Token: c.token, ID: "count", Version: c.value, State: []byte{1}},
		})
	}
}

func (n *simNode) step(ev Event) {
	if !n.alive {
		return
	}
	n.core.Step(n.w.now, ev, &n.out)
	do := slices.Clone(n.out.Do)
	n.out.Reset()
	for _, e := range do {
		n.do(e)
	}
	n.arm()
}

// arm sees to the next Tick.
func (n *simNode) arm() {
	at := n.core.Deadline()
	if at == clock.Never || n.tickAt != 0 && n.tickAt <= at {
		return
	}
	n.tickAt = at
	n.w.at(max(at.Sub(n.w.now), 0), func() {
		if n.tickAt == at {
			n.tickAt = 0
			n.step(Tick{})
		}
	})
}

func (n *simNode) do(e Effect) {
	w := n.w
	switch e := e.(type) {
	case Send:
		w.send(n.id, e.To, e.Msg)
	case Ready:
		w.readied(n, e)
	case Kept:
		w.keptNow(n, e)
	case Deposed:
		delete(n.counters, e.Shard)
	}
}

func (w *world) send(from, to gossip.NodeID, m Message) {
	deliver := func() {
		w.node(to).step(Received{From: from, Msg: m})
	}
	if from == to {
		w.at(0, deliver)
		return
	}
	if w.rng.Float64() < w.drop || w.block != nil && w.block(from, to, m) {
		return
	}
	w.at(w.jitter(w.delay), deliver)
	if w.rng.Float64() < w.double {
		w.at(w.jitter(20*w.delay), deliver)
	}
}

// readied checks a start: what was kept must be there.
func (w *world) readied(n *simNode, e Ready) {
	t := w.shards[e.Shard]
	value := e.Copies["count"].Tag.Version
	w.readies++
	w.logf("shard %d ready at %d under %v with %d, short=%v (kept %d, lost=%v)", e.Shard, n.id, e.Token, value, e.Short, t.kept, t.lost)
	if e.Token != t.token {
		return
	}
	if e.Short {
		w.shorts++
	}
	if value < t.kept {
		if !t.lost {
			w.fail("shard %d starts with %d, and %d was kept while a majority of %v lives", e.Shard, value, t.kept, t.guard)
		}
		w.losses++
		t.kept = value
	}
	if t.lost {
		// A majority of holders that live on outside the view goes on until its leases
		// end, which is not modelled here.
		clear(t.readied)
		t.after = e.Token
	} else {
		t.readied[e.Token] = value
	}
	t.ready = true
	t.lost = false
	n.counters[e.Shard] = &counter{e.Token, value}
}

func (w *world) keptNow(n *simNode, e Kept) {
	if e.ID != "count" {
		return
	}
	t := w.shards[e.Shard]
	w.acks++
	if e.Token.Less(t.after) {
		return
	}
	for later, value := range t.readied { // order-free: any is a failure
		if e.Token.Less(later) && value < e.Version {
			w.fail("shard %d: %d was kept under %v, after its successor %v had begun with %d", e.Shard, e.Version, e.Token, later, value)
		}
	}
	if n.id == t.home || !t.ready {
		t.kept = max(t.kept, e.Version)
	}
}

// renew follows the owners' layouts.
func (w *world) renew() {
	for i, t := range w.shards {
		n := w.nodes[max(int(t.home), 1)-1]
		o := n.core.owners[protocol.ShardID(i)]
		if !n.alive || o == nil || o.token != t.token || o.layout.IsZero() || slices.Equal(o.layout.Members, t.guard) {
			continue
		}
		t.guard = o.layout.Members
		gone := countNodes(t.guard, func(id gossip.NodeID) bool { return w.cur.Member(id) == nil })
		t.lost = gone >= quorum(len(t.guard))
	}
}

// settled reports whether every shard has an active layout of the present view.
func (w *world) settled() bool {
	for i, t := range w.shards {
		n := w.node(t.home)
		o := n.core.owners[protocol.ShardID(i)]
		if o == nil || !o.ready || o.layout.IsZero() || !o.next.IsZero() || !slices.Equal(o.layout.Members, o.chooseHolders()) ||
			n.core.view.Epoch != w.cur.Epoch {
			return false
		}
		for _, id := range o.layout.Members {
			if len(o.peers[id].missing) > 0 {
				return false
			}
		}
	}
	return true
}

// settle runs until all is settled.
func (w *world) settle(within time.Duration) {
	for range 200 {
		if w.run(within / 200); w.err != nil || w.settled() {
			return
		}
	}
	w.fail("not settled after %v", within)
}
