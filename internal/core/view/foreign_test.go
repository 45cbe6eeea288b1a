package view

import (
	"fmt"
	"github.com/peerage-go/peerage/gossip"
	"slices"
	"testing"
	"time"
)

// clusters holds several clusters of one name in one world, and acts as the shells: it
// introduces the nodes to each other, and restarts the nodes of a cluster that yields.
type clusters struct {
	w *world
	// blind reports pairs of nodes that do not find each other.
	blind func(a, b gossip.NodeID) bool
	// firstID is the lowest id of new incarnations.
	nextID gossip.NodeID
	// epochs holds the highest epoch of each cluster that has yielded.
	ended map[uint64]gossip.Epoch
	// heirs holds to which lineage a lineage has yielded. If all nodes that learned of it have
	// died, the remaining nodes are a new lineage, and may yield to another cluster.
	heirs map[lineageID]lineageID
	// anew, if set, starts the next incarnation of a node whose view is beyond help.
	anew func(n *simNode)
	// lost holds since when nodes have had neither a lease nor a quorum.
	lost map[gossip.NodeID]time.Duration
	// reform makes a node form a cluster when no living one is in any.
	reform bool
	// stay keeps the nodes of clusters that yield as they are.
	stay bool
}

// lineageID is a cluster since its last emergency takeover.
type lineageID struct {
	cluster  uint64
	takeover gossip.Epoch
}

func lineageOf(v *gossip.View) lineageID {
	l := lineageID{cluster: v.Cluster}
	if n := len(v.Forks); n > 0 {
		l.takeover = v.Forks[n-1].To
	}
	return l
}

// meetings returns a world without nodes in which clusters of one name may meet.
func meetings(w *world) *clusters {
	s := &clusters{w: w, nextID: 1000, ended: map[uint64]gossip.Epoch{}, heirs: map[lineageID]lineageID{}, lost: map[gossip.NodeID]time.Duration{}}
	s.tend()
	return s
}

// form starts a cluster of n nodes with ids from first on.
func (s *clusters) form(first gossip.NodeID, n int, generation uint32) []gossip.NodeID {
	w := s.w
	ids := []gossip.NodeID{first}
	w.add(first)
	w.step(first, Form{Generation: generation})
	contact := w.nodes[first].core.cfg.Self
	for i := 1; i < n; i++ {
		id := first + gossip.NodeID(i)
		ids = append(ids, id)
		w.add(id)
		w.step(id, Contacts{Nodes: []gossip.Node{contact}})
	}
	w.until(10*time.Second, "a cluster has formed", func() bool {
		for _, id := range ids {
			v := w.nodes[id].core.View()
			if v == nil || len(v.Members) != n || v.Member(id).Status != gossip.Up || !w.holds(w.nodes[id]) {
				return false
			}
		}
		return true
	})
	return ids
}

// tend acts as the shells, ten times a second.
func (s *clusters) tend() {
	w := s.w
	if living := w.living(); s.reform && len(living) > 0 && len(w.contacts()) == 0 {
		first := living[0].core.cfg
		w.step(first.Self.ID, Form{Generation: max(first.Least, 100)})
	}
	for _, n := range w.living() {
		v := n.core.View()
		if v == nil {
			if s.blind == nil { // contact points are asked forever
				w.step(n.id, Contacts{Nodes: w.contacts()})
			}
			continue
		}
		s.judge(n, v)
		if s.anew != nil && s.beyondHelp(n, v) {
			w.crash(n.id)
			s.anew(n)
			continue
		}
		if f := v.Yields(); f != nil && !s.stay {
			s.restart(n, v, f)
			continue
		}
		for _, m := range w.living() {
			o := m.core.View()
			if o == nil || o.Cluster == v.Cluster || o.Yields() != nil || s.blind != nil && s.blind(n.id, m.id) || !w.holds(m) {
				continue
			}
			w.step(n.id, ForeignSeen{Cluster: o.Cluster, Nodes: []gossip.Node{m.core.cfg.Self}})
		}
	}
	w.at(100*time.Millisecond, s.tend)
}

// beyondHelp reports whether a node has had no lease for long, and the living members are no
// quorum of its view, or of a proposed view that may have been decided. Package membership ends
// such an incarnation after ReformAfter.
func (s *clusters) beyondHelp(n *simNode, v *gossip.View) bool {
	lives := func(id gossip.NodeID) bool { x := s.w.nodes[id]; return !x.down && x.removed == nil }
	if s.w.holds(n) || n.paused || s.w.quorum(v, lives) && !n.core.BeyondHelp() {
		delete(s.lost, n.id)
		return false
	}
	if s.lost[n.id] == 0 {
		s.lost[n.id] = s.w.now
	}
	return s.w.now-s.lost[n.id] > 6*time.Second
}

// judge checks that no cluster yields to one that has yielded to it, directly or not, and
// that a cluster that admits nodes has a generation above theirs.
func (s *clusters) judge(n *simNode, v *gossip.View) {
	if f := v.Yields(); f != nil {
		of, heir := lineageOf(v), s.lineageMet(f)
		if to, ok := s.heirs[of]; ok && to.cluster != f.Cluster {
			s.w.fail("cluster %x yields to %x and to %x", v.Cluster, to.cluster, f.Cluster)
		} else if !ok {
			s.heirs[of] = heir
		}
		s.ended[v.Cluster] = max(s.ended[v.Cluster], v.Epoch)
		for at, hops := s.heirs[of], 0; at.cluster != 0; at, hops = s.heirs[at], hops+1 {
			if at == of || hops > 16 {
				s.w.fail("cluster %x yields to itself by way of other clusters", v.Cluster)
			}
		}
		for _, g := range v.Foreign {
			if g.Verdict == gossip.VerdictStands && g.Cluster == f.Cluster {
				s.w.fail("cluster %x yields to one that it stands over", v.Cluster)
			}
		}
	}
}

// lineageMet returns the lineage of another cluster that the listed nodes belong to.
func (s *clusters) lineageMet(f *gossip.Contest) lineageID {
	for _, listed := range f.Nodes {
		if n := s.w.nodes[listed.ID]; n != nil {
			if v := n.core.View(); v != nil && v.Cluster == f.Cluster {
				return lineageOf(v)
			}
		}
	}
	return lineageID{cluster: f.Cluster}
}

// restart ends an incarnation and starts the next one, as package gossip does.
func (s *clusters) restart(n *simNode, v *gossip.View, f *gossip.Contest) {
	w := s.w
	w.kill(30*time.Millisecond, n.id)
	id := s.nextID
	s.nextID++
	was := w.cfg
	w.cfg.Least = v.Epoch.Generation() + 1
	w.add(id)
	w.cfg = was
	w.step(id, Contacts{Nodes: f.Nodes})
}

// one reports whether all living nodes are up in one view, and none is in a contest.
func (s *clusters) one(n int) bool {
	w := s.w
	if len(w.living()) != n || !w.allUp(n) || !w.allHold() {
		return false
	}
	first := w.living()[0].core.View()
	for _, x := range w.living() {
		v := x.core.View()
		if v.Cluster != first.Cluster || len(v.Foreign) > 0 {
			return false
		}
	}
	return true
}

// above fails unless the view's generation lies above those of the ended clusters. The
// generation of a cluster is lost if all nodes that have seen it have died.
func (s *clusters) above(v *gossip.View) {
	for id, e := range s.ended {
		seen := func(n *simNode) bool { return n.core.cfg.Least > e.Generation() }
		if !slices.ContainsFunc(s.w.living(), seen) {
			continue
		}
		if v.Epoch.Generation() <= e.Generation() {
			s.w.fail("cluster %x continues in %v, cluster %x has reached %v", v.Cluster, v.Epoch, id, e)
		}
	}
}

// blindUntil keeps clusters apart until they have formed.
func (s *clusters) apart() { s.blind = func(a, b gossip.NodeID) bool { return true } }

func (s *clusters) together() { s.blind = nil }

// twoMeet: a fresh single node with a later generation meets three: it yields, the three
// go on in a generation above its own.
func twoMeet(w *world) {
	s := meetings(w)
	s.apart()
	big := s.form(1, 3, 100)
	s.form(101, 1, 5000)
	w.run(time.Second)
	cluster := w.nodes[big[0]].core.View().Cluster
	s.together()
	w.must(10*time.Second, "one cluster", func() bool { return s.one(4) })
	v := w.nodes[big[0]].core.View()
	if v.Cluster != cluster {
		w.fail("three nodes have yielded to one")
	}
	s.above(v)
	for _, id := range big {
		if w.nodes[id].removed != nil || w.nodes[id].abandon > 0 {
			w.fail("%d has abandoned its instances", id)
		}
	}
}

// F1: both grow while they meet; the larger one may be either. One yields.
func bothGrow(w *world) {
	for grown := range 4 {
		s := meetings(w)
		base := gossip.NodeID(10_000 * (grown + 1))
		s.nextID = base + 1000
		a := s.form(base+1, 3, 100)
		s.apart()
		b := s.form(base+101, 3, 200)
		for i := range 2 {
			w.add(base + 50 + gossip.NodeID(i))
			w.step(base+50+gossip.NodeID(i), Contacts{Nodes: []gossip.Node{w.nodes[a[0]].core.cfg.Self}})
			if grown&1 != 0 {
				w.add(base + 150 + gossip.NodeID(i))
				w.step(base+150+gossip.NodeID(i), Contacts{Nodes: []gossip.Node{w.nodes[b[0]].core.cfg.Self}})
			}
			s.together()
			w.run(time.Duration(grown) * 700 * time.Microsecond)
		}
		n := 8 + 2*(grown&1)
		w.must(90*time.Second, "one cluster", func() bool { return s.one(n) })
		s.above(w.living()[0].core.View())
		s.apart()
		for _, x := range w.living() {
			w.nodes[x.id].down = true
			w.truth.dead[x.id] = true
		}
		s.blind, s.stay = func(a, b gossip.NodeID) bool { return true }, true
	}
}

// F2: three clusters meet, and their leaders are lost between the verdict and the yield.
func threeMeet(w *world) {
	s := meetings(w)
	s.apart()
	ids := [][]gossip.NodeID{s.form(1, 3, 100), s.form(101, 4, 90), s.form(201, 5, 80)}
	w.run(time.Second)
	killed := 0
	w.traced = func(n *simNode, e *TraceEvent) {
		v := n.core.view
		if e.Kind != "commits" || v == nil || killed >= 2 || len(v.Foreign) == 0 && v.Epoch != e.Epoch {
			return
		}
		for _, f := range v.Foreign {
			if f.Verdict == gossip.VerdictStands && n.id > 200 || f.Verdict == gossip.VerdictContested && n.id > 100 && n.id < 200 {
				killed++
				w.at(0, func() { w.kill(30*time.Millisecond, n.id) })
				return
			}
		}
	}
	s.together()
	w.run(5 * time.Second)
	living := len(w.living())
	w.must(5*time.Minute, "one cluster", func() bool { return s.one(len(w.living())) })
	if killed == 0 || living < 8 {
		w.fail("%d leaders were lost, %d nodes live", killed, living)
	}
	s.above(w.living()[0].core.View())
	_ = ids
}

// F3: a node repeatedly forms a cluster of its own, each time under another id, beside
// three: the three never yield, and are in a contest for a small part of the time.
func crashLoop(w *world) {
	s := meetings(w)
	s.stay = true
	s.apart()
	big := s.form(1, 3, 100)
	w.run(time.Second)
	s.together()
	contested, total := 0, 0
	for i := range 240 {
		id := gossip.NodeID(5000 + i)
		w.addNode(id, 99, 0, 0)
		w.step(id, Form{Generation: 2000 + uint32(i)})
		for range 5 {
			w.run(100 * time.Millisecond)
			v := w.nodes[big[0]].core.View()
			if total++; len(v.Foreign) > 0 {
				contested++
			}
			if v.Yields() != nil {
				w.fail("three nodes yield to one that was just started")
			}
		}
		w.crash(id)
	}
	if contested*5 > total {
		w.fail("in a contest for %d of %d looks", contested, total)
	}
}

// strangersWord: one connection claims to be the leader of a large cluster.
func strangersWord(w *world) {
	s := meetings(w)
	big := s.form(1, 3, 100)
	w.run(time.Second)
	const liar = gossip.NodeID(666)
	cluster := uint64(0xbad)
	said := gossip.Standing{Size: 9, Peak: 900, Birth: 1}
	var echo uint64
	nodes := []gossip.Node{{ID: liar, Addr: "10.6.6.6:1"}, {ID: 667, Addr: "10.6.6.7:1"}, {ID: 668, Addr: "10.6.6.8:1"}}
	contested := 0
	w.sent = func(from, to gossip.NodeID, m Message) {
		e, is := m.(*Encounter)
		if !is || to != liar && to != 667 && to != 668 {
			return
		}
		echo = e.Nonce
		w.at(0, func() {
			w.inject(liar, from, &Encounter{From: nodes[0], Cluster: cluster, To: e.Cluster, Standing: said, Verdict: gossip.VerdictStands,
				Judged: e.Standing, Generation: 1 << 30, Nodes: nodes, Nonce: 1, Echo: echo})
		})
	}
	looks := 0
	for range 300 {
		v := w.nodes[big[0]].core.View()
		w.inject(liar, big[0], &Encounter{From: nodes[0], Cluster: cluster, To: v.Cluster, Standing: said, Verdict: gossip.VerdictStands,
			Judged: v.Standing, Nodes: nodes, Nonce: 1, Echo: echo})
		w.run(100 * time.Millisecond)
		if looks++; len(v.Foreign) > 0 {
			contested++
		}
		if v = w.nodes[big[0]].core.View(); v.Yields() != nil {
			w.fail("three nodes yield to a single connection")
		}
		if len(v.Foreign) == 0 {
			cluster++ // it draws another one
		}
	}
	if contested == 0 || contested > 35 {
		w.fail("in a contest for %d of %d looks", contested, looks)
	}
	if g := w.nodes[big[0]].core.View().Epoch.Generation(); g != 100 {
		w.fail("a non-member has raised the generation to %d", g)
	}
}

// lateVerdict: a verdict on a standing other than the present one has no effect.
func lateVerdict(w *world) {
	s := meetings(w)
	s.apart()
	a, b := s.form(1, 2, 100), s.form(101, 3, 200)
	w.run(time.Second)
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		e, is := m.(*Encounter)
		if is && e.From.ID >= 100 && e.Verdict == gossip.VerdictStands && e.Judged.Peak == 2 {
			late := *e
			late.Judged.Peak = 1
			w.inject(from, to, &late)
			return true
		}
		return false
	}
	s.together()
	for range 40 {
		w.run(100 * time.Millisecond)
		if w.nodes[a[0]].core.View().Yields() != nil {
			w.fail("yields to a verdict on another standing")
		}
	}
	w.lose = nil
	w.must(5*time.Minute, "one cluster", func() bool { return s.one(5) })
	_ = b
}

// F5: the cluster that stands dies before the nodes of the other join it: they can then
// form another cluster.
func heirDies(w *world) {
	s := meetings(w)
	s.apart()
	big := s.form(1, 3, 100)
	s.form(101, 2, 5000)
	w.run(time.Second)
	s.together()
	w.until(10*time.Second, "two have yielded", func() bool { return len(s.ended) > 0 })
	w.kill(30*time.Millisecond, big...)
	w.run(time.Second)
	var fresh []gossip.NodeID
	for _, n := range w.living() {
		if n.core.View() == nil {
			fresh = append(fresh, n.id)
		}
	}
	if len(fresh) == 0 {
		w.fail("no node looks for a cluster")
	}
	w.step(fresh[0], Form{Generation: w.nodes[fresh[0]].core.cfg.Least})
	for _, id := range fresh[1:] {
		w.step(id, Contacts{Nodes: []gossip.Node{w.nodes[fresh[0]].core.cfg.Self}})
	}
	w.must(30*time.Second, "one cluster of the rest", func() bool { return s.one(len(w.living())) })
	s.above(w.living()[0].core.View())
}

// yieldUnseen: the senior one of two yields alone, cut off from the other, and joins the
// cluster that stands. The other never learns of the yield: it takes over when the end of the
// first is proven, is in no contest, meets the standing cluster itself, and yields in turn.
func yieldUnseen(w *world) {
	s := meetings(w)
	s.apart()
	big, two := s.form(1, 3, 100), s.form(101, 2, 5000)
	senior, other := two[0], two[1]
	w.run(time.Second)
	w.cutOff(other)
	s.blind = func(a, b gossip.NodeID) bool { return a == other || b == other }
	w.must(10*time.Second, "the senior one has joined the three", func() bool {
		return w.nodes[senior].down && len(w.nodes[big[0]].core.View().Members) == 4 && len(w.nodes[big[0]].core.View().Foreign) == 0
	})
	left := w.nodes[other]
	w.must(10*time.Second, "the other has taken over", func() bool {
		v := left.core.View()
		return len(v.Members) == 1 && len(v.Forks) == 1 && len(v.Foreign) == 0 && w.holds(left)
	})
	if taken, stands := left.core.View().Epoch, w.nodes[big[0]].core.View().Epoch; taken >= stands {
		w.fail("the other has taken over in %v, and the cluster that stands is in %v: tokens of the first lie above", taken, stands)
	}
	w.cut = nil
	s.together()
	w.must(30*time.Second, "one cluster", func() bool { return s.one(5) })
	if v := w.living()[0].core.View(); v.Cluster != w.nodes[big[0]].core.View().Cluster {
		w.fail("three nodes have yielded to two")
	}
	s.above(w.living()[0].core.View())
}

// takeoverAfterContest: the senior one of two ends a contest alone, in a generation above that
// of the cluster that yields, and dies. The other, which holds the view that stands over that
// cluster, takes over above the generation that the dead one has opened.
func takeoverAfterContest(w *world) {
	s, senior, other := twoBesideOne(w)
	s.together()
	w.must(10*time.Second, "both stand over the third", func() bool {
		v := other.core.View()
		return len(v.Foreign) > 0 && v.Foreign[0].Verdict == gossip.VerdictStands
	})
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return from == senior.id && to == other.id && senior.core.View().Epoch > other.core.View().Epoch
	}
	w.must(10*time.Second, "the contest ends", func() bool { return senior.core.View().Epoch.Generation() > 5000 })
	opened := senior.core.View().Epoch
	if other.core.View().Epoch.Generation() != 100 {
		w.fail("the other one has learned of %v", opened)
	}
	w.diesAbove(senior, other, opened)
}

// TestWarnLeavesBoth: with ForeignWarn two clusters stay two.
func TestWarnLeavesBoth(t *testing.T) {
	w := newWorld(t)
	w.cfg.Foreign = gossip.ForeignWarn
	s := meetings(w)
	a, b := s.form(1, 2, 100), s.form(101, 1, 200)
	w.run(30 * time.Second)
	if w.nodes[a[0]].core.View().Foreign != nil || w.nodes[b[0]].core.View().Foreign != nil || w.marks["contest ended"] > 0 {
		w.fail("a contest has begun")
	}
}

// TestAuthenticatedPeakCounts: where nodes authenticate each other, the last of four
// stands over three that have just formed.
func TestAuthenticatedPeakCounts(t *testing.T) {
	w := newWorld(t)
	w.cfg.Authenticated = true
	s := meetings(w)
	s.apart()
	old := s.form(1, 4, 100)
	w.kill(30*time.Millisecond, old[1:]...)
	w.until(10*time.Second, "one is left", func() bool { return len(w.nodes[1].core.View().Members) == 1 && w.holds(w.nodes[1]) })
	s.form(101, 3, 200)
	w.run(time.Second)
	s.together()
	cluster := w.nodes[1].core.View().Cluster
	w.must(10*time.Second, "one cluster", func() bool { return s.one(4) })
	if got := w.nodes[1].core.View(); got.Cluster != cluster {
		w.fail("the last of four has yielded to three")
	}
}

// TestStandingsAreOrdered: of any two, one stands over the other.
func TestStandingsAreOrdered(t *testing.T) {
	var all []gossip.Standing
	for i := range 27 {
		all = append(all, gossip.Standing{Size: i % 3, Peak: i / 3 % 3, Birth: gossip.Epoch(i / 9)})
	}
	for i, a := range all {
		for j, b := range all {
			if a.Above(1, b, 2) == b.Above(2, a, 1) {
				t.Fatal(a, b)
			}
			for k, c := range all {
				if a.Above(uint64(i), b, uint64(j)) && b.Above(uint64(j), c, uint64(k)) && !a.Above(uint64(i), c, uint64(k)) {
					t.Fatal(a, b, c)
				}
			}
		}
	}
	if s := fmt.Sprint(gossip.Standing{Size: 2, Peak: 3, Birth: gossip.FirstEpoch(4)}, gossip.VerdictYields, gossip.ForeignWarn, gossip.ForeignMerge); s !=
		"2 voters, at most 3 at a time, formed in 4.1 yields warn merge" {
		t.Fatal(s)
	}
}

// foreignScenarios are those in which clusters of one name meet.
func foreignScenarios() []scenario {
	return []scenario{
		{"a single node meets three", twoMeet},
		{"F1 two clusters grow while they meet", bothGrow},
		{"F2 three clusters meet and lose leaders", threeMeet},
		{"F3 a crash loop beside three", crashLoop},
		{"F4 a stranger's word", strangersWord},
		{"a verdict on another standing", lateVerdict},
		{"F5 the heir dies", heirDies},
		{"a yield that one member never saw", yieldUnseen},
	}
}
