package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// An explorer plays all executions of three real cores within bounds: every order of the
// events at one instant, and every place for a few faults.
//
// Messages take no time. At one instant it delivers the messages on the links, each of
// which keeps its order, and fires the due timers, in every order. When nothing is left
// to do, true time advances to the next timer of a node that is not frozen. Faults happen
// between any two such steps. Delaying or losing a message, cutting a link, or freezing a
// node costs one of the plan's faults. A late delivery, a heal, a wake-up or a proof of
// death is free, and may happen at any time or never.
//
// A state that was visited before (explorehash_test.go) is not entered again: its digest
// covers everything on which the future depends, including the time and the faults left,
// and the state of the checks.
type explorer struct {
	plan *plan
	w    *world
	seen map[digest]bool
	// path holds the steps to the present state.
	path  []action
	count exploreCount
	// watch is called at every step, if set.
	watch func(before, after *exploreState, a action)
	buf   []byte
}

// exploreCount counts an exploration's work.
type exploreCount struct {
	// states counts distinct states, steps those that lead to a new state or a visited
	// one.
	states, steps int
	// depth is the longest path, ends counts the paths that reached the plan's end of
	// time.
	depth, ends int
	// cut is set when the plan's bound on states was reached before the end.
	cut bool
}

// plan bounds an exploration.
type plan struct {
	name string
	// faults are the kinds that may happen, budget how many of them.
	faults []kind
	budget int
	// wishes lists the events that may happen once each, in addition to the faults.
	wishes []action
	// start leads to the state from which all orders are played.
	start func(x *explorer) *exploreState
	// span is the length of paths from the start. The first fault or wish happens in the
	// first period of pings, since all periods before it are alike.
	span   time.Duration
	states int
	cfg    func(*Config)
}

type kind uint8

const (
	deliver kind = iota
	fire
	proceed
	release
	thaw
	heal
	prove
	join
	leave
	hold
	crash
	freeze
	isolate
	sever
)

var kindNames = [...]string{
	"deliver", "fire", "proceed", "release", "thaw", "heal", "prove", "join", "leave", "hold", "crash", "freeze", "isolate", "sever",
}

// action is one step of an exploration: a and b are indices of nodes, or the ends of a
// link.
type action struct {
	kind kind
	a, b int
}

func (a action) String() string {
	switch {
	case a.kind == proceed:
		return "time goes on"
	case a.a == a.b:
		return fmt.Sprintf("%s %d", kindNames[a.kind], a.a+1)
	}
	return fmt.Sprintf("%s %d to %d", kindNames[a.kind], a.a+1, a.b+1)
}

const exploreNodes = 3

type flight struct {
	msg Message
	id  digest
}

// exploreState is one state. The data that it points to is never modified in place.
type exploreState struct {
	now     time.Duration
	nodes   [exploreNodes]*simNode
	digests [exploreNodes]digest
	links   [exploreNodes][exploreNodes][]flight
	late    [exploreNodes][exploreNodes][]flight
	// cut holds which links lose messages; a node is cut off if it has none with itself.
	cut [exploreNodes][exploreNodes]bool
	// unproven holds that a has no proof yet that b is dead.
	unproven [exploreNodes][exploreNodes]bool
	truth    *truth
	// past is the truth's digest.
	past digest
	// left is how many faults may still happen, wishes which wishes, as a set of bits.
	left   int
	wishes uint
}

func newExplorer(p *plan) *explorer {
	w := newWorld(nil)
	w.quiet = true
	w.cfg.Ping, w.cfg.Lease, w.cfg.RemoveAfter = explorePing, 5*explorePing/2, 4*explorePing
	if p.cfg != nil {
		p.cfg(&w.cfg)
	}
	return &explorer{plan: p, w: w, seen: map[digest]bool{}}
}

// explorePing is P; L is 2.5 P and RemoveAfter 4 P: short, so that little time has to
// pass, and long enough for leases to last from round to round.
const explorePing = 100 * time.Millisecond

// run explores the plan and returns the failure, with the path to it.
func (x *explorer) run() (wrong string) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			wrong = f.text
		}
	}()
	s := x.start()
	x.explore(s, s.now)
	return ""
}

func (x *explorer) start() *exploreState {
	s := x.plan.start(x)
	s.left, s.wishes = x.plan.budget, 1<<len(x.plan.wishes)-1
	x.path, x.w.log = nil, nil
	return s
}

// retold plays the failing path again and describes each step.
func (x *explorer) retold() string {
	y := newExplorer(x.plan)
	y.w.quiet = false
	var b strings.Builder
	func() {
		defer func() { recover() }() // it fails again
		s := y.start()
		for _, a := range x.path {
			y.w.now = s.now
			y.w.note("-- %v", a)
			s = y.apply(s, a)
		}
	}()
	for _, line := range y.w.log {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// explore visits all successors of a state, depth first.
func (x *explorer) explore(s *exploreState, began time.Duration) {
	id := x.digest(s)
	if x.seen[id] || x.count.cut {
		return
	}
	if x.count.states >= x.plan.states {
		x.count.cut = true
		return
	}
	x.seen[id] = true
	x.count.states++
	x.count.depth = max(x.count.depth, len(x.path))
	if len(x.path) > pathMax {
		x.w.fail("no end after %d steps", len(x.path))
	}
	next := x.next(s, began)
	if len(next) == 0 {
		x.count.ends++
	}
	for _, a := range next {
		x.path = append(x.path, a)
		x.count.steps++
		after := x.apply(s, a)
		if x.watch != nil {
			x.watch(s, after, a)
		}
		x.explore(after, began)
		x.path = x.path[:len(x.path)-1]
	}
}

// pathMax exceeds the length of every path that terminates.
const pathMax = 2000

// next lists the actions possible in a state.
func (x *explorer) next(s *exploreState, began time.Duration) []action {
	out := x.enabled(s)
	untouched := s.left == x.plan.budget && s.wishes == 1<<len(x.plan.wishes)-1
	if len(out) == 0 {
		until := began + x.plan.span
		if untouched {
			until = began + 3*explorePing/2
		}
		if x.nextTimer(s) <= until {
			out = append(out, action{kind: proceed})
		} else {
			return nil
		}
	}
	out = append(out, x.late(s)...)
	for i, a := range x.plan.wishes {
		if s.wishes&(1<<i) != 0 && x.runs(s, a.a) {
			out = append(out, a)
		}
	}
	if s.left > 0 {
		out = append(out, x.faults(s)...)
	}
	return out
}

func (x *explorer) lives(s *exploreState, i int) bool {
	return !s.nodes[i].down && s.nodes[i].removed == nil
}

func (x *explorer) runs(s *exploreState, i int) bool { return x.lives(s, i) && !s.nodes[i].paused }

// enabled lists what is due at this instant.
func (x *explorer) enabled(s *exploreState) []action {
	var out []action
	for i := range s.nodes {
		if !x.runs(s, i) {
			continue
		}
		for from := range s.nodes {
			if len(s.links[from][i]) > 0 {
				out = append(out, action{deliver, from, i})
			}
		}
		n := s.nodes[i]
		if !n.clockAt(s.now).Before(n.core.Deadline()) {
			out = append(out, action{kind: fire, a: i, b: i})
		}
	}
	return out
}

// late lists the delayed events that may still happen.
func (x *explorer) late(s *exploreState) []action {
	var out []action
	for i := range s.nodes {
		if x.lives(s, i) && s.nodes[i].paused {
			out = append(out, action{thaw, i, i})
		}
		for j := range s.nodes {
			if s.cut[i][j] {
				out = append(out, action{heal, i, j})
			}
			if len(s.late[i][j]) > 0 && x.runs(s, j) {
				out = append(out, action{release, i, j})
			}
			if s.unproven[i][j] && x.runs(s, i) {
				out = append(out, action{prove, i, j})
			}
		}
	}
	return out
}

// faults lists the faults that can happen.
func (x *explorer) faults(s *exploreState) []action {
	var out []action
	for _, k := range x.plan.faults {
		for i := range s.nodes {
			for j := range s.nodes {
				if x.can(s, action{k, i, j}) {
					out = append(out, action{k, i, j})
				}
			}
		}
	}
	return out
}

func (x *explorer) can(s *exploreState, a action) bool {
	switch a.kind {
	case hold:
		return len(s.links[a.a][a.b]) > 0
	case sever:
		return a.a != a.b && x.lives(s, a.a) && x.lives(s, a.b) && !s.cut[a.a][a.b]
	case isolate:
		return a.a == a.b && x.lives(s, a.a) && !s.cut[a.a][a.a]
	case crash:
		return a.a == a.b && x.lives(s, a.a)
	case freeze:
		return a.a == a.b && x.runs(s, a.a)
	}
	return false
}

// nextTimer returns when the first timer of a running node fires.
func (x *explorer) nextTimer(s *exploreState) time.Duration {
	at := time.Duration(1<<63 - 1)
	for i, n := range s.nodes {
		if d := n.core.Deadline(); x.runs(s, i) && d != clock.Never {
			at = min(at, max(n.trueTime(d), s.now)+1)
		}
	}
	return at
}

// apply returns the state after an action.
func (x *explorer) apply(was *exploreState, a action) *exploreState {
	next := *was
	s := &next
	if slices.Contains(x.plan.faults, a.kind) {
		s.left--
	}
	switch a.kind {
	case deliver:
		f := s.links[a.a][a.b][0]
		s.links[a.a][a.b] = s.links[a.a][a.b][1:]
		x.step(s, a.b, Received{From: s.nodes[a.a].id, Msg: f.msg})
	case fire:
		x.step(s, a.a, Tick{})
	case proceed:
		s.now = x.nextTimer(s)
	case release:
		f := s.late[a.a][a.b][0]
		s.late[a.a][a.b] = s.late[a.a][a.b][1:]
		x.step(s, a.b, Received{From: s.nodes[a.a].id, Msg: f.msg})
	case hold:
		s.late[a.a][a.b] = append(slices.Clip(s.late[a.a][a.b]), s.links[a.a][a.b][0])
		s.links[a.a][a.b] = s.links[a.a][a.b][1:]
	case heal:
		s.cut[a.a][a.b] = false
	case prove:
		s.unproven[a.a][a.b] = false
		id := s.nodes[a.b].id
		x.step(s, a.a, Link{Subject: id})
		x.step(s, a.a, ProvenDead{Subject: id, Reason: "refused", Certain: true})
	case join, leave:
		x.wish(s, a)
	default:
		x.fault(s, a)
	}
	return s
}

func (x *explorer) wish(s *exploreState, a action) {
	s.wishes &^= 1 << slices.Index(x.plan.wishes, a)
	if a.kind == leave {
		x.step(s, a.a, Leave{})
		return
	}
	x.step(s, a.a, Contacts{Nodes: []gossip.Node{s.nodes[a.b].core.cfg.Self}})
}

func (x *explorer) fault(s *exploreState, a action) {
	switch a.kind {
	case freeze, thaw:
		n := *s.nodes[a.a]
		n.paused = a.kind == freeze
		s.nodes[a.a] = &n
	case sever:
		s.cut[a.a][a.b] = true
		s.links[a.a][a.b] = nil
	case isolate:
		s.cut[a.a][a.a] = true
		for j := range s.nodes {
			s.links[a.a][j], s.links[j][a.a] = nil, nil
		}
	case crash:
		n := *s.nodes[a.a]
		n.down = true
		s.nodes[a.a] = &n
		s.truth = s.truth.clone()
		s.truth.dead[n.id] = true
		s.past = x.pastOf(s.truth)
		for j := range s.nodes {
			s.links[j][a.a], s.late[j][a.a] = nil, nil
			s.unproven[j][a.a] = j != a.a
			s.unproven[a.a][j] = false
		}
	}
}

// step applies an event to a copy of a node and checks the result.
func (x *explorer) step(s *exploreState, i int, ev Event) {
	if !x.lives(s, i) {
		return
	}
	n := *s.nodes[i]
	n.core = cloneCore(n.core)
	s.nodes[i] = &n
	s.truth = s.truth.clone()
	x.enter(s)
	before := n.core.View()
	var out Effects
	n.core.Step(n.clockAt(s.now), ev, &out)
	if out.Removed != nil {
		n.removed = out.Removed
	}
	for k := range out.Trace {
		if x.w.trace(&n, &out.Trace[k]); out.Trace[k].Kind == "drive does not end" {
			x.w.fail("%d: drive does not end", n.id)
		}
	}
	for _, m := range out.Send {
		x.send(s, i, m)
	}
	s.truth.check(&n, before, &out)
	s.digests[i], s.past = x.nodeDigest(&n), x.pastOf(s.truth)
}

// enter loads a state into the world that the checks read.
func (x *explorer) enter(s *exploreState) {
	w := x.w
	w.now, w.truth, w.order = s.now, s.truth, w.order[:0]
	for _, n := range s.nodes {
		w.nodes[n.id] = n
		w.order = append(w.order, n.id)
	}
}

func (x *explorer) send(s *exploreState, from int, m Send) {
	to := int(m.To) - 1
	if to == from {
		x.w.fail("%d sends to itself: %T", m.To, m.Msg)
	}
	if to < 0 || to >= exploreNodes || s.cut[from][to] || s.cut[from][from] || s.cut[to][to] || !x.lives(s, to) {
		return
	}
	f := flight{m.Msg, digestOf(Append(nil, m.Msg))}
	s.links[from][to] = append(slices.Clip(s.links[from][to]), f)
}

func (x *explorer) nodeDigest(n *simNode) digest {
	e := x.encoder()
	e.core(n.core)
	return x.sum(e)
}

func (x *explorer) pastOf(t *truth) digest {
	e := x.encoder()
	e.truth(t)
	return x.sum(e)
}

func (x *explorer) digest(s *exploreState) digest {
	e := x.encoder()
	e.i(int64(s.now)).i(int64(s.left)).u(uint64(s.wishes))
	e.b = append(e.b, s.past[:]...)
	for i, n := range s.nodes {
		e.b = append(e.b, s.digests[i][:]...)
		e.bools(n.down, n.paused, n.removed != nil)
		for j := range s.nodes {
			e.bools(s.cut[i][j], s.unproven[i][j])
			for _, list := range [][]flight{s.links[i][j], s.late[i][j]} {
				e.u(uint64(len(list)))
				for k := range list {
					e.b = append(e.b, list[k].id[:]...)
				}
			}
		}
	}
	return x.sum(e)
}

// encoder lends the one buffer there is.
func (x *explorer) encoder() *encoder { return &encoder{x.buf[:0]} }

func (x *explorer) sum(e *encoder) digest {
	x.buf = e.b
	return digestOf(e.b)
}
