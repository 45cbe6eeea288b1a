package crdt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// gathered is a value under test and what is done with it.
type gathered struct {
	name   string
	fresh  func() gatherable
	add    func(v Value, node NodeID, k string, n int64) Value
	remove func(v Value, k string) Value
	view   func(v Value) string
}

var gatheredKinds = []gathered{{
	name:  "PNCounterMap",
	fresh: func() gatherable { return &PNCounterMap[string]{} },
	add: func(v Value, node NodeID, k string, n int64) Value {
		return v.(*PNCounterMap[string]).Add(node, k, n)
	},
	remove: func(v Value, k string) Value { return deltaOf(v.(*PNCounterMap[string]).Remove(k)) },
	view:   counterMapSubject().view,
}, {
	name:  "ORMap",
	fresh: func() gatherable { return &ORMap[string, string]{} },
	add: func(v Value, node NodeID, k string, n int64) Value {
		if n == 0 {
			return v.(*ORMap[string, string]).At(k).Set(node, "x")
		}
		return v.(*ORMap[string, string]).At(k, "n").Increment(node, n)
	},
	remove: func(v Value, k string) Value { return deltaOf(v.(*ORMap[string, string]).Remove(k)) },
	view:   mapSubject().view,
}}

// flight is a delta under way.
type flight struct {
	v    Value
	node NodeID // its writer
	at   int    // where that lives
}

// gatherRun is replicas that gather the shares of the dead in steps: each at a time of its
// own, with changes in between, and nothing passing between one that has and one that
// has not.
type gatherRun struct {
	kind   *gathered
	rng    *rand.Rand
	vals   []gatherable
	nodes  []NodeID
	dead   map[NodeID]bool
	floor  []int
	ids    NodeID
	orders []func(NodeID) bool
	bag    []flight
	gather bool // or only look on
}

func (r *gatherRun) reboot(i int) {
	r.ids++
	if r.nodes[i] != 0 {
		r.dead[r.nodes[i]] = true
		// What it has not sent is lost with it.
		r.bag = slices.DeleteFunc(r.bag, func(f flight) bool { return f.node == r.nodes[i] })
	}
	r.nodes[i] = r.ids * 7919 % 100003
}

func (r *gatherRun) level() bool { return slices.Min(r.floor) == slices.Max(r.floor) }

// done reports whether all have carried out all orders.
func (r *gatherRun) done() bool { return slices.Min(r.floor) == len(r.orders) }

func (r *gatherRun) full(i, j int) {
	if i != j && r.floor[i] == r.floor[j] {
		_, _ = r.vals[i].Join(r.vals[j].Clone())
	}
}

// step does one thing; the same numbers do the same in a run that only looks on.
func (r *gatherRun) step(t *testing.T) {
	n, key := len(r.vals), string(rune('a'+r.rng.IntN(4)))
	i, j, x := r.rng.IntN(n), r.rng.IntN(n), int64(r.rng.IntN(9)-4)
	switch k := r.rng.IntN(20); {
	case k < 7:
		d := r.kind.add(r.vals[i], r.nodes[i], key, x)
		r.bag = append(r.bag, flight{d.Clone(), r.nodes[i], i})
	case k < 9:
		if d := r.kind.remove(r.vals[i], key); d != nil {
			r.bag = append(r.bag, flight{d.Clone(), r.nodes[i], i})
		}
	case k < 14 && len(r.bag) > 0:
		// A writer's log goes to all, whenever it likes: old changes also after a gathering.
		if f := r.bag[r.rng.IntN(len(r.bag))]; r.floor[f.at] == r.floor[i] {
			_, _ = r.vals[i].Join(f.v.Clone())
		}
	case k < 16:
		r.full(i, j)
	case k < 17 && r.level():
		r.reboot(i)
	case k < 18 && r.done():
		for a := range r.vals {
			for b := range r.vals {
				r.full(a, b)
				r.full(b, a)
			}
		}
		r.agree(t)
	case r.floor[i] < len(r.orders):
		if of := r.orders[r.floor[i]]; of != nil && r.gather {
			before := r.kind.view(r.vals[i])
			r.vals[i].Gather(of)
			if after := r.kind.view(r.vals[i]); after != before {
				t.Fatalf("%s: %s after gathering, %s before", r.kind.name, after, before)
			}
		}
		r.floor[i]++
	}
}

// agree finds what all could gather. A run that only looks on takes the step without.
func (r *gatherRun) agree(t *testing.T) {
	dead := func(n NodeID) bool { return r.dead[n] }
	ws := r.vals[0].Loose(dead, 3)
	if !r.gather {
		r.orders = append(r.orders, nil)
		return
	}
	of := func(n NodeID) bool { return slices.Contains(ws, n) }
	for _, v := range r.vals {
		if v.Shares(of) != r.vals[0].Shares(of) {
			t.Fatalf("%s: settled replicas differ", r.kind.name)
		}
	}
	if (r.vals[0].Shares(of).Items > 0) != (len(ws) > 0) {
		t.Fatalf("%s: %v is loose, of %+v", r.kind.name, ws, r.vals[0].Shares(of))
	}
	r.orders = append(r.orders, of)
}

// A run in which the shares of the dead are put together, and one in which they are
// not, show the same at every replica after every step.
func TestGatheringShowsNothing(t *testing.T) {
	t.Parallel()
	for k := range gatheredKinds {
		for seed := range uint64(60) {
			var runs [2]*gatherRun
			for w := range runs {
				runs[w] = &gatherRun{kind: &gatheredKinds[k], rng: rand.New(rand.NewPCG(seed, 1)), dead: map[NodeID]bool{},
					vals: make([]gatherable, 4), nodes: make([]NodeID, 4), floor: make([]int, 4), gather: w == 1}
				for i := range runs[w].vals {
					runs[w].vals[i] = runs[w].kind.fresh()
					runs[w].reboot(i)
				}
			}
			for step := range 300 {
				runs[0].step(t)
				runs[1].step(t)
				for i := range runs[0].vals {
					want, got := runs[0].kind.view(runs[0].vals[i]), runs[1].kind.view(runs[1].vals[i])
					if want != got {
						t.Fatalf("%s, seed %d, step %d, replica %d: %s, without gathering %s", runs[0].kind.name, seed, step, i, got, want)
					}
				}
			}
			r := runs[1]
			for i := range r.vals {
				for r.floor[i] < len(r.orders) {
					r.vals[i].Gather(r.orders[r.floor[i]])
					r.floor[i]++
				}
			}
			for range 2 {
				for i := range r.vals {
					for j := range r.vals {
						r.full(i, j)
					}
				}
			}
			for _, v := range r.vals {
				if v.Digest() != r.vals[0].Digest() {
					t.Fatalf("%s, seed %d: replicas differ in the end: %s and %s", r.kind.name, seed, r.kind.view(v), r.kind.view(r.vals[0]))
				}
			}
		}
	}
}

// A counter that has outlived a hundred writers has one share of them.
func TestGatherKeepsOneShareOfTheDead(t *testing.T) {
	for k := range gatheredKinds {
		kind := &gatheredKinds[k]
		v := kind.fresh()
		for n := range NodeID(100) {
			kind.add(v, 1000-n, "k", 2)
			kind.add(v, 1000-n, fmt.Sprint("own ", n), 1)
		}
		before, size := kind.view(v), v.Size()
		dead := func(n NodeID) bool { return n != 901 }
		for rounds := 0; ; rounds++ {
			ws := v.Loose(dead, 8)
			if len(ws) == 0 {
				if rounds < 99/7 || rounds > 99/7+1 {
					t.Errorf("%s: %d rounds", kind.name, rounds)
				}
				break
			}
			if len(ws) > 8 || !v.Gather(func(n NodeID) bool { return slices.Contains(ws, n) }) {
				t.Fatalf("%s: %v was loose", kind.name, ws)
			}
		}
		if got := v.Shares(dead); got.Items != 0 || kind.view(v) != before || v.Size() > size-98*8 {
			t.Errorf("%s: %d to gather, %d of %d bytes, %s", kind.name, got.Items, v.Size(), size, kind.view(v))
		}
	}
}
