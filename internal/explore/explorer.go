package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func newExplorer(p *plan, most int) *explorer {
	return &explorer{plan: p, camera: newCamera(), seen: map[digest]bool{}, served: map[digest]bool{}, most: most, taken: map[string]int{}}
}

// explore plays the plan, and returns the check that failed, "" if none did.
func (x *explorer) explore() (wrong string) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(fmt.Sprintf("%v\n%s", r, x.retold()))
			}
			wrong = string(f)
		}
	}()
	w := x.startState()
	x.visit(w, w.now)
	return ""
}

// startState returns the state at rest from which all orders are played.
func (x *explorer) startState() *world {
	w := &world{x: x, now: 1, cluster: &cluster{truth: newTruth()}}
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(7)}
	for i := range w.nodes {
		w.nodes[i] = newNode(gossip.NodeID(i+1), x.plan)
		if i < x.plan.up {
			w.nodes[i].alive = true
			v.Members = append(v.Members, w.nodes[i].memberEntry(gossip.Up))
		}
		w.own[i] = true
	}
	w.cluster.newest, w.ownCluster = v, true
	w.seal()
	w = x.rest(w)
	if !x.plan.unallocated {
		for i := range x.plan.up {
			w = x.after(w, action{kind: need, a: i})
			w = x.rest(w)
		}
	}
	if wrong := checkServed(w); wrong != "" && !x.plan.unallocated {
		w.fail("before the exploration: %s", wrong)
	}
	w = w.branch()
	w.left, w.wishes = x.plan.budget, 1<<len(x.plan.wishes)-1
	x.path, x.lines, x.taken = nil, nil, map[string]int{}
	return w
}

// rest runs in one order until nothing is due and half a second has passed.
func (x *explorer) rest(w *world) *world {
	for end := w.now.Add(5 * resend); ; {
		switch due := w.dueActions(); {
		case len(due) > 0:
			w = x.after(w, due[0])
		case w.nextTimer().After(end):
			return w
		default:
			w = x.after(w, action{kind: proceed})
		}
	}
}

// after returns the state that an action leads to.
func (x *explorer) after(w *world, a action) *world {
	next := w.branch()
	if a.kind != deliver {
		x.taken[a.kind.String()]++
	}
	if a.kind.loses() {
		next.editCluster().truth.faulty = true
	}
	next.act(a)
	checkAll(next)
	next.seal()
	return next
}

func (x *explorer) countMessage(msg any) {
	m, ok := msg.(protocol.Message)
	if !ok {
		x.taken[strings.TrimPrefix(fmt.Sprintf("%T", msg), "*main.")]++
		return
	}
	x.taken[protocol.Name(m)]++
}

// visit explores all successors of a state, depth first.
func (x *explorer) visit(w *world, began clock.Instant) {
	id := w.digest()
	if x.seen[id] || x.cut {
		return
	}
	if x.states >= x.most {
		x.cut = true
		return
	}
	x.seen[id] = true
	x.states++
	x.depth = max(x.depth, len(x.path))
	if len(x.path) > pathMax {
		w.fail("no end after %d steps", len(x.path))
	}
	next, ended := x.nextActions(w, began)
	if ended {
		x.finishPlan(w)
	}
	for _, a := range next {
		x.path = append(x.path, a)
		x.steps++
		after := x.after(w, a)
		x.spend(after, a)
		if x.watch != nil {
			x.watch(w, after, a)
		}
		x.visit(after, began)
		x.path = x.path[:len(x.path)-1]
	}
}

// pathMax exceeds the length of every path that ends.
const pathMax = 3000

// spend counts a wish or fault that has happened.
func (x *explorer) spend(w *world, a action) {
	if a.kind >= crash {
		w.left--
	}
	if i := slices.Index(x.plan.wishes, a); i >= 0 {
		w.wishes &^= 1 << i
	}
}

// nextActions lists the actions that are possible in a state. ended is set if nothing is due, and the
// time of the plan is over.
func (x *explorer) nextActions(w *world, began clock.Instant) (out []action, ended bool) {
	out = w.dueActions()
	untouched := w.left == x.plan.budget && w.wishes == 1<<len(x.plan.wishes)-1
	if len(out) == 0 && !untouched {
		if ended = w.nextTimer().After(began.Add(x.plan.span)); !ended {
			out = append(out, action{kind: proceed})
		}
	}
	out = append(out, w.laters()...)
	for i, a := range x.plan.wishes {
		if w.wishes&(1<<i) != 0 && w.can(a) {
			out = append(out, a)
		}
	}
	if w.left > 0 {
		out = append(out, x.faults(w)...)
	}
	return out, ended
}

// faults lists the faults that can happen.
func (x *explorer) faults(w *world) []action {
	var out []action
	for _, k := range x.plan.faults {
		for i := range nodes {
			if k != hold && k != breakLink {
				if a := (action{kind: k, a: i}); w.can(a) {
					out = append(out, a)
				}
				continue
			}
			for j := range nodes {
				for l := range classes {
					if a := (action{k, i, j, l}); w.can(a) {
						out = append(out, a)
					}
				}
			}
		}
	}
	return out
}

// finishPlan lets all delays end, asks for all shards, and lets time pass in one order until they are
// served.
func (x *explorer) finishPlan(w *world) {
	x.ends++
	path := len(x.path)
	var passed []digest
	for end := w.now.Add(endMax); ; {
		id := w.digest()
		if x.served[id] {
			break
		}
		passed = append(passed, id)
		due := w.dueActions()
		if len(due) == 0 && len(w.laters()) == 0 && checkServed(w) == "" {
			break
		}
		if w.now.After(end) {
			w.fail("L1: %s, %v after the end of all delays", checkServed(w), endMax)
		}
		var next []action
		if later := w.laters(); len(later) > 0 {
			next = later[:1]
		} else if len(due) > 0 {
			next = due[:1]
		} else {
			next = append(askers(w), action{kind: proceed})
		}
		for _, a := range next {
			x.path = append(x.path, a)
			w = x.after(w, a)
		}
	}
	x.path = x.path[:path]
	for _, id := range passed {
		x.served[id] = true
	}
}

// askers lists the members whose routes are not all open, as those that ask for homes.
func askers(w *world) []action {
	var out []action
	for i, n := range w.nodes {
		for s := range protocol.ShardID(shards) {
			a := action{kind: need, a: i}
			if _, open := n.reg.Route(s); !open && w.can(a) {
				out = append(out, a)
				break
			}
		}
	}
	return out
}

// endMax is how long it may take until all shards are served.
const endMax = 5 * time.Second

func (w *world) nextTimer() clock.Instant {
	at := clock.Never
	for _, n := range w.nodes {
		if n.alive {
			at = clock.Min(at, n.deadline())
		}
	}
	return at
}

// retold plays the failing path again, and describes each step.
func (x *explorer) retold() string {
	y := newExplorer(x.plan, x.most)
	path := x.path
	func() {
		defer func() { _ = recover() }() // it fails again
		w := y.startState()
		y.loud = true
		for _, a := range path {
			w = y.after(w, a)
		}
	}()
	return strings.Join(y.lines, "\n")
}
