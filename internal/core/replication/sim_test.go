package replication

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// world runs cores on virtual time. Every message is encoded and decoded on its
// way. All randomness comes from the seed.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	now   clock.Instant
	nodes map[gossip.NodeID]*simNode
	order []gossip.NodeID
	queue flights
	sent  uint64
	view  *gossip.View

	// Faults.
	drop, dup float64
	delayMax  time.Duration
	cut       func(from, to gossip.NodeID) bool
	dropKind  func(Message) bool
	frames    int
	bytes     int
	tweak     func(*Config)
	nextReq   RequestID
	// posted and delivered see every message that sets out and that arrives.
	posted, delivered func(from, to gossip.NodeID, m Message)
	// hasty leaves the invariants out, which costs as much as there are keys.
	hasty bool
	// thorough has them checked after each step, however many keys there are.
	thorough bool
	// afterStep is called after every step.
	afterStep func(*simNode)
}

type simNode struct {
	id      gossip.NodeID
	core    *Core
	replies map[RequestID]Reply
	onReply map[RequestID]func(Reply)
	changed map[string]int
	traces  []TraceEvent
	// unchecked counts the steps since the last check of the invariants.
	unchecked int
}

type flight struct {
	at    clock.Instant
	seq   uint64
	from  gossip.NodeID
	to    gossip.NodeID
	frame []byte
	do    func()
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	old := *f
	x := old[len(old)-1]
	*f = old[:len(old)-1]
	return x
}

func newWorld(t testing.TB, seed uint64, n int, tweak func(*Config)) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1, nodes: map[gossip.NodeID]*simNode{}, tweak: tweak, delayMax: 200 * time.Microsecond, thorough: testsize.Full()}
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	for i := range n {
		v.Members = append(v.Members, member(gossip.NodeID(i+1), gossip.Up))
		w.start(gossip.NodeID(i + 1))
	}
	w.setView(v)
	for _, id := range w.order {
		// All are empty: nobody has anything to catch up with.
		c := w.nodes[id].core
		c.members.former, c.members.caughtUp, c.members.behind = nil, c.members.epoch, false
	}
	return w
}

func member(id gossip.NodeID, s gossip.Status) gossip.Member {
	return gossip.Member{Node: gossip.Node{ID: id, Name: id.String()}, Status: s}
}

func (w *world) start(id gossip.NodeID) *simNode {
	cfg := Config{Self: id, Seed: uint64(id)}
	if w.tweak != nil {
		w.tweak(&cfg)
	}
	n := &simNode{id: id, core: New(cfg), replies: map[RequestID]Reply{}, onReply: map[RequestID]func(Reply){}, changed: map[string]int{}}
	w.nodes[id] = n
	w.order = append(w.order, id)
	return n
}

func (w *world) crash(id gossip.NodeID) {
	delete(w.nodes, id)
	w.order = slices.DeleteFunc(w.order, func(o gossip.NodeID) bool { return o == id })
}

// setView gives v to every living member at once.
func (w *world) setView(v *gossip.View) {
	w.view = v
	for _, id := range slices.Clone(w.order) {
		if v.Member(id) != nil {
			w.step(id, ViewChanged{View: v})
		}
	}
}

// next returns the view that follows, changed by edit.
func (w *world) next(edit func(v *gossip.View)) *gossip.View {
	v := &gossip.View{Cluster: 1, Epoch: w.view.Epoch + 1, Members: slices.Clone(w.view.Members)}
	edit(v)
	return v
}

func remove(ids ...gossip.NodeID) func(*gossip.View) {
	return func(v *gossip.View) {
		v.Members = slices.DeleteFunc(v.Members, func(m gossip.Member) bool { return slices.Contains(ids, m.ID) })
	}
}

func add(s gossip.Status, ids ...gossip.NodeID) func(*gossip.View) {
	return func(v *gossip.View) {
		for _, id := range ids {
			if m := v.Member(id); m != nil {
				m.Status = s
			} else {
				v.Members = append(v.Members, member(id, s))
			}
		}
	}
}

func (w *world) step(id gossip.NodeID, ev Event) {
	n := w.nodes[id]
	if n == nil {
		return
	}
	var out Effects
	n.core.Step(w.now, ev, &out)
	// The invariants cost as much as there are keys: with many, a sample has some of the steps checked.
	if n.unchecked++; !w.hasty && (w.thorough || n.unchecked*64 >= n.core.store.keys) {
		n.core.checkInvariants()
		n.unchecked = 0
	}
	if w.afterStep != nil {
		w.afterStep(n)
	}
	for _, s := range out.Send {
		w.post(id, s.To, s.Msg)
	}
	for _, k := range out.Changed {
		n.changed[k]++
	}
	n.traces = append(n.traces, out.Trace...)
	for _, r := range out.Reply {
		n.replies[r.ID] = r
		if f := n.onReply[r.ID]; f != nil {
			f(r)
		}
	}
}

func (w *world) post(from, to gossip.NodeID, m Message) {
	frame := Append(nil, m)
	w.frames++
	w.bytes += len(frame)
	if w.posted != nil {
		w.posted(from, to, m)
	}
	if w.cut != nil && w.cut(from, to) || w.rng.Float64() < w.drop || w.dropKind != nil && w.dropKind(m) {
		return
	}
	for range 1 + map[bool]int{true: 1}[w.rng.Float64() < w.dup] {
		w.sent++
		at := w.now.Add(time.Duration(w.rng.Int64N(int64(w.delayMax)) + 1))
		heap.Push(&w.queue, flight{at: at, seq: w.sent, from: from, to: to, frame: frame})
	}
}

// after runs f in d.
func (w *world) after(d time.Duration, f func()) {
	w.sent++
	heap.Push(&w.queue, flight{at: w.now.Add(d), seq: w.sent, do: f})
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for {
		due, who := end, gossip.NodeID(0)
		for _, id := range w.order {
			if at := w.nodes[id].core.Deadline(); at < due {
				due, who = max(at, w.now), id
			}
		}
		if len(w.queue) > 0 && w.queue[0].at <= due {
			f := heap.Pop(&w.queue).(flight)
			w.now = max(w.now, f.at)
			w.deliver(f)
			continue
		}
		w.now = max(w.now, due)
		if who == 0 {
			return
		}
		w.step(who, Tick{})
	}
}

func (w *world) deliver(f flight) {
	if f.do != nil {
		f.do()
		return
	}
	if w.cut != nil && w.cut(f.from, f.to) {
		return
	}
	m, err := Decode(f.frame)
	if err != nil {
		w.t.Fatalf("a core sent what cannot be decoded: %v", err)
	}
	if w.delivered != nil {
		w.delivered(f.from, f.to, m)
	}
	w.step(f.to, Received{From: f.from, Msg: m})
}

// update begins an update and returns its number.
func (w *world) update(id gossip.NodeID, level replicator.Level, fence replicator.Fence, ops ...operation.Op) RequestID {
	w.nextReq++
	rid := w.nextReq
	w.step(id, Update{ID: rid, Ops: ops, Level: level, Fence: fence, Deadline: w.now.Add(2 * time.Second)})
	return rid
}

func (w *world) read(id gossip.NodeID, level replicator.Level, fence replicator.Fence, keys ...string) RequestID {
	w.nextReq++
	rid := w.nextReq
	w.step(id, Read{ID: rid, Keys: keys, Level: level, Fence: fence, Deadline: w.now.Add(2 * time.Second)})
	return rid
}

// reply runs until the request is answered.
func (w *world) reply(id gossip.NodeID, rid RequestID) Reply {
	w.t.Helper()
	for range 4000 {
		if r, ok := w.nodes[id].replies[rid]; ok {
			return r
		}
		w.run(time.Millisecond)
	}
	w.t.Fatalf("request %d at node %v was never answered", rid, id)
	return Reply{}
}

// onAnswer calls f when the request is answered, or now if it has been.
func (w *world) onAnswer(id gossip.NodeID, rid RequestID, f func(Reply)) {
	n := w.nodes[id]
	if r, ok := n.replies[rid]; ok {
		f(r)
		return
	}
	n.onReply[rid] = f
}

func (w *world) converged() bool {
	for _, id := range w.order {
		if w.nodes[id].core.Digest() != w.nodes[w.order[0]].core.Digest() {
			return false
		}
	}
	return true
}

// settle runs until all replicas are equal, at most for d, and returns how long
// it took.
func (w *world) settle(d time.Duration) time.Duration {
	w.t.Helper()
	start := w.now
	for w.now.Sub(start) < d {
		if w.converged() {
			return w.now.Sub(start)
		}
		w.run(5 * time.Millisecond)
	}
	w.t.Fatalf("replicas differ after %v:\n%s", d, w.states())
	return 0
}

func (w *world) states() string {
	s := ""
	for _, id := range w.order {
		c := w.nodes[id].core
		s += fmt.Sprintf("%v: digest %x keys %d vector %v former %v caughtUp %v session %v\n", id, c.Digest(), c.store.keys, c.stream.seenVector(), c.members.former, c.members.caughtUp, c.sessions.current.peer)
	}
	return s
}

func addTo(id gossip.NodeID, key, e string) operation.Op {
	return Mutate(key, crdt.KindORSet, len(e)+24, func(v crdt.Value) crdt.Value {
		if d := v.(*crdt.ORSet[string]).Add(crdt.NodeID(id), e); d != nil {
			return d
		}
		return nil
	})
}

func removeFrom(key, e string) operation.Op {
	return Mutate(key, crdt.KindORSet, 0, func(v crdt.Value) crdt.Value {
		if d := v.(*crdt.ORSet[string]).Remove(e); d != nil {
			return d
		}
		return nil
	})
}

func setIn(id gossip.NodeID, key, k, v string, term, seq uint64) operation.Op {
	return Mutate(key, crdt.KindLWWMap, len(k)+len(v)+24, func(x crdt.Value) crdt.Value {
		if d := x.(*crdt.LWWMap[string, string]).Set(k, v, crdt.Stamp{Time: term, Node: crdt.NodeID(id), Seq: seq}); d != nil {
			return d
		}
		return nil
	})
}

func count(id gossip.NodeID, key string, n uint64) operation.Op {
	return Mutate(key, crdt.KindGCounter, 24, func(v crdt.Value) crdt.Value {
		if d := v.(*crdt.GCounter).Add(crdt.NodeID(id), n); d != nil {
			return d
		}
		return nil
	})
}

func elements(v crdt.Value) []string {
	if v == nil {
		return nil
	}
	es := v.(*crdt.ORSet[string]).Elements()
	slices.Sort(es)
	return es
}
