package core

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// TestAttackFarFences: a fence of a member with a term that no view can have had bars
// nobody, whatever frame brings it.
func TestAttackFarFences(t *testing.T) {
	far := Fence{Group: "g", Term: math.MaxUint64}
	for name, attack := range map[string]func(w *world, e view.Epoch) Message{
		"status": func(w *world, e view.Epoch) Message { return &Status{Epoch: e, Fences: []Fence{far}} },
		"read":   func(w *world, e view.Epoch) Message { return &ReadRequest{Epoch: e, ID: 1, Round: 1, Fence: far} },
		"write": func(w *world, e view.Epoch) Message {
			return &Deltas{Epoch: e, From: 1, Entries: []*Entry{{Fence: far}}}
		},
		"commit":   func(w *world, e view.Epoch) Message { return &Commit{Fences: []Fence{far}} },
		"prepared": func(w *world, e view.Epoch) Message { return &Prepared{Epoch: e, Fences: []Fence{far}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3, nil)
			for _, id := range []view.NodeID{1, 2} {
				w.step(id, Received{From: 3, Msg: attack(w, w.view.Epoch)})
			}
			w.run(time.Second)
			now := Fence{Group: "g", Term: uint64(w.view.Epoch)}
			if r := w.reply(1, w.read(1, majority, now, "k")); r.Err != nil {
				t.Errorf("read: %v", r.Err)
			}
			if r := w.reply(2, w.update(2, majority, now, addTo(2, "k", "e"))); r.Err != nil {
				t.Errorf("write: %v", r.Err)
			}
		})
	}
}

// TestAttackFarAnswers: nor does the answer of a member that claims to know such a term.
func TestAttackFarAnswers(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.cut = func(a, b view.NodeID) bool { return a == 3 || b == 3 }
	now := Fence{Group: "g", Term: uint64(w.view.Epoch)}
	rid := w.read(1, majority, now, "k")
	w.step(1, Received{From: 3, Msg: &ReadResult{Epoch: w.view.Epoch, ID: rid, Round: 1, Higher: math.MaxUint64}})
	if r := w.reply(1, rid); r.Err != nil {
		t.Errorf("read: %v", r.Err)
	}
	rid = w.update(1, majority, now, addTo(1, "k", "e"))
	w.step(1, Received{From: 3, Msg: &Ack{Epoch: w.view.Epoch, From: 1, To: 1, Refused: []Refusal{{Seq: 1, Higher: math.MaxUint64}}}})
	if r := w.reply(1, rid); r.Err != nil {
		t.Errorf("write: %v", r.Err)
	}
}

// TestFencesOfTheApplicationHaveABound: a term of an application that is too far above the
// view's epoch is refused before anything is written.
func TestFencesOfTheApplicationHaveABound(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	most := uint64(view.FirstEpoch(w.view.Epoch.Generation() + view.GenerationsAhead))
	if r := w.reply(1, w.update(1, majority, Fence{Group: "g", Term: most}, addTo(1, "k", "e"))); r.Err != nil {
		t.Error(r.Err)
	}
	var limit *LimitError
	if r := w.reply(1, w.update(1, majority, Fence{Group: "h", Term: most + 1<<32}, addTo(1, "k", "e"))); !errors.As(r.Err, &limit) || limit.What != "FenceTerm" {
		t.Errorf("err = %v", r.Err)
	}
}
