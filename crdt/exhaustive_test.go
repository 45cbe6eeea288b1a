package crdt

import (
	"os"
	"strconv"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

// TestSmallScope tries everything that three replicas can do in a few steps: every
// operation anywhere, every state sent anywhere, every delta delivered anywhere, at
// once, later, or twice. Deeper: CRDT_DEPTH=5.
func TestSmallScope(t *testing.T) {
	for _, x := range []struct {
		sub   *subject
		ops   []string
		depth int
	}{
		{orsetSubject(), []string{"add x", "remove x"}, 5},
		{orsetSubject(), []string{"add x", "remove x", "add y", "clear"}, 4},
		{flagSubject(), []string{"enable", "disable"}, 5},
		{mvSubject(), []string{"set a", "set b", "clear"}, 4},
		{multiSubject(), []string{"add kx", "add ky", "remove kx", "remove key k"}, 4},
		{counterMapSubject(), []string{"add k5", "remove k"}, 5},
		{mapSubject(), []string{"set k", "increment k", "remove k"}, 4},
		{lwwMapSubject(), []string{"set ka", "delete k"}, 5},
		{gcounterSubject(), []string{"add 1"}, 5},
	} {
		t.Run(x.sub.name+"/"+x.ops[len(x.ops)-1], func(t *testing.T) {
			t.Parallel()
			depth := x.depth
			if d, err := strconv.Atoi(os.Getenv("CRDT_DEPTH")); err == nil {
				depth = d
			} else if !testsize.Full() || raceEnabled {
				depth--
			}
			s := &search{sub: x.sub}
			for i, o := range x.sub.ops {
				for _, name := range x.ops {
					if o.name == name {
						s.ops = append(s.ops, i)
					}
				}
			}
			// All replicas are alike at first: the first step is at the first one.
			for _, k := range s.ops {
				w := newWorld(x.sub, 3)
				w.op(0, k)
				s.explore(w, depth-1)
			}
			if s.err != nil {
				t.Fatal(s.err)
			}
			t.Logf("%d states", s.states)
		})
	}
}

type search struct {
	sub    *subject
	ops    []int
	states int
	err    error
}

// explore tries every next step of w.
func (s *search) explore(w *world, depth int) {
	s.states++
	if s.err = w.err; s.err != nil {
		return
	}
	if depth == 0 {
		end := fork(w)
		for _, x := range [][2]int{{1, 0}, {2, 0}, {0, 1}, {0, 2}} {
			end.send(x[0], x[1])
		}
		s.err = end.err
		return
	}
	try := func(step func(w *world)) {
		if s.err == nil {
			next := fork(w)
			step(next)
			s.explore(next, depth-1)
		}
	}
	for i := range w.reps {
		for _, k := range s.ops {
			try(func(w *world) { w.op(i, k) })
		}
		for j := range w.reps {
			if i != j && w.reps[i].v.Digest() != w.reps[j].v.Digest() {
				try(func(w *world) { w.send(i, j) })
			}
		}
		for m := range w.bag {
			try(func(w *world) { w.deliver(m, i, true) })
		}
	}
}

// send joins the state of replica i into replica j.
func (w *world) send(i, j int) {
	w.logf("send(%d->%d)", i, j)
	w.receive(j, message{w.reps[i].v, w.reps[i].know.clone()})
}

func fork(w *world) *world {
	c := *w
	c.reps = nil
	for _, r := range w.reps {
		x := *r
		x.v, x.know = r.v.Clone(), r.know.clone()
		c.reps = append(c.reps, &x)
	}
	c.bag = append([]message(nil), w.bag...)
	c.trace = append([]string(nil), w.trace...)
	if t, ok := w.reps[0].know.(*tallies); ok { // the log is shared: give the fork its own
		log := map[account][]int64{}
		for a, x := range *t.log {
			log[a] = append([]int64(nil), x...)
		}
		for _, r := range c.reps {
			r.know.(*tallies).log = &log
		}
		for i, m := range c.bag {
			k := m.know.clone().(*tallies)
			k.log = &log
			c.bag[i].know = k
		}
	}
	return &c
}
