package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// envOf returns the environment of a machine that is tested alone, on node self.
func envOf(self gossip.NodeID) *env {
	return &env{
		cfg: Config{
			Self: gossip.Node{ID: self}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove,
			Evidence: gossip.EvidenceFull, Partition: gossip.KeepMajority{},
		},
		now: clock.Instant(time.Hour), out: &Effects{},
	}
}

// historyOf returns the history of node self in the view of word (viewOf).
func historyOf(self gossip.NodeID, word string) *history {
	h := &history{env: envOf(self), gone: map[gossip.NodeID]bool{}, packFrom: packFrom}
	v := viewOf(word)
	h.advanceTo(v, v.Member(self))
	return h
}

// after returns a view that follows h's, without some members.
func (h *history) after(without ...gossip.NodeID) *gossip.View {
	v := &gossip.View{Cluster: h.view.Cluster, Epoch: h.view.Epoch + 1}
	left := setOf(without...)
	for _, m := range h.view.Members {
		if !left(m.ID) {
			v.Members = append(v.Members, m)
		}
	}
	return v
}

func TestHistoryRecordsLeftOutMembers(t *testing.T) {
	h := historyOf(1, "uuuu")
	first := h.view
	next := h.after(2, 4)
	out := h.advanceTo(next, next.Member(1))
	if len(out) != 2 || out[0] != 2 || out[1] != 4 || !h.gone[2] || !h.gone[4] || h.gone[3] {
		t.Errorf("left out %v, gone %v", out, h.gone)
	}
	if h.view != next || h.before != first || h.epoch != next.Epoch {
		t.Errorf("view %v after %v, epoch of traces %v", h.view.Epoch, h.before.Epoch, h.epoch)
	}
}

// TestHistoryForgetsThatAMemberWasLeftOut checks that a node which was left out while it joined, and is
// admitted later, counts as a member again: proofs of its death matter (TestSeeds, seed 1652270).
func TestHistoryForgetsThatAMemberWasLeftOut(t *testing.T) {
	h := historyOf(1, "uuuu")
	for range 2 {
		v := h.after(2, 4)
		h.advanceTo(v, v.Member(1))
		v = h.after()
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 2}, Status: gossip.Joining})
		h.advanceTo(v, v.Member(1))
		if h.gone[2] || !h.gone[4] || len(h.goneOrder) != 1 {
			t.Errorf("gone %v in the order %v", h.gone, h.goneOrder)
		}
	}
	e := &evidence{history: h, proofs: map[gossip.NodeID]*proof{}, early: map[gossip.NodeID]*proof{}}
	if !e.onProof(ProvenDead{Subject: 2, Certain: true}) {
		t.Error("a proof of the death of a member that is back does not count")
	}
}

func TestHistoryBoundsTheMembersThatItRecords(t *testing.T) {
	h := historyOf(1, "u")
	for id := gossip.NodeID(2); id < goneMax+20; id++ {
		v := h.after()
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
		h.advanceTo(v, v.Member(1))
		v = h.after(id)
		h.advanceTo(v, v.Member(1))
	}
	if len(h.gone) != goneMax || len(h.goneOrder) != goneMax || h.gone[2] || !h.gone[goneMax+19] {
		t.Errorf("%d gone in an order of %d, the oldest %v, the newest %v", len(h.gone), len(h.goneOrder), h.gone[2], h.gone[goneMax+19])
	}
}

func TestHistoryUnpacksAgainstTwoViews(t *testing.T) {
	h := historyOf(1, "uuuuuuuu")
	h.packFrom = 1
	base, next := h.view, h.after(8)
	step := h.packView(next, base)
	if got := h.unpackView(step); got == nil || len(got.Members) != 7 {
		t.Fatalf("against the newest view: %v", got)
	}
	h.advanceTo(next, next.Member(1))
	last := h.after(7)
	late := h.packView(last, base)
	if got := h.unpackView(late); got == nil || len(got.Members) != 6 {
		t.Errorf("against the view before: %v", got)
	}
	h.advanceTo(last, last.Member(1))
	other := *last
	other.Epoch++
	if got := h.unpackView(h.packView(&other, base)); got != nil {
		t.Errorf("against a view that it no longer holds: %v", got)
	}
}

func TestHistoryNamesTheCauseOfItsEnd(t *testing.T) {
	h := historyOf(2, "uu")
	v := h.after(2)
	v.Out = []gossip.Departure{{ID: 2, Cause: gossip.CauseDead, Evidence: "reset"}}
	want := "left out of the view: " + gossip.CauseDead.String() + ", reset"
	if got := h.reasonLeftOut(v); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestViewsArePackedIfThatIsShorter checks that views are packed from a number of members on, and
// if the difference takes at most half the room: removals take little, new members as much as in a
// whole view.
func TestViewsArePackedIfThatIsShorter(t *testing.T) {
	h := historyOf(1, "uuuuuuuu")
	add := func(v *gossip.View, n int) *gossip.View {
		for i := range n {
			v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(90 + i)}, Status: gossip.Joining})
		}
		return v
	}
	for name, c := range map[string]struct {
		v        *gossip.View
		base     *gossip.View
		packFrom int
		packed   bool
	}{
		"as many members as it takes": {h.after(8), h.view, 7, true},
		"one member fewer":            {h.after(8), h.view, 8, false},
		"no base":                     {h.after(8), nil, 1, false},
		"a few leave":                 {h.after(7, 8), h.view, 1, true},
		"most leave":                  {h.after(3, 4, 5, 6, 7, 8), h.view, 1, true},
		"all but one leave":           {h.after(2, 3, 4, 5, 6, 7, 8), h.view, 1, false},
		"half are new":                {add(h.after(), 8), h.view, 1, true},
		"most are new":                {add(h.after(), 10), h.view, 1, false},
		"half are new, and six leave": {add(h.after(3, 4, 5, 6, 7, 8), 3), h.view, 1, false},
	} {
		h.packFrom = c.packFrom
		if got := h.packView(c.v, c.base); got.Packed() != c.packed || got.Epoch != c.v.Epoch {
			t.Errorf("%s: packed %v", name, got.Packed())
		}
	}
	if h.packView(nil, h.view) != nil || h.unpackView(nil) != nil {
		t.Error("no view becomes one")
	}
	h.packFrom = 1
	next := h.after(8)
	next.Out, next.Origin, next.TokensFrom, next.Standing.Peak = []gossip.Departure{{ID: 8, Cause: gossip.CauseLeft}}, 5, 6, 7
	if p := h.packView(next, h.view); len(p.Out) != 1 || p.Origin != 5 || p.TokensFrom != 6 || p.Standing.Peak != 7 || p.Members != nil {
		t.Errorf("packs %+v", p.View)
	}
	if p := h.packView(next, next); len(p.Out) != 0 {
		t.Error("sends departures to those that have the view")
	}
}

// TestViewsThatCannotBeUnpacked: without the base, of another cluster, or of another lineage.
func TestViewsThatCannotBeUnpacked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *history, v *SentView)
		fits   bool
	}{
		"a difference from our view": {func(*history, *SentView) {}, true},
		"another base":               {func(_ *history, v *SentView) { v.change.base-- }, false},
		"another cluster":            {func(_ *history, v *SentView) { v.Cluster++ }, false},
		"another lineage":            {func(h *history, v *SentView) { v.Forks = []gossip.Fork{{From: h.view.Epoch - 1, To: v.Epoch, Kept: 1}} }, false},
		"a node without a view":      {func(h *history, _ *SentView) { h.view = nil }, false},
	} {
		h := historyOf(1, "uuuuuuuu")
		h.packFrom = 1
		v := h.packView(h.after(8), h.view)
		c.change(h, v)
		if got := h.unpackView(v); (got != nil) != c.fits {
			t.Errorf("%s: becomes %v", name, got)
		}
	}
	h := historyOf(1, "uu")
	if v := viewOf("u"); h.unpackView(Whole(v)) != v {
		t.Error("a whole view is not taken as it is")
	}
	if got := h.unpackView(&SentView{View: &gossip.View{Cluster: 1, Epoch: h.view.Epoch}, change: &change{base: 99}}); got != h.view {
		t.Errorf("our own view becomes %v", got)
	}
}

// TestDifferencesThatDoNotFit: members or statuses that the base does not have in this order,
// and members twice.
func TestDifferencesThatDoNotFit(t *testing.T) {
	base := viewOf("uuu")
	member := func(id gossip.NodeID) []gossip.Member {
		return []gossip.Member{{Node: gossip.Node{ID: id}, Status: gossip.Joining}}
	}
	many := make([]gossip.Member, membersMax)
	for i := range many {
		many[i].ID = gossip.NodeID(100 + i)
	}
	for name, c := range map[string]struct {
		d    change
		want int
	}{
		"nothing":              {change{}, 3},
		"two leave":            {change{gone: []gossip.NodeID{1, 3}}, 1},
		"in another order":     {change{gone: []gossip.NodeID{3, 1}}, 0},
		"a stranger leaves":    {change{gone: []gossip.NodeID{7}}, 0},
		"a status":             {change{other: []statusOf{{3, gossip.Leaving}}}, 3},
		"a stranger's status":  {change{other: []statusOf{{7, gossip.Leaving}}}, 0},
		"a status of one gone": {change{gone: []gossip.NodeID{3}, other: []statusOf{{3, gossip.Leaving}}}, 0},
		"one joins":            {change{added: member(4)}, 4},
		"a member joins":       {change{added: member(2)}, 0},
		"one more than fit":    {change{added: many[2:]}, 0},
		"as many as fit":       {change{added: many[3:]}, membersMax},
		"all leave":            {change{gone: []gossip.NodeID{1, 2, 3}}, 0},
	} {
		v := c.d.applyTo(&gossip.View{Cluster: 1, Epoch: 9}, base)
		if got := v != nil; got != (c.want > 0) || got && len(v.Members) != c.want {
			t.Errorf("%s: %v", name, v)
		}
	}
	if d := difference(base, base); d == nil || d.base != base.Epoch || len(d.gone)+len(d.other)+len(d.added) != 0 {
		t.Errorf("of a view from itself: %+v", d)
	}
	rejoined := viewOf("uuu")
	rejoined.Members[1].Joined = 9
	if difference(rejoined, base) != nil {
		t.Error("a member that has joined again is no series of steps")
	}
}

func TestReasonsOfAnEnd(t *testing.T) {
	h := historyOf(2, "uu")
	v := h.after(2)
	for want, out := range map[string][]gossip.Departure{
		"left out of the view":                                 {{ID: 1, Cause: gossip.CauseSilent}},
		"left out of the view: " + gossip.CauseSilent.String(): {{ID: 1, Cause: gossip.CauseLeft}, {ID: 2, Cause: gossip.CauseSilent}},
	} {
		v.Out = out
		if got := h.reasonLeftOut(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTheHighestGenerationMet: of views, and of the clusters that they stand over.
func TestTheHighestGenerationMet(t *testing.T) {
	h := historyOf(1, "uu")
	v := h.after()
	v.Foreign = []gossip.Contest{{Cluster: 5, Generation: 7}, {Cluster: 6, Generation: 3}}
	h.advanceTo(v, v.Member(1))
	if h.generation != 7 {
		t.Errorf("generation %d, want 7", h.generation)
	}
	h.noteGeneration(4)
	next := h.after()
	h.advanceTo(next, next.Member(1))
	if h.generation != 7 {
		t.Errorf("generation %d after lower ones", h.generation)
	}
}

// TestCheckOfARecord: it fails for an entry of this node that is not as recorded.
func TestCheckOfARecord(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *history)
		fails  bool
	}{
		"as recorded":         {func(*history) {}, false},
		"without this node":   {func(h *history) { h.view.Members = h.view.Members[1:] }, true},
		"another status":      {func(h *history) { h.status = gossip.Leaving }, true},
		"another join":        {func(h *history) { h.joined++ }, true},
		"a lower generation":  {func(h *history) { h.generation = 0 }, true},
		"a higher generation": {func(h *history) { h.generation = 9 }, false},
	} {
		h := historyOf(1, "uu")
		c.change(h)
		if err := h.checkHistory(); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
