package region

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// A region that is refused says why, once, is not registered, and goes on asking
// until it is.
func TestRefusedRegionsSayWhyOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	refusal := &protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role", Here: `"a"`, There: `"b"`}}
	b.hear(&protocol.RegisterAck{Head: b.head()})
	said := func() int {
		n := 0
		for _, e := range b.trace {
			if e.Kind == TraceRefused && e.Detail == `role is "a" here, "b" there` {
				n++
			}
		}
		return n
	}
	if b.hear(refusal); said() != 1 || b.c.Registered() {
		t.Errorf("said %d times, registered %v", said(), b.c.Registered())
	}
	if b.hear(refusal); said() > 0 {
		t.Error("said again")
	}
	b.now = b.c.Deadline()
	b.step(Tick{})
	want[*protocol.Register](b)
	if b.hear(&protocol.RegisterAck{Head: b.head()}); !b.c.Registered() {
		t.Error("not registered in the end")
	}
}

// A node that does not run the type says so; one that does tells its settings.
func TestRegistersWithItsSettings(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		b := newBench(t, &Floors{})
		b.c = New(Config{Self: self, Type: "counter", Shards: 8, Capacity: 3, Foreign: foreign}, &Floors{})
		b.view(boss, self)
		got := want[*protocol.Register](b).Settings
		if foreign != (got.Shards == 0) || !foreign && !slices.Equal([]uint32{got.Shards, got.Capacity}, []uint32{8, 3}) {
			t.Errorf("foreign %v: %+v", foreign, got)
		}
	}
}

// A candidate that declines in our view is left for the next one, and our own
// coordinator hears of it; in the next view all is asked anew.
func TestDeclinedCandidatesAreLeft(t *testing.T) {
	b := newBench(t, &Floors{})
	hear := func(from view.NodeID, epoch view.Epoch) {
		b.step(Received{From: from, Msg: &protocol.Declined{Head: protocol.Head{View: epoch}}})
	}
	for _, epoch := range []view.Epoch{b.epoch - 1, b.epoch + 1} {
		hear(boss, epoch)
		refuse[*protocol.Register](b)
	}
	hear(other, b.epoch)
	refuse[*protocol.Register](b)
	hear(boss, b.epoch)
	if s := want[Standing](b); s.View != b.epoch || s.Refused || !slices.Equal(s.Declined, []view.NodeID{boss}) {
		t.Errorf("told %+v", s)
	}
	if s := want[Send](b); s.To != self || b.c.Coordinator() != self {
		t.Errorf("registers at %v, coordinator %v", s.To, b.c.Coordinator())
	}
	hear(self, b.epoch)
	if s := want[Send](b); s.To != other {
		t.Errorf("registers at %v", s.To)
	}
	// All have declined: the first it is, and goes on being.
	hear(other, b.epoch)
	if s := want[Send](b); s.To != boss {
		t.Errorf("registers at %v", s.To)
	}
	hear(boss, b.epoch)
	refuse[Send](b)
	b.view(boss, self, other)
	if s := want[Send](b); s.To != boss {
		t.Errorf("registers at %v in the next view", s.To)
	}
}

// That we were refused is our coordinator's business until another registers us.
func TestOurCoordinatorHearsThatWeAreRefused(t *testing.T) {
	b := newBench(t, &Floors{})
	b.hear(&protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role"}})
	if s := want[Standing](b); !s.Refused {
		t.Errorf("told %+v", s)
	}
	b.hear(&protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role"}})
	refuse[Standing](b)
	// A census asks everybody, and says nothing.
	b.hear(&protocol.CensusRequest{Head: b.head()})
	refuse[Standing](b)
	b.view(self, other)
	refuse[Standing](b)
	b.step(Received{From: self, Msg: &protocol.RegisterAck{Head: b.head()}})
	if s := want[Standing](b); s.Refused {
		t.Errorf("told %+v", s)
	}
}

// Where no candidate runs the type, that is why nobody registers us.
func TestATypeThatNobodyRuns(t *testing.T) {
	for _, missing := range []bool{true, false} {
		b := newBench(t, &Floors{})
		for _, n := range []view.NodeID{boss, self, other} {
			b.step(Received{From: n, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: missing || n != self}})
		}
		said := slices.ContainsFunc(b.trace, func(e TraceEvent) bool { return e.Kind == TraceRefused })
		if said != missing {
			t.Errorf("all missing: %v, said %v", missing, b.trace)
		}
	}
}
