package crdt

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

// A dead writer's share was folded in two steps, by two heirs. All replicas agreed on
// the garbage, and one of them has pruned it. A delta of an heir that has not pruned yet
// used to bring the dead entry back with that heir's record alone: the other heir's part
// was counted twice, for ever.
func TestPrunedSharesOfTwoHeirsAreNotDoubled(t *testing.T) {
	var a GCounter
	a.Merge((&GCounter{}).Add(nd, 4))
	a.Fold(nd, na)
	a.Merge((&GCounter{}).Add(nd, 10))
	b := copyOf(&a)
	a.Merge(b.Fold(nd, nb).(*GCounter))
	c := copyOf(b)
	dead := func(n NodeID) bool { return n == nd }
	agreed := a.Garbage(dead)
	if agreed != b.Garbage(dead) || agreed.Items == 0 {
		t.Fatalf("nothing to prune: %+v", agreed)
	}
	c.Prune(agreed, dead)
	delta := a.Add(na, 1)
	b.Merge(delta)
	c.Merge(delta)
	a.Prune(agreed, dead)
	b.Prune(agreed, dead)
	for name, v := range map[string]*GCounter{"the heir": &a, "the other heir": b, "the first to prune": c} {
		if v.Count() != 11 {
			t.Errorf("%s counts %d, want 11", name, v.Count())
		}
	}
}

// TestPruningAtDifferentTimesCountsOnce plays random schedules of folds by any live
// writer, and of prunes that replicas carry out at different times while deltas travel.
func TestPruningAtDifferentTimesCountsOnce(t *testing.T) {
	schedules := testsize.Runs(3_000, 6_000, 30_000)
	pruned := 0
	for seed := range schedules {
		w := newPruneWorld(uint64(seed))
		for range 20 + w.rng.IntN(30) {
			w.step()
		}
		pruned += w.finish(t, seed)
		if t.Failed() {
			return
		}
	}
	if pruned < schedules/10 {
		t.Fatalf("only %d of %d schedules pruned anything", pruned, schedules)
	}
}

// pruneWorld is three live replicas of a counter with two dead writers, whose last
// counts arrive late. Deltas travel in order on each link.
type pruneWorld struct {
	rng   *rand.Rand
	reps  [3]GCounter
	links [3][3][]*GCounter // from, to
	late  []*GCounter       // counts of dead writers that some replica has yet to get
	truth uint64
	// prune is what all agreed upon and who has yet to carry it out; nil if none.
	agreed Garbage
	due    []int
	pruned int
}

var pruneWriters, pruneDead = [3]NodeID{na, nb, nc}, []NodeID{nd, nd + 1}

func isDead(n NodeID) bool { return slices.Contains(pruneDead, n) }

func newPruneWorld(seed uint64) *pruneWorld {
	w := &pruneWorld{rng: rand.New(rand.NewPCG(seed, 17))}
	for _, n := range pruneDead {
		var c GCounter
		for range 1 + w.rng.IntN(3) {
			k := 1 + w.rng.Uint64N(9)
			w.truth += k
			w.late = append(w.late, c.Add(n, k))
		}
	}
	return w
}

func (w *pruneWorld) send(from int, d *GCounter) {
	for to := range w.reps {
		if to != from && d != nil {
			w.links[from][to] = append(w.links[from][to], copyOf(d))
		}
	}
}

func (w *pruneWorld) step() {
	i := w.rng.IntN(len(w.reps))
	switch w.rng.IntN(8) {
	case 0:
		k := 1 + w.rng.Uint64N(5)
		w.truth += k
		w.send(i, w.reps[i].Add(pruneWriters[i], k))
	case 1:
		if d := w.reps[i].fold(pruneDead[w.rng.IntN(2)], pruneWriters[i]); d != nil {
			w.send(i, d)
		}
	case 2:
		if len(w.late) > 0 && len(w.due) == 0 {
			w.reps[i].Merge(w.late[0])
			w.send(i, w.late[0])
			w.late = w.late[1:]
		}
	case 3:
		w.deliver(i, w.rng.IntN(len(w.reps)))
	case 4:
		w.agree()
	case 5:
		w.carryOut()
	default:
		w.flush()
	}
}

func (w *pruneWorld) deliver(from, to int) {
	if q := w.links[from][to]; len(q) > 0 {
		w.reps[to].Merge(q[0])
		w.links[from][to] = q[1:]
	}
}

func (w *pruneWorld) flush() {
	for from := range w.links {
		for to := range w.links[from] {
			for len(w.links[from][to]) > 0 {
				w.deliver(from, to)
			}
		}
	}
}

// agree asks all replicas, whose answers come after all that was sent before them.
func (w *pruneWorld) agree() {
	if len(w.due) > 0 || len(w.late) > 0 {
		return
	}
	w.flush()
	g := w.reps[0].Garbage(isDead)
	if g.Items == 0 || g != w.reps[1].Garbage(isDead) || g != w.reps[2].Garbage(isDead) {
		return
	}
	w.agreed, w.due = g, w.rng.Perm(len(w.reps))
}

func (w *pruneWorld) carryOut() {
	if len(w.due) > 0 {
		if w.reps[w.due[0]].Prune(w.agreed, isDead) {
			w.pruned++
		}
		w.due = w.due[1:]
	}
}

// finish lets everything arrive and compares the counts with what was counted.
func (w *pruneWorld) finish(t *testing.T, seed int) int {
	for _, d := range w.late {
		w.reps[0].Merge(d)
		w.send(0, d)
	}
	w.late = nil
	for len(w.due) > 0 {
		w.carryOut()
	}
	w.flush()
	w.agree()
	for len(w.due) > 0 {
		w.carryOut()
	}
	w.flush()
	for i := range w.reps {
		if got := w.reps[i].Count(); got != w.truth {
			t.Errorf("schedule %d: replica %d counts %d of %d", seed, i, got, w.truth)
		}
	}
	return min(w.pruned, 1)
}
