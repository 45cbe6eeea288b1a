package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"pgregory.net/rapid"
)

// drawnLines draws possible lines of views: each continues another by steps in order and
// takeovers, every takeover in a generation of its own.
type drawnLines struct {
	t          *rapid.T
	generation uint32
	lines      []*gossip.View
}

func (h *drawnLines) grow() {
	from := h.lines[rapid.IntRange(0, len(h.lines)-1).Draw(h.t, "from")]
	v := &gossip.View{Cluster: 1, Epoch: from.Epoch + gossip.Epoch(rapid.IntRange(0, 3).Draw(h.t, "steps")), Forks: from.Forks}
	if rapid.Bool().Draw(h.t, "takeover") {
		h.generation++
		f := gossip.Fork{From: v.Epoch, To: gossip.FirstEpoch(h.generation), Kept: rapid.IntRange(1, 3).Draw(h.t, "kept"), By: gossip.NodeID(h.generation)}
		v.Epoch, v.Forks = f.To, withFork(v.Forks, f)
	}
	h.lines = append(h.lines, v)
}

var mirror = map[relation]relation{same: same, newer: older, older: newer, wins: loses, loses: wins, otherCluster: otherCluster}

func TestBothSidesAgreeWhoYields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &drawnLines{t: t, generation: 100, lines: []*gossip.View{{Cluster: 1, Epoch: gossip.FirstEpoch(100)}}}
		for range rapid.IntRange(1, 8).Draw(t, "views") {
			h.grow()
		}
		for _, a := range h.lines {
			for _, b := range h.lines {
				if ab, ba := compareViews(a, b), compareViews(b, a); ba != mirror[ab] {
					t.Fatalf("%+v and %+v: %v and %v", a, b, ab, ba)
				}
			}
		}
	})
}

// TestLineagesAreOrdered: among parted lines one wins over all.
func TestLineagesAreOrdered(t *testing.T) {
	beats := func(a, b *gossip.View) bool { r := compareViews(a, b); return r == wins || r == older }
	rapid.Check(t, func(t *rapid.T) {
		h := &drawnLines{t: t, generation: 100, lines: []*gossip.View{{Cluster: 1, Epoch: gossip.FirstEpoch(100)}}}
		for range rapid.IntRange(2, 7).Draw(t, "views") {
			h.grow()
		}
		for _, a := range h.lines {
			for _, b := range h.lines {
				for _, c := range h.lines {
					if beats(a, b) && beats(b, c) && beats(c, a) {
						t.Fatalf("no end: %+v, %+v, %+v", a, b, c)
					}
				}
			}
		}
	})
}

// TestTheForkThatStands: of two takeovers of one view, the one that kept more members stands,
// then the one with the higher epoch, then that of the higher node.
func TestTheForkThatStands(t *testing.T) {
	from := gossip.FirstEpoch(100)
	taken := func(kept int, generation uint32, by gossip.NodeID) *gossip.View {
		to := gossip.TakeoverEpoch(generation)
		return &gossip.View{Cluster: 1, Epoch: to, Forks: []gossip.Fork{{From: from, To: to, Kept: kept, By: by}}}
	}
	for name, c := range map[string]struct{ stands, yields *gossip.View }{
		"more members, in an earlier epoch": {taken(3, 101, 1), taken(2, 102, 2)},
		"a later epoch, by a lower node":    {taken(2, 102, 1), taken(2, 101, 2)},
		"a higher node":                     {taken(2, 101, 2), taken(2, 101, 1)},
	} {
		if got := compareViews(c.stands, c.yields); got != wins {
			t.Errorf("%s: relation %v, want that it wins", name, got)
		}
		if got := compareViews(c.yields, c.stands); got != loses {
			t.Errorf("%s: the other has relation %v, want that it loses", name, got)
		}
	}
}

// TestLineagesPartAtTheEarlierFork: a lineage that continued in order beyond a fork of another
// wins over it, and one that ended before the fork is older.
func TestLineagesPartAtTheEarlierFork(t *testing.T) {
	at := func(e gossip.Epoch, forks ...gossip.Fork) *gossip.View {
		return &gossip.View{Cluster: 1, Epoch: e, Forks: forks}
	}
	e := gossip.FirstEpoch(100)
	early := gossip.Fork{From: e + 2, To: gossip.TakeoverEpoch(101), Kept: 5, By: 1}
	late := gossip.Fork{From: e + 4, To: gossip.TakeoverEpoch(102), Kept: 1, By: 2}
	next := gossip.Fork{From: early.To + 1, To: gossip.TakeoverEpoch(103), Kept: 1, By: 1}
	for name, c := range map[string]struct {
		a, b *gossip.View
		want relation
	}{
		"the view that was taken over":          {at(early.To, early), at(e + 2), older},
		"the view after it":                     {at(early.To, early), at(e + 3), loses},
		"two forks, ours is the earlier":        {at(early.To, early), at(late.To, late), loses},
		"two forks, ours is the later":          {at(late.To, late), at(early.To, early), wins},
		"a fork after a common one":             {at(early.To, early), at(next.To, early, next), newer},
		"beyond a fork after a common one":      {at(early.To+2, early), at(next.To, early, next), wins},
		"the same view":                         {at(early.To, early), at(early.To, early), same},
		"a later view of the lineage":           {at(early.To, early), at(early.To+1, early), newer},
		"a higher epoch of another cluster":     {at(e), &gossip.View{Cluster: 2, Epoch: e + 9}, otherCluster},
		"our view was taken over":               {at(e + 2), at(early.To, early), newer},
		"our view followed the one taken over":  {at(e + 3), at(early.To, early), wins},
		"a fork of ours that theirs cannot see": {at(early.To+3, early), at(e + 1), older},
	} {
		if got := compareViews(c.a, c.b); got != c.want {
			t.Errorf("%s: relation %v, want %v", name, got, c.want)
		}
	}
}

func TestLongHistoriesAreTrimmed(t *testing.T) {
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	var all []*gossip.View
	for g := uint32(2); g < 3*forksMax; g++ {
		f := gossip.Fork{From: v.Epoch, To: gossip.FirstEpoch(g), Kept: 1, By: gossip.NodeID(g)}
		v = &gossip.View{Cluster: 1, Epoch: f.To, Forks: withFork(v.Forks, f)}
		all = append(all, v)
	}
	last := all[len(all)-1]
	if len(last.Forks) != forksMax {
		t.Fatalf("%d forks", len(last.Forks))
	}
	for i := len(all) - forksMax + 1; i < len(all)-1; i++ {
		if compareViews(all[i], last) != newer || compareViews(last, all[i]) != older {
			t.Fatalf("%d: %v", i, compareViews(all[i], last))
		}
	}
}

// meeting parts a cluster by wrong evidence and heals it.
func meeting(t *testing.T, n int, side func(gossip.NodeID) int, wrong func(of, about gossip.NodeID) bool) *world {
	return meetingWith(t, n, side, wrong, func(*world) {})
}

// meetingWith does so in a world that is prepared.
func meetingWith(t *testing.T, n int, side func(gossip.NodeID) int, wrong func(of, about gossip.NodeID) bool, prepare func(*world)) *world {
	w := cluster(t, n)
	prepare(w)
	w.truth.wrongEvidence = true
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return side(from) != side(to) }
	for _, a := range w.order {
		for _, b := range w.order {
			if side(a) != side(b) {
				w.step(a, Link{Subject: b})
				if wrong(a, b) {
					w.step(a, ProvenDead{Subject: b, Reason: "wrong", Certain: true})
				}
			}
		}
	}
	w.run(4 * time.Second)
	w.cut = nil
	// Discovery brings the sides together: every node sends its view to every other.
	show := func() {
		for _, a := range w.living() {
			for _, b := range w.living() {
				if a.id != b.id && a.core.View() != nil {
					w.transmit(a.id, b.id, &Decided{View: Whole(a.core.View())})
				}
			}
		}
	}
	for range 5 {
		show()
		w.run(time.Second)
	}
	return w
}

func TestLineagesMeet(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		side  func(gossip.NodeID) int
		wrong func(of, about gossip.NodeID) bool
		stay  []gossip.NodeID
	}{
		{"a quorum against one that took over", 5, func(id gossip.NodeID) int { return b2i(id == 5) },
			func(of, about gossip.NodeID) bool { return of == 5 }, []gossip.NodeID{1, 2, 3, 4}},
		{"a quorum against the most senior, which took over", 5, func(id gossip.NodeID) int { return b2i(id == 1) },
			func(of, about gossip.NodeID) bool { return of == 1 }, []gossip.NodeID{2, 3, 4, 5}},
		{"two takeovers, the larger stands", 5, func(id gossip.NodeID) int { return int(id+1) / 2 },
			func(of, about gossip.NodeID) bool { return true }, nil},
		{"a minority that took over against one that did not", 4, func(id gossip.NodeID) int { return b2i(id > 2) },
			func(of, about gossip.NodeID) bool { return of > 2 }, []gossip.NodeID{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := meeting(t, c.n, c.side, c.wrong)
			var stayed []gossip.NodeID
			for _, n := range w.living() {
				stayed = append(stayed, n.id)
			}
			if c.stay != nil && fmt.Sprint(stayed) != fmt.Sprint(c.stay) || len(stayed) == 0 || !w.allUp(len(stayed)) || !w.allHold() {
				w.fail("%v stay", stayed)
			}
			t.Logf("%v stay: %s", stayed, viewText(w.nodes[stayed[0]].core.View()))
		})
	}
}

// TestTheNextGenerationIsAboveEveryFork: once the nodes of the losing lineage have joined
// the winning one, its generation lies above all that either opened, and it requires
// tokens from there on.
func TestTheNextGenerationIsAboveEveryFork(t *testing.T) {
	for name, wrong := range map[string]func(of, about gossip.NodeID) bool{
		"the older one stands": func(of, about gossip.NodeID) bool { return of == 5 },
		"both have taken over": func(of, about gossip.NodeID) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			var high uint32
			restarted := 0
			w := meetingWith(t, 5, func(id gossip.NodeID) int { return b2i(id == 5) }, wrong, func(w *world) {
				w.removed = func(n *simNode) {
					if !n.removed.Outranked {
						return
					}
					restarted++
					id := 100 + n.id
					high = max(high, n.core.View().Epoch.Generation())
					was := w.cfg
					w.cfg.Least = n.core.View().Epoch.Generation() + 1
					w.add(id)
					w.cfg = was
					w.at(100*time.Millisecond, func() { w.step(id, Contacts{Nodes: w.contacts()}) })
				}
			})
			w.must(10*time.Second, "all are in one view", func() bool { return w.allUp(5) && w.allHold() })
			v := w.living()[0].core.View()
			if restarted == 0 || v.Epoch.Generation() <= high || v.TokensFrom <= high {
				w.fail("%d nodes were restarted, the view is %v with tokens from %d, and %d was met", restarted, v.Epoch, v.TokensFrom, high)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lineageAlone returns the lineage of node 1 of a view of three, and a view that wins over
// that view.
func lineageAlone() (*lineage, *gossip.View) {
	p := campaignOf(1, "uuu")
	p.follower.pingedAt = p.now
	l := &lineage{history: p.history, evidence: p.evidence, follower: p.follower, joining: &joining{history: p.history}}
	taken := *l.view
	taken.Forks = withFork(nil, gossip.Fork{From: l.view.Epoch - 1, To: l.view.Epoch, Kept: 1, By: 1})
	winner := *l.view
	l.view = &taken
	return l, &winner
}

// TestLineageEndsOnlyAfterAnAnswer: a member asks the sender of a winning view whether it is
// alive, once per Ping, and ends when the answer has the same nonce.
func TestLineageEndsOnlyAfterAnAnswer(t *testing.T) {
	l, winner := lineageAlone()
	if compareViews(l.view, winner) != loses {
		t.Fatal("the view does not win")
	}
	for range 2 {
		if l.confirmPeer(2, Whole(winner)) {
			t.Error("ends without an answer")
		}
	}
	if got := l.sentTo(); len(got) != 1 {
		t.Errorf("asks %v, want 2 once", got)
	}
	nonce := l.conflict.nonce
	if l.onContested(2, &Contested{View: Whole(winner), Nonce: nonce + 1}) || l.onContested(3, &Contested{View: Whole(winner), Nonce: nonce}) {
		t.Error("ends by an answer to another question")
	}
	if !l.onContested(2, &Contested{View: Whole(winner), Nonce: nonce}) {
		t.Error("does not end by the answer")
	}
	l.status = gossip.Joining
	if !l.confirmPeer(2, Whole(winner)) {
		t.Error("a joining node does not yield immediately")
	}
}

// TestLineageAcceptsMembersOnly: of non-members, only a former member or one with a proof may
// show a winning view.
func TestLineageAcceptsMembersOnly(t *testing.T) {
	l, winner := lineageAlone()
	l.membership.secret = [2]uint64{3, 4}
	msg := &Decided{View: Whole(winner)}
	if !l.mayAccept(2, msg) || l.mayAccept(77, msg) {
		t.Error("accepts a view of a stranger, or none of a member")
	}
	asked := l.membership.asked
	if asked.with != 77 {
		t.Fatalf("asks %v for a proof", asked.with)
	}
	wrong := &Contested{View: Whole(winner), Nonce: asked.nonce, Proof: 1}
	if l.mayAccept(77, wrong) {
		t.Error("accepts a wrong proof")
	}
	right := *wrong
	right.Proof = l.membership.proof(asked.nonce, 1, 77)
	if !l.mayAccept(77, &right) || l.conflict.with != 77 {
		t.Error("does not accept the proof")
	}
	l.gone[78] = true
	if !l.mayAccept(78, msg) {
		t.Error("does not accept a former member")
	}
}

// TestAnAnswerCountsOnce: after an answer that does not win, a later one to the same question
// ends nothing.
func TestAnAnswerCountsOnce(t *testing.T) {
	l, winner := lineageAlone()
	l.confirmPeer(2, Whole(winner))
	nonce := l.conflict.nonce
	if l.onContested(2, &Contested{View: Whole(l.view), Nonce: nonce}) || l.onContested(2, &Contested{View: Whole(winner), Nonce: nonce}) {
		t.Error("ends by the second answer")
	}
	l.confirmPeer(2, Whole(winner))
	l.sentTo()
	if l.onContested(2, &Contested{Nonce: l.conflict.nonce}) || l.conflict.with != 2 {
		t.Error("an answer without a view counts")
	}
	if !l.onContested(2, &Contested{View: Whole(winner), Nonce: l.conflict.nonce}) || len(l.sentTo()) != 2 {
		t.Error("does not show the winning view to the other members")
	}
	l.showOthers(&SentView{View: winner, change: &change{}})
	if l.sentTo() != nil {
		t.Error("shows a view without its members")
	}
}

// TestAConflictHasOneQuestionPerPing: with one node; another node is asked immediately.
func TestAConflictHasOneQuestionPerPing(t *testing.T) {
	l, winner := lineageAlone()
	l.confirmPeer(2, Whole(winner))
	l.now = l.now.Add(testPing - 1)
	l.confirmPeer(2, Whole(winner))
	if got := l.sentTo(); len(got) != 1 {
		t.Errorf("asks %v within a ping", got)
	}
	l.confirmPeer(3, Whole(winner))
	l.now = l.now.Add(testPing)
	l.confirmPeer(3, Whole(winner))
	if got := l.sentTo(); len(got) != 2 {
		t.Errorf("asks %v, want 3 twice", got)
	}
}

// TestAProofAnswersItsQuestion: one given for another question, another node or without the
// secret does not count.
func TestAProofAnswersItsQuestion(t *testing.T) {
	m := &membership{secret: [2]uint64{3, 4}, asked: lineageConflict{with: 77, nonce: 5}}
	proof := func(nonce uint64, asker, answerer gossip.NodeID) *Contested {
		return &Contested{Nonce: nonce, Proof: m.proof(nonce, asker, answerer)}
	}
	for name, c := range map[string]struct {
		from gossip.NodeID
		msg  *Contested
		want bool
	}{
		"right":               {77, proof(5, 1, 77), true},
		"to another question": {77, proof(6, 1, 77), false},
		"for another asker":   {77, proof(5, 2, 77), false},
		"of another node":     {77, proof(5, 1, 78), false},
		"from another node":   {78, proof(5, 1, 78), false},
		"none":                {77, &Contested{Nonce: 5}, false},
	} {
		if got := m.accepts(1, c.from, c.msg); got != c.want {
			t.Errorf("%s: accepts %v", name, got)
		}
	}
	m.adoptSecret([2]uint64{9, 9})
	if m.secret != [2]uint64{3, 4} {
		t.Error("a second secret replaces the first")
	}
	m.secret = [2]uint64{}
	if m.proof(5, 1, 77) != 0 || m.accepts(1, 77, &Contested{Nonce: 5}) {
		t.Error("proves, or accepts, without a secret")
	}
}
