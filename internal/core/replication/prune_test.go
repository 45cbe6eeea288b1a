package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// reaper is a random run in which much is deleted and forgotten. Every element and
// every value of a map is written once in the whole run, so each is a fact that
// comes and goes at most once at each replica.
type reaper struct {
	*campaign
	// seen has what each replica shows, gone what it has shown before.
	seen map[gossip.NodeID]map[string]map[string]bool
	gone map[gossip.NodeID]map[string]bool
	// ended are facts that some replica was told to end.
	ended     map[string]bool
	counts    map[gossip.NodeID]map[string]uint64
	unwatched map[gossip.NodeID]bool
	issued    map[string]uint64
	sure      map[string]uint64
	broken    string
	// file is what a node that is gone has kept; it comes back with a newcomer.
	file []Item
}

// facts returns what a value shows.
func facts(key string, v crdt.Value) map[string]bool {
	out := map[string]bool{}
	switch v := v.(type) {
	case *crdt.ORSet[string]:
		for e := range v.All() {
			out[key+" "+e] = true
		}
	case *crdt.LWWMap[string, string]:
		for k, e := range v.All() {
			out[key+" "+k+"="+e] = true
		}
	}
	return out
}

// total returns what counters show in sum.
func total(v crdt.Value) (n uint64, ok bool) {
	switch v := v.(type) {
	case *crdt.GCounter:
		return v.Count(), true
	case *crdt.PNCounterMap[string]:
		for _, c := range v.All() {
			n += uint64(c)
		}
		return n, true
	}
	return 0, false
}

// countIn counts n under a key of a map of counters; 0 removes that.
func countIn(id gossip.NodeID, key, k string, n int64) operation.Op {
	return Mutate(key, crdt.KindPNCounterMap, 64, func(v crdt.Value) crdt.Value {
		if m := v.(*crdt.PNCounterMap[string]); n > 0 {
			return m.Add(crdt.NodeID(id), k, n)
		} else if d := m.Remove(k); d != nil {
			return d
		}
		return nil
	})
}

var reaperKeys = []string{"s0", "s1", "m0", "m1", "d0", "d1", "dm", "c0", "c1", "p0", "p1", "keep"}

// watch compares what a replica shows with what it has shown before.
func (r *reaper) watch(n *simNode) {
	if r.unwatched[n.id] && n.core.members.caughtUp == 0 {
		return
	}
	if r.seen[n.id] == nil {
		r.seen[n.id], r.gone[n.id], r.counts[n.id] = map[string]map[string]bool{}, map[string]bool{}, map[string]uint64{}
	}
	if n.core.stats.FloorGaps > 0 {
		r.broken = fmt.Sprintf("node %v missed a commit", n.id)
	}
	for _, key := range reaperKeys {
		v := n.core.Value(key)
		if got, ok := total(v); ok {
			if got < r.counts[n.id][key] && key != "p1" || got > r.issued[key] {
				r.broken = fmt.Sprintf("node %v: %s is %d after %d, of %d", n.id, key, got, r.counts[n.id][key], r.issued[key])
			}
			r.counts[n.id][key] = got
			continue
		}
		now := facts(key, v)
		for f := range now {
			if r.gone[n.id][f] {
				r.broken = fmt.Sprintf("node %v: %s was gone and is back", n.id, f)
			}
		}
		for f := range r.seen[n.id][key] {
			if !now[f] {
				r.gone[n.id][f] = true
				if key[0] != 'd' && key != "keep" && !r.ended[f] {
					r.broken = fmt.Sprintf("node %v: %s went without having been ended", n.id, f)
				}
			}
		}
		r.seen[n.id][key] = now
	}
}

func (r *reaper) pick(keys ...string) string { return keys[r.rng.IntN(len(keys))] }

// act does one random change.
func (r *reaper) act() {
	id := r.order[r.rng.IntN(len(r.order))]
	r.n++
	e := fmt.Sprintf("%d", r.n)
	level := []replicator.Level{replicator.Local, majority}[r.rng.IntN(2)]
	set, m := r.pick("s0", "s1", "d0", "d1", "keep"), r.pick("m0", "m1", "dm")
	switch k := r.rng.IntN(15); {
	case k < 4:
		r.update(id, level, replicator.Fence{}, addTo(id, set, e))
	case k < 6:
		have := elements(r.nodes[id].core.Value(set))
		if len(have) > 0 {
			gone := have[r.rng.IntN(len(have))]
			r.ended[set+" "+gone] = true
			r.update(id, level, replicator.Fence{}, removeFrom(set, gone))
		}
	case k < 8:
		r.endEntry(id, m)
		r.update(id, level, replicator.Fence{}, setIn(id, m, r.field(), e, uint64(r.n), 1))
	case k < 9:
		r.endEntry(id, m)
		r.update(id, level, replicator.Fence{}, deleteIn(id, m, r.field(), uint64(r.n)))
	case k < 10:
		r.update(id, level, replicator.Fence{}, operation.Op{Key: r.pick("d0", "d1", "dm", "keep"), Delete: true})
	case k < 11:
		r.update(id, level, replicator.Fence{}, countIn(id, "p1", r.field(), 0))
	default:
		key, n := r.pick("c0", "c1", "p0", "p1"), uint64(r.rng.IntN(9)+1)
		r.issued[key] += n
		op := count(id, key, n)
		if key[0] == 'p' {
			op = countIn(id, key, r.field(), int64(n))
		}
		r.onAnswer(id, r.update(id, majority, replicator.Fence{}, op), func(rep Reply) {
			if rep.Err == nil {
				r.sure[key] += n
			}
		})
	}
}

// change also takes a file from a node, or gives it to a newcomer.
func (r *reaper) change() {
	old := slices.Clone(r.order)
	if in, ok := r.nodes[old[r.rng.IntN(len(old))]].core.State("keep"); ok && r.rng.IntN(6) == 0 {
		r.file = []Item{in}
	}
	r.campaign.change()
	for _, id := range r.order {
		if !slices.Contains(old, id) {
			if err := r.nodes[id].core.Restore(r.file); err != nil {
				r.t.Fatal(err)
			}
			// A value from the file is shown before a newer one arrives.
			r.unwatched[id] = true
		}
	}
}

func (r *reaper) field() string { return fmt.Sprint("f", r.n%3) }

// endEntry notes that whatever anybody has in a map under the current field may go.
func (r *reaper) endEntry(_ gossip.NodeID, m string) {
	for _, n := range r.nodes { // order-free
		if v, ok := n.core.Value(m).(*crdt.LWWMap[string, string]); ok {
			if e, ok := v.Get(r.field()); ok {
				r.ended[m+" "+r.field()+"="+e] = true
			}
		}
	}
}

func deleteIn(id gossip.NodeID, key, k string, term uint64) operation.Op {
	return Mutate(key, crdt.KindLWWMap, 0, func(x crdt.Value) crdt.Value {
		if d := x.(*crdt.LWWMap[string, string]).Delete(k, crdt.Stamp{Time: term, Node: crdt.NodeID(id), Seq: 1}); d != nil {
			return d
		}
		return nil
	})
}

// litter returns what a replica still remembers beyond its content.
func litter(c *Core) string {
	var out []string
	for i := range c.store.buckets {
		for _, it := range c.store.buckets[i].sortedItems() {
			if d, ok := c.pruner.candidateFrom(it); ok {
				out = append(out, fmt.Sprintf("%+v", d))
			}
		}
	}
	return strings.Join(out, " ")
}

func runReaper(t testing.TB, seed uint64) *reaper {
	tweak := func(c *Config) {
		small(seed)(c)
		c.PruneEvery = 20 * time.Millisecond
		c.Keep = func(key string) bool { return key == "keep" }
	}
	r := &reaper{campaign: &campaign{world: newWorld(t, seed, 4, tweak), o: oracle{}, nextID: 10},
		seen: map[gossip.NodeID]map[string]map[string]bool{}, gone: map[gossip.NodeID]map[string]bool{}, ended: map[string]bool{}, unwatched: map[gossip.NodeID]bool{},
		counts: map[gossip.NodeID]map[string]uint64{}, issued: map[string]uint64{}, sure: map[string]uint64{}}
	r.afterStep = func(n *simNode) {
		r.watch(n)
	}
	swarm := func(p float64) float64 { return p * float64(r.rng.IntN(2)) }
	r.drop, r.dup = swarm(0.15), swarm(0.3)
	// Frames that are late by several rounds are what the barrier is for.
	r.delayMax = []time.Duration{time.Millisecond, 10 * time.Millisecond, 150 * time.Millisecond}[r.rng.IntN(3)]
	faults, changes := r.rng.IntN(2) == 0, r.rng.IntN(4) != 0
	for range 300 {
		switch k := r.rng.IntN(30); {
		case k < 20:
			r.act()
		case k < 22 && changes:
			r.change()
		case k < 24 && faults:
			r.fault()
		case k == 29:
			r.run(200 * time.Millisecond)
		}
		r.run(time.Duration(r.rng.IntN(12)) * time.Millisecond)
		if r.broken != "" {
			return r
		}
	}
	r.end()
	return r
}

// end checks what must be true when nothing happens any more.
func (r *reaper) end() {
	r.cut, r.drop, r.delayMax = nil, 0, time.Millisecond
	r.run(4 * time.Second)
	for range 100 {
		if r.run(100 * time.Millisecond); r.converged() && r.clean() {
			break
		}
	}
	for _, id := range r.order {
		c := r.nodes[id].core
		tombs := c.store.tombs
		if it := c.store.itemOf("keep"); it != nil && it.value == nil {
			tombs--
		}
		if l := litter(c); l != "" || tombs > 0 {
			r.broken = fmt.Sprintf("node %v never forgets %s\n%s", id, l, r.states())
			return
		}
		for key, n := range r.sure {
			if got, _ := total(c.Value(key)); got < n && key != "p1" {
				r.broken = fmt.Sprintf("node %v: %s lost counts", id, key)
			}
		}
	}
	if r.broken != "" || !r.converged() {
		r.broken += "; replicas differ: " + r.states()
		return
	}
	// Keys that were deleted are created at all replicas at once, and nothing is lost.
	var want []string
	for _, id := range r.order {
		want = append(want, fmt.Sprint("again", id))
		r.update(id, replicator.Local, replicator.Fence{}, addTo(id, "d0", fmt.Sprint("again", id)))
	}
	r.run(2 * time.Second)
	for _, id := range r.order {
		for _, e := range want {
			if !slices.Contains(elements(r.nodes[id].core.Value("d0")), e) {
				r.broken = fmt.Sprintf("node %v: %s, created at the same time as others, is lost", id, e)
			}
		}
	}
}

func (r *reaper) clean() bool {
	for _, id := range r.order {
		if litter(r.nodes[id].core) != "" {
			return false
		}
	}
	return true
}

// A42, A44: removals, deletions, joiners, partitions, late and doubled frames while
// replicas forget; nothing comes back, nothing goes that was not ended, no counter
// shrinks or counts twice, and in the end nothing is remembered.
func TestForgettingCampaign(t *testing.T) {
	t.Parallel()
	seeds := uint64(testsize.Runs(8, 10, 25))
	var rounds, pruned, unlevel uint64
	views := 0
	for seed := range seeds {
		r := runReaper(t, seed)
		if r.broken != "" {
			t.Fatalf("seed %d: %s", seed, r.broken)
		}
		s := r.nodes[r.order[0]].core.Stats()
		rounds, pruned, unlevel, views = rounds+s.Rounds, pruned+s.Pruned, unlevel+s.Unlevel, views+int(uint32(r.view.Epoch))
	}
	t.Logf("%d seeds: %d rounds, %d things forgotten, %d messages refused, %d views", seeds, rounds, pruned, unlevel, views)
	if rounds == 0 || pruned == 0 || unlevel == 0 {
		t.Error("the campaign did not see what it is for")
	}
}
