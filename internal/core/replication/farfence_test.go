package replication

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// fencingFrames are all frames of a member that bring a fence.
func fencingFrames(e gossip.Epoch, f replicator.Fence) map[string]Message {
	return map[string]Message{
		"status":   &Status{Epoch: e, Fences: []replicator.Fence{f}},
		"read":     &ReadRequest{Epoch: e, ID: 1, Round: 1, Fence: f},
		"write":    &Deltas{Epoch: e, From: 1, Entries: []*Entry{{Fence: f}}},
		"commit":   &Commit{Fences: []replicator.Fence{f}},
		"prepared": &Prepared{Epoch: e, Fences: []replicator.Fence{f}},
	}
}

// barsNoWriter sends each frame with the fence to nodes 1 and 2 of three, and lets them read
// and write under their view's epoch.
func barsNoWriter(t *testing.T, change func(*Config), forge func(gossip.Epoch) replicator.Fence) {
	for name := range fencingFrames(0, replicator.Fence{}) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3, change)
			for _, id := range []gossip.NodeID{1, 2} {
				w.step(id, Received{From: 3, Msg: fencingFrames(w.view.Epoch, forge(w.view.Epoch))[name]})
			}
			w.run(time.Second)
			now := replicator.Fence{Group: "g", Term: uint64(w.view.Epoch)}
			if r := w.reply(1, w.read(1, majority, now, "k")); r.Err != nil {
				t.Errorf("read: %v", r.Err)
			}
			if r := w.reply(2, w.update(2, majority, now, addTo(2, "k", "e"))); r.Err != nil {
				t.Errorf("write: %v", r.Err)
			}
			if n := w.nodes[1].core.Stats().FarTerms; n == 0 && name != "prepared" && name != "commit" {
				t.Error("it is not counted")
			}
		})
	}
}

// TestAttackFarFences: a fence of a member with a term that no view can have had bars no
// writer, whatever frame brings it.
func TestAttackFarFences(t *testing.T) {
	barsNoWriter(t, nil, func(gossip.Epoch) replicator.Fence { return replicator.Fence{Group: "g", Term: math.MaxUint64} })
}

// TestAttackEarlyFences: where terms are epochs, nor does one of a later view, be it the
// next: a replica takes it when it holds that view.
func TestAttackEarlyFences(t *testing.T) {
	for name, by := range map[string]gossip.Epoch{"the next view": 1, "as many generations as can be": gossip.GenerationsAhead << 32} {
		t.Run(name, func(t *testing.T) {
			barsNoWriter(t, func(c *Config) { c.Epochs = true }, func(e gossip.Epoch) replicator.Fence { return replicator.Fence{Group: "g", Term: uint64(e + by)} })
		})
	}
}

// TestAReadOfALaterViewIsAnsweredInIt: a replica that has not received the view answers the
// read of that view's coordinator when it has, under its fence.
func TestAReadOfALaterViewIsAnsweredInIt(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.Epochs = true })
	v := *w.view
	v.Epoch++
	later := replicator.Fence{Group: "g", Term: uint64(v.Epoch)}
	w.step(1, ViewChanged{View: &v})
	id := w.read(1, majority, later, "k")
	w.run(100 * time.Millisecond)
	if _, answered := w.nodes[1].replies[id]; answered {
		t.Fatal("answered by replicas that do not hold the view")
	}
	w.step(2, ViewChanged{View: &v})
	if r := w.reply(1, id); r.Err != nil {
		t.Error(r.Err)
	}
	if r := w.reply(2, w.update(2, majority, replicator.Fence{Group: "g", Term: uint64(w.view.Epoch)}, addTo(2, "k", "e"))); !errors.Is(r.Err, replicator.ErrFenced) {
		t.Errorf("the former coordinator writes: %v", r.Err)
	}
}

// TestAttackFarAnswers: nor does the answer of a member that claims to know such a term.
func TestAttackFarAnswers(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	now := replicator.Fence{Group: "g", Term: uint64(w.view.Epoch)}
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
	most := uint64(gossip.FirstEpoch(w.view.Epoch.Generation() + gossip.GenerationsAhead))
	if r := w.reply(1, w.update(1, majority, replicator.Fence{Group: "g", Term: most}, addTo(1, "k", "e"))); r.Err != nil {
		t.Error(r.Err)
	}
	var limit *replicator.Error
	if r := w.reply(1, w.update(1, majority, replicator.Fence{Group: "h", Term: most + 1<<32}, addTo(1, "k", "e"))); !errors.As(r.Err, &limit) || limit.Code != replicator.ErrLimit || limit.Limit != "FenceTerm" {
		t.Errorf("err = %v", r.Err)
	}
}
