package sharding

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/placement"
)

// leavings is a cluster whose nodes hold states, and begin to leave when told.
type leavings struct {
	*cluster
	regions []*Region[int, heardCount]
	ids     []string
	// announced members are Leaving in the view.
	announced map[gossip.NodeID]bool
	changing  sync.Mutex
	members   []*node
}

func newLeavings(t *testing.T, nodes int) *leavings {
	l := &leavings{cluster: newCluster(t), announced: map[gossip.NodeID]bool{}}
	// Registered first, so the last to run: what is under way when all close arrives.
	t.Cleanup(func() { pass(time.Second) })
	l.regions = tallies(t, l.cluster, nodes)
	l.install(l.nodes...)
	l.members = slices.Clone(l.nodes)
	pass(time.Second)
	for i := range 40 {
		l.ids = append(l.ids, fmt.Sprint("e", i))
		l.add(t, 0, l.ids[i])
	}
	l.delay = 3 * time.Millisecond
	return l
}

// add has an entity count one more, and returns its count.
func (l *leavings) add(t *testing.T, from int, id string) int {
	t.Helper()
	got, err := l.regions[from].Ask(within(t, 20*time.Second), id, 1)
	if err != nil {
		t.Errorf("%s: %v", id, err)
	}
	return got.Count
}

// change installs a view in which edit has changed something.
func (l *leavings) change(edit func()) {
	l.changing.Lock()
	defer l.changing.Unlock()
	edit()
	l.epoch++
	v := &gossip.View{Cluster: 1, Epoch: l.epoch}
	for _, n := range l.members {
		m := gossip.Member{Node: n.self, Joined: gossip.FirstEpoch(1), Status: gossip.Up}
		if l.announced[n.self.ID] {
			m.Status = gossip.Leaving
		}
		v.Members = append(v.Members, m)
	}
	for _, n := range l.members {
		n.s.ViewChanged(v)
	}
}

func (l *leavings) remove(n *node) {
	l.change(func() { l.members = slices.DeleteFunc(l.members, func(o *node) bool { return o == n }) })
}

// leave is what a node does that is told to end: it announces it or not, drains,
// leaves the view, and its process ends.
func (l *leavings) leave(t *testing.T, n *node, announce bool) {
	if announce {
		l.change(func() { l.announced[n.self.ID] = true })
	}
	if err := n.s.Drain(within(t, 30*time.Second)); err != nil {
		t.Errorf("%s: %v", n.self.Name, err)
	}
	l.remove(n)
	l.kill(n)
}

// lost returns how many states were counted as lost.
func (l *leavings) lost() (n uint64) {
	for _, r := range l.regions {
		n += r.Stats().StatesLost
	}
	return n
}

// saw returns how often explain has a kind of event.
func (l *leavings) saw(kind string) (n int) {
	for _, nd := range l.nodes {
		for shard := range ShardID(8) {
			for _, e := range nd.explain("tally", shard) {
				if e.Kind == kind {
					n++
				}
			}
		}
	}
	return n
}

// Nodes that leave at the same time, or one a moment after the other, lose no
// state: not when a state is on its way to a node that begins to leave, nor when the
// coordinator's node is among them, nor when one alone stays.
func TestStatesSurviveDrainsAtTheSameTime(t *testing.T) {
	for _, c := range []struct{ nodes, leave, seeds int }{{4, 2, 30}, {5, 3, 30}, {5, 4, 30}, {3, 2, 30}} {
		t.Run(fmt.Sprintf("%d of %d", c.leave, c.nodes), func(t *testing.T) {
			for seed := range uint64(c.seeds) {
				bubble(t, func(t *testing.T) { drainSeveral(t, c.nodes, c.leave, seed) })
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func drainSeveral(t *testing.T, nodes, leave int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 9))
	l := newLeavings(t, nodes)
	stays := nodes - 1
	going := random.Perm(nodes)[:leave]
	for slices.Contains(going, stays) {
		stays--
	}
	spread := []time.Duration{0, 10, 50}[random.IntN(3)] * time.Millisecond
	announce := random.IntN(2) == 0
	var all sync.WaitGroup
	for _, i := range going {
		after := time.Duration(random.Int64N(int64(spread) + 1))
		all.Go(func() {
			pass(after)
			l.leave(t, l.nodes[i], announce)
		})
	}
	all.Wait()
	for _, id := range l.ids {
		if n := l.add(t, stays, id); n != 2 {
			t.Errorf("%s counts %d", id, n)
		}
	}
	if n := l.lost(); n != 0 {
		t.Errorf("%d states are counted as lost", n)
	}
}

// The node to which a draining one sends its states begins to drain too, or dies
// before it has them: the states go elsewhere. What was its own dies with it.
func TestStatesSurviveTheDeathOfTheirNewHome(t *testing.T) {
	turned := 0
	for after := time.Duration(0); after < 40*time.Millisecond; after += time.Millisecond {
		for _, drains := range []bool{false, true} {
			bubble(t, func(t *testing.T) { turned += drainAndKillBearer(t, after, drains) })
			if t.Failed() {
				t.Fatalf("killed after %v, draining %v", after, drains)
			}
		}
	}
	if turned == 0 {
		t.Error("no move was turned to another home: the moments are badly chosen")
	}
}

func drainAndKillBearer(t *testing.T, after time.Duration, drains bool) (turned int) {
	l := newLeavings(t, 4)
	at := map[string]gossip.NodeID{}
	for _, id := range l.ids {
		got, err := l.regions[0].Ask(within(t, 10*time.Second), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		at[id] = gossip.NodeID(got.Node)
	}
	var all sync.WaitGroup
	all.Go(func() { l.leave(t, l.nodes[1], false) })
	if drains {
		all.Go(func() {
			pass(after / 2)
			// It dies before that ends.
			_ = l.nodes[2].s.Drain(within(t, after/2))
		})
	}
	pass(after)
	l.remove(l.nodes[2])
	l.kill(l.nodes[2])
	all.Wait()
	for _, id := range l.ids {
		n := l.add(t, 3, id)
		if at[id] != 3 && !l.chose(l.nodes[2], id) && n != 2 {
			t.Errorf("%s was at node %v and counts %d, node 3 killed after %v, draining %v", id, at[id], n, after, drains)
		}
	}
	if n := l.lost(); n != 0 {
		t.Errorf("%d states are counted as lost", n)
	}
	return l.saw(coordinator.TraceRetarget)
}

// chose reports whether the shard of an entity was ever allocated to n by way of a
// move: then it may have lived there.
func (l *leavings) chose(n *node, id string) bool {
	shard, _ := n.reg.ShardOf("tally", id)
	return slices.ContainsFunc(l.nodes[0].explain("tally", shard), func(e placement.Event) bool {
		return e.Kind == coordinator.TraceChosen && e.Node == n.self.ID
	})
}

// States that reach nobody are lost, and each is counted once: also when the node
// that had them leaves before it sees the shard live elsewhere.
func TestLostStatesAreCountedOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			l := newLeavings(t, 3)
			l.loss = func() bool { return true }
			if late {
				l.delay = 100 * time.Millisecond
			}
			had := 0
			for _, id := range l.ids {
				if got, err := l.regions[0].Ask(within(t, 10*time.Second), id, 0); err != nil {
					t.Fatal(err)
				} else if got.Node == 2 {
					had++
				}
			}
			if err := l.nodes[1].s.Drain(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			l.loss = nil
			l.remove(l.nodes[1])
			gone := 0
			for _, id := range l.ids {
				if l.add(t, 2, id) == 1 {
					gone++
				}
			}
			if n := l.lost(); had == 0 || gone != had || n != uint64(had) {
				t.Errorf("%d entities lived on the node that left, %d live without their state, %d are counted", had, gone, n)
			}
		})
	}
}
