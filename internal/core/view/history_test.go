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
