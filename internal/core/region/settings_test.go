package region

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// A refused region traces the reason once, is not registered, and keeps asking
// until it is.
func TestRefusedRegionsSayWhyOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	refusal := &protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role", Here: `"a"`, There: `"b"`}}
	b.receive(&protocol.RegisterAck{Head: b.head()})
	said := func() int {
		n := 0
		for _, e := range b.trace {
			if e.Kind == TraceRefused && e.Detail == `role is "a" here, "b" there` {
				n++
			}
		}
		return n
	}
	if b.receive(refusal); said() != 1 || b.c.Registered() {
		t.Errorf("said %d times, registered %v", said(), b.c.Registered())
	}
	if b.receive(refusal); said() > 0 {
		t.Error("said again")
	}
	b.now = b.c.Deadline()
	b.step(Tick{})
	want[*protocol.Register](b)
	if b.receive(&protocol.RegisterAck{Head: b.head()}); !b.c.Registered() {
		t.Error("not registered in the end")
	}
}

// A node that does not run the type says so; one that does sends its settings.
func TestRegistersWithItsSettings(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		b := newBench(t, &Floors{})
		b.c = New(Config{
			Self: self, Type: "counter", Role: "back", Shards: 8, Capacity: 3, ShardOf: 5, Keeps: "states", Foreign: foreign,
		}, &Floors{})
		v := &gossip.View{Epoch: b.epoch, Members: []gossip.Member{{Node: gossip.Node{ID: boss, Roles: []string{"back"}}, Status: gossip.Up}}}
		b.step(ViewChanged{View: v})
		reported := protocol.Settings{Role: "back"}
		if !foreign {
			reported = protocol.Settings{Role: "back", Shards: 8, Capacity: 3, ShardOf: 5, Keeps: "states"}
		}
		if got := want[*protocol.Register](b).Settings; got != reported {
			t.Errorf("foreign %v: %+v", foreign, got)
		}
	}
}

// A candidate that declines in our view is left for the next one, and our own
// coordinator receives it; in the next view all is asked anew.
func TestDeclinedCandidatesAreLeft(t *testing.T) {
	b := newBench(t, &Floors{})
	receive := func(from gossip.NodeID, epoch gossip.Epoch) {
		b.step(Received{From: from, Msg: &protocol.Declined{Head: protocol.Head{View: epoch}}})
	}
	for _, epoch := range []gossip.Epoch{b.epoch - 1, b.epoch + 1} {
		receive(boss, epoch)
		refuse[*protocol.Register](b)
	}
	receive(other, b.epoch)
	refuse[*protocol.Register](b)
	receive(boss, b.epoch)
	if s := want[Standing](b); s.View != b.epoch || s.Refused || !slices.Equal(s.Declined, []protocol.Decliner{{Node: boss}}) {
		t.Errorf("reported %+v", s)
	}
	if s := want[Send](b); s.To != self || b.c.Coordinator() != self {
		t.Errorf("registers at %v, coordinator %v", s.To, b.c.Coordinator())
	}
	receive(self, b.epoch)
	if s := want[Send](b); s.To != other {
		t.Errorf("registers at %v", s.To)
	}
	// All have declined: the first it is, and goes on being.
	receive(other, b.epoch)
	if s := want[Send](b); s.To != boss {
		t.Errorf("registers at %v", s.To)
	}
	receive(boss, b.epoch)
	refuse[Send](b)
	b.view(boss, self, other)
	if s := want[Send](b); s.To != boss {
		t.Errorf("registers at %v in the next view", s.To)
	}
}

// An unbound decline answers a request that this node sent before it ran the type, so the
// node may not take office for it. A node that is no candidate turns to the next one.
func TestWhoDeclinesUnboundIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		left bool
	}{
		{"hosts", Config{Hosts: true}, false},
		{"only sends", Config{}, false},
		{"does not run the type", Config{Foreign: true}, true},
		{"has not the role", Config{Role: "back"}, true},
	} {
		b := newBench(t, &Floors{})
		c.cfg.Self, c.cfg.Type, c.cfg.Shards = self, "counter", 8
		b.c = New(c.cfg, &Floors{})
		v := &gossip.View{Epoch: b.epoch}
		for _, id := range []gossip.NodeID{boss, other, self} {
			m := gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up}
			if id != self {
				m.Roles = []string{"back"}
			}
			v.Members = append(v.Members, m)
		}
		b.step(ViewChanged{View: v})
		b.step(Received{From: boss, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true, Unbound: true}})
		if reported := slices.ContainsFunc(b.did, func(e Effect) bool { _, is := e.(Standing); return is }); reported != c.left || (b.c.Coordinator() == other) != c.left {
			t.Errorf("%s: coordinator %v, reported %v", c.name, b.c.Coordinator(), reported)
		}
		// It may run the type by now, and have taken office.
		b.now = b.c.Deadline()
		if b.step(Tick{}); b.c.Coordinator() != boss || b.sendsTo(boss) != 1 {
			t.Errorf("%s: asks %v in the end", c.name, b.c.Coordinator())
		}
		b.step(Received{From: boss, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true}})
		if b.c.Coordinator() != other {
			t.Errorf("%s: coordinator %v in the end", c.name, b.c.Coordinator())
		}
	}
}

// A candidate that declined without a promise may take the office over in the same view
// from the coordinator that has registered us. We keep asking it, our only source.
func TestAnOfficeThatIsTakenLateIsFound(t *testing.T) {
	b := newBench(t, &Floors{})
	b.c = New(Config{Self: self, Type: "counter", Role: "back", Shards: 8}, &Floors{})
	v := &gossip.View{Epoch: b.epoch}
	for _, id := range []gossip.NodeID{boss, other} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id, Roles: []string{"back"}}, Status: gossip.Up})
	}
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: self}, Status: gossip.Up})
	b.step(ViewChanged{View: v})
	b.step(Received{From: boss, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true, Unbound: true}})
	b.step(Received{From: other, Msg: &protocol.RegisterAck{Head: b.headOf(b.epoch)}})
	for range 3 {
		if b.c.Coordinator() != other || !b.c.Registered() {
			t.Fatalf("registered %v at %v", b.c.Registered(), b.c.Coordinator())
		}
		b.now = b.c.Deadline()
		if b.step(Tick{}); b.sendsTo(boss) != 1 || b.sendsTo(other) != 0 {
			t.Fatalf("sends %d and %d", b.sendsTo(boss), b.sendsTo(other))
		}
		b.step(Received{From: boss, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true, Unbound: true}})
	}
	b.now = b.c.Deadline()
	b.step(Tick{})
	b.step(Received{From: boss, Msg: &protocol.RegisterAck{Head: b.headOf(b.epoch)}})
	if b.c.Coordinator() != boss || !b.c.Registered() {
		t.Errorf("registered %v at %v in the end", b.c.Registered(), b.c.Coordinator())
	}
}

// Those that declined in one view are asked in the next as well, but the coordinator
// that has registered us is ours meanwhile; until one of them turns out to have taken office.
func TestTheCoordinatorStaysWhileSeniorsAreAskedAgain(t *testing.T) {
	setUp := func() *bench {
		b := newBench(t, &Floors{})
		b.receive(&protocol.Declined{Head: protocol.Head{View: b.epoch}})
		b.step(Received{From: self, Msg: &protocol.RegisterAck{Head: b.headOf(b.epoch)}})
		if b.c.Coordinator() != self || !b.c.Registered() {
			t.Fatalf("coordinator %v, registered %v", b.c.Coordinator(), b.c.Registered())
		}
		b.view(boss, self, other)
		if b.c.Coordinator() != self || b.sendsTo(boss) != 1 || b.sendsTo(self) != 1 {
			t.Fatalf("in the next view: coordinator %v, %d sent to the senior, %d to it", b.c.Coordinator(), b.sendsTo(boss), b.sendsTo(self))
		}
		return b
	}
	b := setUp()
	b.step(Received{From: self, Msg: &protocol.RegisterAck{Head: b.headOf(b.epoch - 1)}})
	b.now = b.c.Deadline()
	if b.step(Tick{}); b.sendsTo(boss) != 1 || b.sendsTo(self) != 0 {
		t.Errorf("%d sent to the senior, %d to the coordinator", b.sendsTo(boss), b.sendsTo(self))
	}
	b.receive(&protocol.Declined{Head: protocol.Head{View: b.epoch}})
	if s := want[Standing](b); s.View != b.epoch || !slices.Equal(s.Declined, []protocol.Decliner{{Node: boss}}) {
		t.Errorf("reported %+v", s)
	}
	refuse[Send](b)
	if b.c.Coordinator() != self || !b.c.Registered() || b.c.Deadline() != clock.Never {
		t.Errorf("coordinator %v, registered %v, waits until %v", b.c.Coordinator(), b.c.Registered(), b.c.Deadline())
	}
	for name, m := range map[string]protocol.Message{
		"ack":     &protocol.RegisterAck{Head: b.headOf(b.epoch)},
		"census":  &protocol.CensusRequest{Head: b.headOf(b.epoch)},
		"refusal": &protocol.RegisterRefused{Head: b.headOf(b.epoch), Conflict: protocol.Conflict{Setting: "role"}},
	} {
		b := setUp()
		b.step(Received{From: boss, Msg: m})
		if want[Standing](b); b.c.Coordinator() != boss {
			t.Errorf("after the senior's %s the coordinator is %v", name, b.c.Coordinator())
		}
	}
	// A coordinator that has gone is not waited for.
	b = setUp()
	if b.view(boss, other); b.c.Coordinator() != boss {
		t.Errorf("coordinator %v", b.c.Coordinator())
	}
}

// What a coordinator said in an earlier view is no answer in this one: it may have left
// office with that view, and what says so may be lost.
func TestAnAckOfAnEarlierViewIsNoAnswer(t *testing.T) {
	b := newBench(t, &Floors{})
	late := b.head()
	b.view(boss, self, other)
	if b.receive(&protocol.RegisterAck{Head: late}); b.c.Registered() {
		t.Error("registered by it")
	}
	b.now = b.c.Deadline()
	if b.step(Tick{}); b.sendsTo(boss) != 1 {
		t.Errorf("does not ask again: %s", b.show())
	}
	if b.receive(&protocol.RegisterAck{Head: b.headOf(late.Term)}); !b.c.Registered() {
		t.Error("not registered by an answer in this view")
	}
}

// When all have declined they are asked again in turn, at the pace of retries: one that
// ran the type too late to answer otherwise may be in office by now.
func TestWhoeverHasDeclinedIsAskedAgain(t *testing.T) {
	b := newBench(t, &Floors{})
	decline := func(n gossip.NodeID) {
		b.step(Received{From: n, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true}})
	}
	for range 3 {
		for _, n := range []gossip.NodeID{boss, self, other} {
			if b.c.Coordinator() != n {
				t.Fatalf("asks %v, want %v", b.c.Coordinator(), n)
			}
			decline(n)
		}
		b.now = b.c.Deadline()
		if b.step(Tick{}); b.sendsTo(boss) != 1 {
			t.Fatalf("does %+v", b.did)
		}
	}
	decline(boss)
	b.step(Received{From: self, Msg: &protocol.RegisterAck{Head: b.headOf(b.epoch)}})
	if !b.c.Registered() || b.c.Deadline() != clock.Never {
		t.Errorf("registered %v, waits until %v", b.c.Registered(), b.c.Deadline())
	}
}

// That we were refused is our coordinator's business until another registers us.
func TestOurCoordinatorHearsThatWeAreRefused(t *testing.T) {
	b := newBench(t, &Floors{})
	b.receive(&protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role"}})
	if s := want[Standing](b); !s.Refused {
		t.Errorf("reported %+v", s)
	}
	b.receive(&protocol.RegisterRefused{Conflict: protocol.Conflict{Setting: "role"}})
	refuse[Standing](b)
	// A census asks everybody, and says nothing.
	b.receive(&protocol.CensusRequest{Head: b.head()})
	refuse[Standing](b)
	b.view(self, other)
	refuse[Standing](b)
	b.step(Received{From: self, Msg: &protocol.RegisterAck{Head: b.head()}})
	if s := want[Standing](b); s.Refused {
		t.Errorf("reported %+v", s)
	}
}

// If no candidate runs the type, the core reports this as the cause of not being registered.
func TestNoCandidateRunsTheType(t *testing.T) {
	for _, missing := range []bool{true, false} {
		b := newBench(t, &Floors{})
		for _, n := range []gossip.NodeID{boss, self, other} {
			b.step(Received{From: n, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: missing || n != self}})
		}
		said := slices.ContainsFunc(b.trace, func(e TraceEvent) bool { return e.Kind == TraceRefused })
		if said != missing {
			t.Errorf("all missing: %v, said %v", missing, b.trace)
		}
	}
}
