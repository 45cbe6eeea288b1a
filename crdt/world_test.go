package crdt

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A world is a few replicas of one value and a bag of messages between them, driven
// by whatever chooses its steps: rapid, a fuzzer's bytes, an exhaustive search, or a
// seed. Next to each value stands what its replica knows, as plain facts, which is
// the specification: obviously right, and far too slow. After every step value and
// facts must say the same.
type world struct {
	sub    *subject
	know   func() facts
	reps   []*replica
	bag    []message
	nodes  NodeID
	dead   map[NodeID]bool
	now    time.Time
	trace  []string
	mutant mutant
	err    error
}

// replica is one process: a value, the facts it knows, and a clock that may be wrong.
type replica struct {
	node NodeID
	v    Value
	know facts
	seq  uint64
	hlc  HLC
	skew time.Duration
}

// message is in flight: a value and the facts it carries.
type message struct {
	v    Value
	know facts
}

// facts are what a replica, or a message, knows.
type facts interface {
	join(facts)
	clone() facts
	// view says what a reader must see.
	view() string
	// only keeps the facts that a part of a value speaks of.
	only(part Value) facts
	equal(facts) bool
}

// subject is a type under test.
type subject struct {
	name  string
	fresh func() Value
	know  func() func() facts // one per world
	// ops change a replica's value and facts and return delta and its facts, nil
	// if nothing changed.
	ops  []op
	view func(Value) string
}

type op struct {
	name string
	do   func(w *world, r *replica) (Value, facts)
}

// mutant is a mistake made on purpose. The world must notice.
type mutant struct {
	delta func(Value) Value             // bends every delta
	join  func(dst Value, src Value)    // bends every join, after it
	part  func(part Value, whole Value) // bends every chunk
}

func newWorld(sub *subject, replicas int) *world {
	w := &world{sub: sub, know: sub.know(), dead: map[NodeID]bool{}, now: time.UnixMilli(1_000_000)}
	for i := range replicas {
		r := &replica{skew: []time.Duration{0, time.Hour, -time.Hour, 0}[i%4]}
		r.hlc.MaxAhead = 1000 * time.Hour
		w.reps = append(w.reps, r)
		w.boot(r)
	}
	return w
}

func (w *world) boot(r *replica) {
	w.nodes++
	r.node, r.seq = w.nodes*7919%100003, 0 // ids in no order
	r.v, r.know = w.sub.fresh(), w.know()
}

func (w *world) wall(r *replica) time.Time { return w.now.Add(r.skew) }

func (w *world) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format+"\nsteps: %v", append(args, w.trace)...)
	}
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// op runs operation k at replica i and puts its delta into the bag.
func (w *world) op(i, k int) {
	r, o := w.reps[i], w.sub.ops[k]
	w.logf("%s@%d", o.name, i)
	w.now = w.now.Add(time.Millisecond)
	before := r.v.Clone()
	delta, know := o.do(w, r)
	if delta == nil {
		if before.Digest() != r.v.Digest() {
			w.failf("%s gave no delta and changed the value", o.name)
		}
		w.check(r)
		return
	}
	if w.mutant.delta != nil {
		delta = w.mutant.delta(delta)
	}
	w.join(before, delta)
	if !same(before, r.v) {
		w.failf("%s: delta joined to the old value gives %s, the operation gave %s", o.name, w.sub.view(before), w.sub.view(r.v))
	}
	w.bag = append(w.bag, message{w.wire(delta), know})
	w.check(r)
}

// wire sends a value through the codec.
func (w *world) wire(v Value) Value {
	b := v.Append(nil)
	out, err := Decode(v.Kind(), b)
	switch {
	case err != nil:
		w.failf("%s does not survive its encoding: %v", w.sub.view(v), err)
		return v.Clone()
	case out.Digest() != v.Digest():
		w.failf("digest changed on the wire")
	case !bytes.Equal(out.Append(nil), b):
		w.failf("bytes changed on the wire")
	}
	return out
}

func (w *world) join(dst, src Value) {
	digest := dst.Digest()
	changed, err := dst.Join(src)
	if err != nil {
		w.failf("join: %v", err)
	}
	if changed != (digest != dst.Digest()) {
		w.failf("join says changed=%v, digest %x -> %x", changed, digest, dst.Digest())
	}
	if w.mutant.join != nil {
		w.mutant.join(dst, src)
	}
}

func (w *world) receive(i int, m message) {
	w.join(w.reps[i].v, m.v)
	w.reps[i].know.join(m.know)
	w.check(w.reps[i])
}

// full sends the whole value of replica i to the bag.
func (w *world) full(i int) {
	w.logf("full(%d)", i)
	w.bag = append(w.bag, message{w.wire(w.reps[i].v), w.reps[i].know.clone()})
}

// chunks sends the value of replica i in parts, each a message of its own.
func (w *world) chunks(i, bytesMax int) {
	w.logf("chunks(%d,%d)", i, bytesMax)
	whole := w.sub.fresh()
	for part := range Split(w.reps[i].v, bytesMax) {
		if w.mutant.part != nil {
			w.mutant.part(part, w.reps[i].v)
		}
		w.join(whole, part)
		w.bag = append(w.bag, message{w.wire(part), w.reps[i].know.only(part)})
	}
	if !same(whole, w.reps[i].v) {
		w.failf("the parts of a value are not the value: %s, not %s", w.sub.view(whole), w.sub.view(w.reps[i].v))
	}
}

func (w *world) deliver(m, i int, keep bool) {
	w.logf("deliver(%d->%d)", m, i)
	msg := w.bag[m]
	if !keep {
		w.bag = slices.Delete(w.bag, m, m+1)
	}
	w.receive(i, msg)
}

// batch joins message b into message a.
func (w *world) batch(a, b int) {
	w.logf("batch(%d,%d)", a, b)
	v, know := w.bag[a].v.Clone(), w.bag[a].know.clone()
	w.join(v, w.bag[b].v)
	know.join(w.bag[b].know)
	w.bag[a] = message{v, know}
}

func (w *world) restart(i int) {
	w.logf("restart(%d)", i)
	w.dead[w.reps[i].node] = true
	w.boot(w.reps[i])
}

// settle empties the bag and makes all replicas equal.
func (w *world) settle() {
	w.bag = nil
	for range 2 {
		for i := range w.reps {
			for j := range w.reps {
				if i != j {
					w.receive(j, message{w.wire(w.reps[i].v), w.reps[i].know})
				}
			}
		}
	}
	for _, r := range w.reps[1:] {
		if !same(r.v, w.reps[0].v) {
			w.failf("replicas differ in the end: %s and %s", w.sub.view(r.v), w.sub.view(w.reps[0].v))
		}
	}
}

// prune settles and lets every replica forget what it can of the dead.
func (w *world) prune() {
	w.logf("prune")
	w.settle()
	for _, r := range w.reps {
		p, ok := r.v.(prunable)
		if !ok {
			return
		}
		dead := func(n NodeID) bool { return w.dead[n] }
		agreed := w.reps[0].v.(prunable).Garbage(dead)
		if r != w.reps[0] {
			agreed = p.Garbage(dead)
		}
		if r == w.reps[0] {
			w.prunedFolds(r.v)
		}
		if p.Prune(agreed, dead) != (agreed.Items > 0) {
			w.failf("prune of %d items did not do what it says", agreed.Items)
		}
		if g := p.Garbage(dead); g != (Garbage{}) {
			w.failf("garbage after pruning: %+v", g)
		}
		if f, ok := r.know.(*writes); ok {
			maps.DeleteFunc(f.keys, func(_ string, e lwwEntry[string, string]) bool { return e.dead })
		}
	}
	for _, r := range w.reps {
		w.check(r)
		if !same(r.v, w.reps[0].v) {
			w.failf("pruning made equal replicas differ")
		}
	}
}

// prunedFolds tells the facts that the folded shares of the dead are their heirs' own
// now. All replicas know all, and are about to forget where it came from.
func (w *world) prunedFolds(v Value) {
	part := func(c *GCounter, down bool) {
		k := w.reps[0].know.(*tallies)
		whole := c.whole(func(n NodeID) bool { return w.dead[n] })
		gone := func(n NodeID) bool { return slices.Contains(whole, n) }
		for _, f := range c.folds {
			heir := account{f.heir, down}
			if gone(f.dead) && !gone(f.heir) { // changes that nobody knows are lost
				n := int64(f.n)
				if down {
					n = -n
				}
				(*k.log)[heir] = append((*k.log)[heir][:k.known[heir]], n)
				k.known[heir]++
			}
		}
		for _, r := range w.reps {
			k := r.know.(*tallies)
			for _, f := range c.folds {
				if gone(f.dead) {
					delete(k.known, account{f.dead, down})
					delete(k.heirs, account{f.dead, down})
					delete(k.heirs[account{f.heir, down}], account{f.dead, down})
				}
				if heir := (account{f.heir, down}); gone(f.dead) && !gone(f.heir) {
					k.known[heir] = len((*k.log)[heir])
				}
			}
		}
	}
	switch c := v.(type) {
	case *GCounter:
		part(c, false)
	case *PNCounter:
		part(&c.up, false)
		part(&c.down, true)
	}
}

// fold lets replica i take over the shares of all dead writers.
func (w *world) fold(i int) {
	f, ok := w.reps[i].v.(foldable)
	if !ok {
		return
	}
	w.logf("fold(%d)", i)
	for _, n := range sortedNodes(w.dead) {
		before := f.Clone()
		delta := f.Fold(n, w.reps[i].node)
		if delta == nil {
			continue
		}
		w.join(before, delta)
		if !same(before, f) {
			w.failf("fold: the delta is not the change")
		}
		k, heir := w.reps[i].know.(*tallies), w.reps[i].node
		carried := emptyTallies(k.log)
		for _, down := range []bool{false, true} {
			if folds(delta, down) {
				k.fold(account{heir, down}, account{n, down})
				carried.join(k.entry(account{heir, down}))
			}
		}
		w.bag = append(w.bag, message{w.wire(delta), carried})
		w.check(w.reps[i])
	}
}

// folds reports whether the delta of a fold moves anything on that side.
func folds(delta Value, down bool) bool {
	switch d := delta.(type) {
	case *GCounter:
		return !down
	case *PNCounter:
		return !down && len(d.up.folds) > 0 || down && len(d.down.folds) > 0
	}
	return false
}

func sortedNodes(m map[NodeID]bool) []NodeID {
	var out []NodeID
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// check compares a replica with what it knows, and with its peers.
func (w *world) check(r *replica) {
	if w.err != nil {
		return
	}
	if got, want := w.sub.view(r.v), r.know.view(); got != want {
		w.failf("%s: reads %s, must be %s", w.sub.name, got, want)
	}
	if err := consistent(r.v); err != nil {
		w.failf("%v", err)
	}
	for _, p := range w.reps {
		if p != r && p.know.equal(r.know) && !same(p.v, r.v) {
			w.failf("two replicas know the same and differ: %s and %s", w.sub.view(p.v), w.sub.view(r.v))
		}
	}
}

func same(a, b Value) bool {
	return a.Digest() == b.Digest() && bytes.Equal(a.Append(nil), b.Append(nil))
}

// step takes one step; choose(n) returns a number from 0 to n-1.
func (w *world) step(choose func(n int) int) {
	n := len(w.reps)
	switch k := choose(20); {
	case k < 8:
		w.op(choose(n), choose(len(w.sub.ops)))
	case k < 13 && len(w.bag) > 0:
		w.deliver(choose(len(w.bag)), choose(n), choose(3) == 0)
	case k == 13 && len(w.bag) > 0:
		m := choose(len(w.bag))
		w.logf("drop(%d)", m)
		w.bag = slices.Delete(w.bag, m, m+1)
	case k == 14:
		w.full(choose(n))
	case k == 15:
		w.chunks(choose(n), 1+choose(200))
	case k == 16 && len(w.bag) > 1:
		a := choose(len(w.bag) - 1)
		w.batch(a, a+1)
	case k == 17 && choose(3) == 0:
		w.restart(choose(n))
	case k == 18 && choose(3) == 0:
		w.prune()
	case k == 19:
		w.fold(choose(n))
	}
}
