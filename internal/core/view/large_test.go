package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// large builds a cluster of n nodes that already share one view; other tests cover
// admission.
func large(w *world, n int) *world {
	w.quiet, w.viaCodec = true, false
	w.truth.wrongEvidence = true // its checks visit all nodes after every event
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(100)}
	for id := gossip.NodeID(1); id <= gossip.NodeID(n); id++ {
		v.Members = append(v.Members, gossip.Member{Node: w.add(id).core.cfg.Self, Joined: gossip.FirstEpoch(99), Status: gossip.Up})
	}
	for _, x := range w.order {
		w.nodes[x].core.joining.onPassed(v.Members[0].ID) // as if it had sent a join request
		w.inject(v.Members[0].ID, x, &Decided{View: Whole(v)})
	}
	w.until(time.Minute, "all hold leases", func() bool { return w.holds(w.nodes[gossip.NodeID(n)]) && w.allHold() })
	return w
}

// traffic counts frames and their bytes by sender.
type traffic struct {
	frames, bytes map[gossip.NodeID]int
	asked         int
	// largest is the largest frame, by kind.
	largest map[string]int
}

func (w *world) measure() *traffic {
	t := &traffic{frames: map[gossip.NodeID]int{}, bytes: map[gossip.NodeID]int{}, largest: map[string]int{}}
	sizes := map[*gossip.View]int{} // views are shared by many frames
	w.sent = func(from, to gossip.NodeID, m Message) {
		n := 0
		if a, ok := m.(*Accept); ok {
			small := *a
			small.Base, small.Next = nil, nil
			n = len(Append(nil, &small))
			for _, v := range []*gossip.View{a.Base.Header(), a.Next.Header()} {
				if sizes[v] == 0 {
					sizes[v] = len(Append(nil, &Decided{View: Whole(v)}))
				}
				n += sizes[v]
			}
		} else {
			n = len(Append(nil, m))
		}
		kind := fmt.Sprintf("%T", m)
		t.frames[from]++
		t.bytes[from] += n
		t.largest[kind] = max(t.largest[kind], n)
		if _, ok := m.(*NeedView); ok {
			t.asked++
		}
	}
	return t
}

// TestAThousandMembers: one dies, and the view without it is committed everywhere
// within 2 s, also if it was the leader. The leader's traffic grows with the number of
// members, not with its square.
func TestAThousandMembers(t *testing.T) {
	const n = 1000
	for _, victim := range []gossip.NodeID{500, 1} {
		t.Run(fmt.Sprintf("%d dies", victim), func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Ping, w.cfg.Lease, w.cfg.RemoveAfter = 500*time.Millisecond, 5*time.Second, 10*time.Second
			large(w, n)
			w.run(time.Second)
			sent := w.measure()
			w.kill(30*time.Millisecond, victim)
			took := w.must(2*time.Second, "all hold the view without it", func() bool {
				return w.now%(10*time.Millisecond) < time.Millisecond && w.nodes[n].core.View().Member(victim) == nil &&
					!slices.ContainsFunc(w.living(), func(x *simNode) bool { return len(x.core.View().Members) != n-1 })
			})
			leader := gossip.NodeID(1)
			if victim == 1 {
				leader = 2
			}
			per := sent.bytes[leader] / n
			t.Logf("everywhere after %v; the leader sent %d frames, %d bytes per member; largest frames %v; %d asked for the whole",
				took, sent.frames[leader], per, sent.largest, sent.asked)
			if per > 2000 || sent.asked > 0 {
				t.Errorf("the leader sent %d bytes per member, and %d asked for the whole view", per, sent.asked)
			}
			for _, kind := range []string{"*view.Accept", "*view.PreVote", "*view.Prepare", "*view.Decided"} {
				if sent.largest[kind] > 1000 {
					t.Errorf("a %s of %d bytes", kind, sent.largest[kind])
				}
			}
		})
	}
}

// TestWholeViewsOnRequest: a member that has missed a view cannot unpack a difference
// from it, requests the whole and receives it.
func TestWholeViewsOnRequest(t *testing.T) {
	w := newWorld(t)
	w.packFrom = 2
	grow(w, 6)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return to == 6 }
	w.kill(30*time.Millisecond, 5)
	w.until(time.Second, "5 is out", func() bool { return len(w.nodes[1].core.View().Members) == 5 })
	w.kill(30*time.Millisecond, 4)
	w.until(time.Second, "4 is out", func() bool { return len(w.nodes[1].core.View().Members) == 4 })
	asked := 0
	w.sent = func(from, to gossip.NodeID, m Message) {
		if _, ok := m.(*NeedView); ok && from == 6 {
			asked++
		}
	}
	w.cut = nil
	w.must(2*testPing, "6 holds the view", func() bool { return w.allUp(4) })
	if asked == 0 || asked > 2 {
		w.fail("6 asked %d times", asked)
	}
	w.run(time.Second)
	if !w.allHold() {
		w.fail("6 holds no lease")
	}
}

// TestOneWholeViewForANodeThatWasCutOff checks that a node that comes back gets the view without it
// once, although it asks all members of its old view for their votes; and again if that is lost.
func TestOneWholeViewForANodeThatWasCutOff(t *testing.T) {
	for _, lost := range []int{0, 1} {
		w := newWorld(t)
		w.packFrom = 2
		grow(w, 9)
		w.run(time.Second)
		w.cut = func(from, to gossip.NodeID) bool { return from == 9 || to == 9 }
		w.until(time.Minute, "9 is out", func() bool { return len(w.nodes[1].core.View().Members) == 8 })
		w.cut = nil
		asked, answers := 0, 0
		w.lose = func(_, to gossip.NodeID, m Message) bool {
			d, ok := m.(*Decided)
			if !ok || to != 9 || d.View.Packed() {
				return false
			}
			answers++
			return answers <= lost
		}
		w.sent = func(from, _ gossip.NodeID, m Message) {
			if _, ok := m.(*NeedView); ok && from == 9 {
				asked++
			}
		}
		w.must(testLease, "9 ends", func() bool { return w.nodes[9].core.ended })
		if asked != 1+lost || answers != 1+lost {
			w.fail("%d lost: 9 asked %d times and was sent %d views", lost, asked, answers)
		}
	}
}

// TestLateAnswersCostNoWholeViews checks that a member whose answers are late needs no whole view
// while views follow each other: each difference follows the one before it.
func TestLateAnswersCostNoWholeViews(t *testing.T) {
	w := newWorld(t)
	w.packFrom = 2
	grow(w, 9)
	w.run(time.Second)
	w.lose = func(from, _ gossip.NodeID, m Message) bool {
		_, answer := m.(*Pong)
		return answer && from == 9
	}
	sent := w.measure()
	for left := 8; left > 5; left-- {
		w.kill(30*time.Millisecond, gossip.NodeID(left))
		w.until(time.Second, "the view without it is held", func() bool {
			return len(w.nodes[1].core.View().Members) == left && len(w.nodes[9].core.View().Members) == left
		})
	}
	if sent.asked > 0 {
		w.fail("%d whole views were requested", sent.asked)
	}
}

// TestChangesWithinTheSpacingMakeOneView checks that the first of several crashes is settled without
// a wait, and those that follow it within the spacing of views together.
func TestChangesWithinTheSpacingMakeOneView(t *testing.T) {
	const n, crashes = 100, 20
	w := large(newWorld(t), n)
	w.run(time.Second)
	left := func() int { return len(w.nodes[2].core.View().Members) }
	w.kill(0, n)
	w.must(3*time.Millisecond, "the first crash is settled", func() bool { return left() == n-1 })
	before := w.nodes[1].core.View().Epoch
	for i := 1; i < crashes; i++ {
		w.kill(0, gossip.NodeID(n-i))
		w.run(time.Millisecond)
	}
	w.must(time.Second, "all crashes are settled", func() bool { return left() == n-crashes })
	// Views of 100 members follow each other every 5 ms, and the crashes take 19 ms.
	if views := w.nodes[1].core.View().Epoch - before; views > 6 {
		w.fail("%d crashes made %d views", crashes-1, views)
	}
}

// TestDifferencesMakeTheView: packing and unpacking returns the same view, for every step
// that a leader can make.
func TestDifferencesMakeTheView(t *testing.T) {
	base := viewOf("uuujuuulju")
	c := New(Config{Self: gossip.Node{ID: 1}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, 1)
	c.view, c.packFrom = base, 1
	next := func(edit func(v *gossip.View)) *gossip.View {
		v := &gossip.View{Cluster: base.Cluster, Epoch: base.Epoch + 1, Members: slices.Clone(base.Members)}
		edit(v)
		return v
	}
	for name, v := range map[string]*gossip.View{
		"none":   next(func(v *gossip.View) {}),
		"gone":   next(func(v *gossip.View) { v.Members = slices.Delete(v.Members, 2, 4) }),
		"first":  next(func(v *gossip.View) { v.Members = v.Members[1:] }),
		"last":   next(func(v *gossip.View) { v.Members = v.Members[:8] }),
		"status": next(func(v *gossip.View) { v.Members[3].Status, v.Members[4].Status = gossip.Up, gossip.Leaving }),
		"new": next(func(v *gossip.View) {
			v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 70}, Joined: v.Epoch, Status: gossip.Joining})
		}),
		"all": next(func(v *gossip.View) {
			v.Members = append(slices.Delete(v.Members, 0, 1), gossip.Member{Node: gossip.Node{ID: 70}, Joined: v.Epoch, Status: gossip.Joining})
			v.Members[2].Status = gossip.Up
		}),
		"itself": base,
	} {
		p := c.packView(v, base)
		if !p.Packed() {
			t.Errorf("%s: not packed", name)
		}
		m, err := Decode(Append(nil, &Decided{View: p}))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.unpackView(m.(*Decided).View); got == nil || !sameView(got, v) {
			t.Errorf("%s: %s became %v", name, viewText(v), got)
		}
	}
	swapped := next(func(v *gossip.View) { v.Members[0], v.Members[1] = v.Members[1], v.Members[0] })
	if c.packView(swapped, base).Packed() {
		t.Error("another order is packed")
	}
	stranger := &SentView{View: &gossip.View{Cluster: 1, Epoch: base.Epoch + 1}, change: &change{base: base.Epoch, gone: []gossip.NodeID{99}}}
	if c.unpackView(stranger) != nil {
		t.Error("a difference that does not fit is applied")
	}
}

// TestAPackedViewIsWholeOnItsBase: a holder of the base gets the members back, and a holder of
// another view gets nothing.
func TestAPackedViewIsWholeOnItsBase(t *testing.T) {
	base := &gossip.View{Cluster: 1, Epoch: 7}
	for id := gossip.NodeID(1); id <= 40; id++ {
		base.Members = append(base.Members, gossip.Member{Node: gossip.Node{ID: id}, Joined: 1, Status: gossip.Up})
	}
	next := &gossip.View{Cluster: 1, Epoch: 8, Members: base.Members[1:]}
	h := &history{packFrom: packFrom}
	sent := h.packView(next, base)
	if !sent.Packed() || len(sent.Members) > 0 {
		t.Fatalf("a view of %d members is sent whole", len(next.Members))
	}
	if whole := sent.On(base); whole == nil || len(whole.Members) != 39 || whole.Member(1) != nil {
		t.Errorf("on its base the view is %v", whole)
	}
	if whole := sent.On(next); whole != nil {
		t.Errorf("on another view it is %v", whole)
	}
	if sent.On(nil) != nil || (*SentView)(nil).On(base) != nil || Whole(next).On(nil) != next {
		t.Error("a view is unpacked without a base, or a whole one is not returned")
	}
}
