package coordinator

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// A view that is known already takes nothing back that was learned in it.
func TestAViewIsTakenInOnce(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 8, 9, 1)
	b.declined(8)
	b.epoch--
	b.view(8, 9, 1).declined(9)
	one[Read](b)
}

// Before there is any view nobody is in office, whatever is known of terms.
func TestNothingHappensBeforeThereIsAView(t *testing.T) {
	b := &bench{t: t, c: New(Config{Self: 1, Type: "counter"}), now: 1, epoch: gossip.FirstEpoch(3)}
	b.step(Standing{Term: 5}).step(LeaseChanged{Valid: true}).step(Tick{})
	if b.c.Term() != 0 || len(b.did) > 0 {
		t.Errorf("term %v, did %+v", b.c.Term(), b.did)
	}
	b.view(1, 2)
	one[Read](b)
}

// The messages held for the view are handled with it, once.
func TestWhatWaitedForTheViewIsTakenInOnce(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	h := b.head()
	h.View++
	b.receive(2, &protocol.Register{Head: h, Hosts: true}).none(count[*protocol.RegisterAck])
	b.view(1, 2)
	one[*protocol.RegisterAck](b)
	b.view(1, 2).none(count[*protocol.RegisterAck])
}

// The messages held for a view are bounded; those beyond the bound are retransmitted.
func TestWhatWaitsForTheViewIsBounded(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	h := b.head()
	h.View++
	for range heldMax + 1 {
		b.receive(2, &protocol.Seen{Head: h})
	}
	if len(b.c.held) != heldMax {
		t.Errorf("holds %d messages, want %d", len(b.c.held), heldMax)
	}
}

// A promise that was given before the type ran here says that it did not, to all who ask
// in that view: they look for a coordinator by it, so it must stay the same.
func TestAnEarlierPromiseIsRepeatedAsItWas(t *testing.T) {
	b := newBench(t, Config{Shards: 4, DeclinedIn: gossip.FirstEpoch(3) + 1}, 1, 2)
	for range 2 {
		b.receive(2, &protocol.Register{Head: b.head(), Hosts: true})
		if m := one[*protocol.Declined](b); !m.Missing || m.Unbound || m.View != b.epoch {
			t.Errorf("declines with %+v", m)
		}
		// Our own region has heard something else of us.
		b.declined(1)
	}
}

// Of two declines of one candidate in a view the first counts: a node does not change its
// decline within a view, so the second concerns something else.
func TestTheFirstWordOfACandidateCounts(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Reluctant: true}, 8, 1)
	b.step(Standing{View: b.epoch - 1, Declined: []protocol.Decliner{{Node: 8}}}).none(count[Read])
	b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 8}}}).none(count[Read])
	b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 8, Missing: true}}}).none(count[Read])
}

// No office under a term below one that was held elsewhere, or twice under one: tokens
// name one allocation each.
func TestATermIsHeldOnce(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil).ask(2, 1)
	// The fence is our own: somebody has held office in our name.
	b.step(WriteDone{ID: one[Write](b).ID, Result: Fenced, Higher: b.epoch})
	if b.none(count[Read]); b.c.Term() != 0 {
		t.Errorf("in office in term %v again", b.c.Term())
	}
	b.view(1, 2).settle(nil, nil).ask(2, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: Fenced, Higher: b.epoch + 3})
	b.view(1, 2).none(count[Read])
	b.view(1, 2).none(count[Read])
	b.view(1, 2)
	one[Read](b)
}

// An office that has lasted over several views ends with the term of one of them, and
// another begins with that of the present view: nobody else holds it.
func TestAnOvertakenOfficeBeginsAnewInALaterView(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	b.view(1, 2).view(1, 2).ask(2, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: Fenced, Higher: b.epoch - 1})
	if one[Read](b); b.c.Term() != b.epoch {
		t.Errorf("in office in term %v, the view is %v", b.c.Term(), b.epoch)
	}
}

// A region that obeys a later coordinator ends the term of this one by saying so.
func TestARefusalEndsTheTerm(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	h := b.head()
	b.receive(2, &protocol.Refused{Head: h})
	if b.c.Term() == 0 {
		t.Error("out of office by its own term")
	}
	was := b.c.Term()
	b.view(1, 2)
	h = b.head()
	h.Term = b.epoch
	if b.receive(2, &protocol.Refused{Head: h}); b.c.Term() == was {
		t.Error("in office although another is obeyed")
	}
}

// A region that has registered under this term knows all that was published; one that
// begins, or comes from another term, is told everything.
func TestWhoRegistersIsToldWhatItMayNotKnow(t *testing.T) {
	b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil).ask(1, 0, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	for _, told := range []bool{false, true} {
		h := b.head()
		if told {
			h.Term = 0
		}
		b.receive(2, &protocol.Register{Head: h, Hosts: true})
		if one[*protocol.RegisterAck](b); count[*protocol.Homes](b) > 0 != told {
			t.Errorf("told: %v, want %v", !told, told)
		}
	}
}

// An answer to an order is a sign of life, even if the probe was lost.
func TestAnAnswerIsASignOfLife(t *testing.T) {
	for name, answer := range map[string]func(b *bench) protocol.Message{
		"begun":  func(b *bench) protocol.Message { return &protocol.BeginAck{Head: b.head()} },
		"hosted": func(b *bench) protocol.Message { return &protocol.ShardsHosted{Head: b.head()} },
		"census": func(b *bench) protocol.Message { return &protocol.CensusReport{Head: b.head(), Hosts: true} },
		"seen":   func(b *bench) protocol.Message { return &protocol.Seen{Head: b.head()} },
	} {
		b, _, _ := handedOff(t)
		for range 3 {
			b.now = b.c.Deadline()
			b.step(Tick{})
		}
		if !b.c.members.isSilent(2) {
			t.Fatalf("%s: not silent after three questions", name)
		}
		if b.receive(2, answer(b)); b.c.members.isSilent(2) {
			t.Errorf("%s: silent although it has answered", name)
		}
	}
}

// Those to whom the predecessor wrote are the members of the last view before this term:
// how many of them have left in silence tells whether its records may be lost.
func TestThePredecessorsVotersAreCountedOnce(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 9, 1, 2)
	b.view(1, 2).view(1)
	if b.c.census.voters != 3 || !slices.Equal(b.c.census.unheard, []gossip.NodeID{9, 1, 2}) {
		t.Errorf("%d voters, unheard %v", b.c.census.voters, b.c.census.unheard)
	}
}

// TestANewMemberIsSentAllHomes checks that the first request of a member for one home brings it all that are served, and
// later requests those that they name.
func TestANewMemberIsSentAllHomes(t *testing.T) {
	b := newBench(t, Config{Shards: 3}, 1, 2).settle(nil, nil).ask(1, 0, 1, 2)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	b.view(1, 2, 3)
	for _, want := range []int{3, 1} {
		if h := one[*protocol.Homes](b.ask(3, 1)); len(h.Homes) != want {
			t.Errorf("%d homes are sent, want %d", len(h.Homes), want)
		}
	}
}

// TestNoViewIsNoNews checks that an event without a view changes nothing, be there a view or not.
func TestNoViewIsNoNews(t *testing.T) {
	b := &bench{t: t, c: New(Config{Self: 1, Type: "counter"}), now: 1, epoch: gossip.FirstEpoch(3)}
	b.step(ViewChanged{}).view(1, 2)
	one[Read](b)
	if b.step(ViewChanged{}); len(b.did) > 0 || b.c.Term() != b.epoch {
		t.Errorf("term %v, did %+v", b.c.Term(), b.did)
	}
}

// TestANodeDoesNotDeclineToItself checks that a node which is elected although it has declined, and cannot take office in
// this view, is sent no decline of its own.
func TestANodeDoesNotDeclineToItself(t *testing.T) {
	b := newBench(t, Config{Shards: 1, Reluctant: true}, 1).settle(nil, nil).ask(1, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: Fenced, Higher: b.epoch + 2})
	if b.c.Term() != 0 {
		t.Fatal("still in office")
	}
	b.step(Standing{View: b.epoch}).none(count[*protocol.Declined])
}

// TestWhoIsToldThatACoordinatorStepsBack checks that only members which have registered are sent its decline.
func TestWhoIsToldThatACoordinatorStepsBack(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Reluctant: true}, 8, 1, 2)
	b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 8, Missing: true}, {Node: 2}}}).settle(nil, nil)
	b.view(8, 1, 2).register(2, 9, 0)
	b.declined(8, 2)
	sends := find[Send](b)
	if b.c.Term() != 0 || len(sends) != 1 || sends[0].To != 8 {
		t.Errorf("term %v, sent %+v, want one decline to 8", b.c.Term(), sends)
	}
}
