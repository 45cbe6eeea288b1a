package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func (b *bench) register(from gossip.NodeID, shards uint32, capacity uint32) *bench {
	b.t.Helper()
	return b.receive(from, &protocol.Register{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: shards, Capacity: capacity},
	})
}

// A region with another number of shards is told so, gets nothing, and hears
// nothing; with the right one it is taken in.
func TestOtherSettingsAreRefused(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1).settle(nil, nil)
	b.view(1, 2)
	b.register(2, 8, 0).none(count[*protocol.RegisterAck])
	m := one[*protocol.RegisterRefused](b)
	if got := m.Conflict.String(); got != "number of shards is 8 here, 4 there" {
		t.Errorf("the region is told: %s", got)
	}
	if !b.traced(TraceRefused) {
		t.Error("no trace of it")
	}
	b.receive(2, &protocol.GetHome{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8}, Shards: all(4),
	}).none(count[Write])
	b.ask(1, all(4)...)
	for _, r := range one[Write](b).Records {
		if r.Home != 1 {
			t.Errorf("shard %v goes to %v, which was refused", r.Shard, r.Home)
		}
	}
	b.register(2, 4, 0)
	one[*protocol.RegisterAck](b)
}

// A coordinator that finds shards cut by other settings places nothing: an entity
// might live in one of theirs.
func TestNothingIsPlacedBesideForeignShards(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 4}})
	b.receive(2, &protocol.CensusReport{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8},
		Claims: []protocol.Claim{{Shard: 6, Token: protocol.Token{Term: 1, Seq: 1}, State: protocol.ClaimHosted}},
	})
	one[*protocol.RegisterRefused](b)
	b.ask(1, 2).none(count[Write])
	// Its going ends it.
	b.view(1)
	one[Write](b)
}

// What a region can carry reaches the strategy.
func TestCapacityReachesTheStrategy(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil)
	b.register(2, 4, 250)
	st := b.c.table.chooser.state()
	if st.Regions[0].Capacity != 1 || st.Regions[1].Capacity != 250 {
		t.Errorf("capacities %d and %d", st.Regions[0].Capacity, st.Regions[1].Capacity)
	}
}

// A8: the application's word moves shards at once; to a node that is not there yet
// it moves them when that has come.
func TestExternalPlacesAreFollowed(t *testing.T) {
	b := newBench(t, Config{Shards: 2, Strategy: strategy.External{}, Rebalance: time.Second}, 1, 2).settle(nil, nil)
	b.ask(1, 0, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	b.step(Wanted{Names: map[protocol.ShardID]string{0: gossip.NodeID(2).String(), 1: gossip.NodeID(3).String()}})
	for _, m := range find[*protocol.Begin](b) {
		if len(m.Shards) != 1 || m.Shards[0].Shard != 0 {
			t.Errorf("moves %v, want shard 0 alone", m.Shards)
		}
	}
	if count[*protocol.Begin](b) != 2 {
		t.Fatalf("begins %+v", b.did)
	}
	b.view(1, 2, 3)
	b.register(3, 2, 0)
	b.now = b.now.Add(2 * time.Second)
	b.step(Tick{})
	if id := protocol.ShardID(1); b.c.table.shards[id].phase != closing || b.c.table.shards[id].moveOf().target != 3 {
		t.Errorf("shard 1 in phase %v, to %v", b.c.table.shards[id].phase, b.c.table.shards[id].moveOf().target)
	}
}

// declined is what the region core says when these have declined in the present view.
func (b *bench) declined(ids ...gossip.NodeID) *bench {
	b.t.Helper()
	var declined []protocol.Decliner
	for _, n := range ids {
		declined = append(declined, protocol.Decliner{Node: n})
	}
	return b.step(Standing{View: b.epoch, Declined: declined})
}

// A node that the last coordinator refused does not take office: it says so to those
// who ask, and the next one takes it. When that one leaves, it declines again.
func TestTheRefusedDecline(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 9, 1, 2)
	b.step(Standing{Refused: true, View: b.epoch})
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true}).none(count[*protocol.Declined])
	for range 2 {
		b.view(1, 2).none(count[Read])
		b.receive(2, &protocol.Register{Head: b.head(), Hosts: true})
		if m := one[*protocol.Declined](b); m.View != b.epoch || m.Missing {
			t.Errorf("declines with %+v", m)
		}
		// What is learned in the middle of a view changes nothing in it.
		b.step(Standing{Refused: false, View: b.epoch}).none(count[Read])
		b.receive(2, &protocol.Register{Head: b.head(), Hosts: true})
		one[*protocol.Declined](b)
		b.step(Standing{Refused: true, View: b.epoch})
	}
	b.step(Standing{View: b.epoch})
	b.view(1, 2)
	one[Read](b)
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true}).none(count[*protocol.Declined])
}

// The next one takes office when all before it have declined in the very view.
func TestOfficeGoesToTheNextCandidate(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 8, 9, 1, 2)
	b.declined(9).none(count[Read])
	b.step(Standing{View: b.epoch - 1, Declined: []protocol.Decliner{{Node: 8}}}).none(count[Read])
	b.declined(8)
	if one[Read](b); b.c.Term() != b.epoch {
		t.Errorf("office in term %v, the view is %v", b.c.Term(), b.epoch)
	}
}

// An office goes on over the views in which those before it have declined, and may
// decline again: without another census, and without a pause of allocation. It ends when
// one of them has taken office, or somebody else may, or the view is of another
// generation.
func TestAnOfficeGoesOnWhileSeniorsDecline(t *testing.T) {
	setUp := func() (*bench, gossip.Epoch) {
		b := newBench(t, Config{Shards: 4}, 8, 9, 1, 2)
		b.declined(8, 9).settle(nil, nil)
		term := b.c.Term()
		b.view(8, 9, 1, 2).none(count[Read]).none(count[*protocol.CensusRequest])
		if term == 0 || b.c.Term() != term {
			t.Fatalf("term %v, then %v", term, b.c.Term())
		}
		return b, term
	}
	b, term := setUp()
	b.ask(2, 3)
	one[Write](b)
	b.declined(9).none(count[Read])
	b.declined(8).none(count[Read])
	if b.c.Term() != term {
		t.Errorf("term %v, then %v", term, b.c.Term())
	}
	// Twice in a row, the second before the answers to the first.
	if b.view(8, 9, 1, 2).view(8, 9, 1); b.c.Term() != term {
		t.Errorf("term %v, then %v", term, b.c.Term())
	}
	// Nobody has declined that is before us now.
	if b.view(7, 8, 9, 1); b.c.Term() != 0 {
		t.Error("in office beside one that was never asked")
	}
	b, _ = setUp()
	if b.step(Standing{View: b.epoch, Term: b.epoch}); b.c.Term() != 0 {
		t.Error("in office under a term that was overtaken")
	}
	b, term = setUp()
	b.epoch = gossip.FirstEpoch(term.Generation() + 1)
	if b.view(8, 9, 1); b.c.Term() != 0 {
		t.Error("in office of the former generation")
	}
	b.declined(8, 9)
	one[Read](b)
}

// An office may go on in the beginning of a view in which its holder declines too, since
// the senior could not take it before. If it turns out that it can now, the holder steps
// back: it says so to all that have registered meanwhile, and to whoever asks it later.
func TestWhoStepsBackSaysSo(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Reluctant: true}, 8, 1, 2)
	b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 8, Missing: true}, {Node: 2}}}).settle(nil, nil)
	term := b.c.Term()
	b.view(8, 1, 2)
	for _, n := range []gossip.NodeID{8, 2} {
		b.receive(n, &protocol.Register{Head: b.head(), Hosts: true})
		one[*protocol.RegisterAck](b)
	}
	if term == 0 || b.c.Term() != term {
		t.Fatalf("term %v, then %v", term, b.c.Term())
	}
	b.declined(8, 2)
	var told []gossip.NodeID
	for _, s := range find[Send](b) {
		if d, is := s.Msg.(*protocol.Declined); is && d.View == b.epoch && !d.Missing {
			told = append(told, s.To)
		}
	}
	if b.c.Term() != 0 || !slices.Equal(told, []gossip.NodeID{8, 2}) {
		t.Errorf("term %v, told %v", b.c.Term(), told)
	}
	for _, m := range []protocol.Message{
		&protocol.GetHome{Head: b.head(), Shards: []protocol.ShardID{1}}, &protocol.Drain{Head: b.head()}, &protocol.Stopped{Head: b.head()},
	} {
		b.receive(2, m)
		one[*protocol.Declined](b)
	}
	b.receive(2, &protocol.BeginAck{Head: b.head()}).none(count[*protocol.Declined])
}

// TestADeclineIsRepeatedToTheElected checks that a node out of office repeats its decline to the node
// that takes office once all candidates have declined: the message of the one that stepped back may be
// lost (seed 4216255).
func TestADeclineIsRepeatedToTheElected(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Reluctant: true}, 8, 2, 1)
	for range 2 {
		missing := protocol.Decliner{Node: 8, Missing: true}
		b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{missing}}).none(count[*protocol.Declined])
		b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{missing, {Node: 2}}})
		if d := one[*protocol.Declined](b); d.View != b.epoch || d.Missing || find[Send](b)[0].To != 2 {
			t.Errorf("declines with %+v", d)
		}
		b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 2}}})
		one[*protocol.Declined](b)
		b.view(8, 2, 1)
	}
}

// Where all decline, those do not count that do not run the type.
func TestWhoDoesNotRunTheTypeIsNotWaitedFor(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Reluctant: true}, 8, 9, 1, 2)
	b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 8, Missing: true}, {Node: 2}}}).none(count[Read])
	b.step(Standing{View: b.epoch, Declined: []protocol.Decliner{{Node: 9, Missing: true}}})
	one[Read](b)
}

// If all decline, the first is in office after all; the others are not.
func TestIfAllDeclineTheFirstTakesOffice(t *testing.T) {
	for _, first := range []bool{true, false} {
		b := newBench(t, Config{Shards: 4}, 9, 1)
		b.step(Standing{Refused: true, View: b.epoch})
		if first {
			b.view(1, 2)
		} else {
			b.view(2, 1)
		}
		if b.declined(2); count[Read](b) == 1 != first {
			t.Errorf("first: %v, did %+v", first, b.did)
		}
	}
	// Alone, there is nobody to ask.
	b := newBench(t, Config{Shards: 4}, 9, 1)
	b.step(Standing{Refused: true, View: b.epoch})
	b.view(1)
	one[Read](b)
}

// A node that declined before it ran the type keeps its word in that view.
func TestAnEarlierPromiseIsKept(t *testing.T) {
	at := gossip.FirstEpoch(3) + 1
	b := newBench(t, Config{Shards: 4, DeclinedIn: at}, 1, 2).none(count[Read])
	if b.epoch != at {
		t.Fatalf("epoch %v", b.epoch)
	}
	b.view(1, 2)
	one[Read](b)
}
