package region

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

const fourth gossip.NodeID = 4

func (b *bench) declines(n gossip.NodeID) *bench {
	b.t.Helper()
	return b.step(Received{From: n, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true}})
}

func (b *bench) declinesUnbound(n gossip.NodeID) *bench {
	b.t.Helper()
	return b.step(Received{From: n, Msg: &protocol.Declined{Head: protocol.Head{View: b.epoch}, Missing: true, Unbound: true}})
}

// acks has a coordinator of the present view answer a Register.
func (b *bench) acks(n gossip.NodeID) *bench {
	b.t.Helper()
	return b.step(Received{From: n, Msg: &protocol.RegisterAck{Head: b.headOf(b.epoch)}})
}

func (b *bench) atDeadline() *bench {
	b.t.Helper()
	b.now = b.c.Deadline()
	return b.step(Tick{})
}

// A node of another role is no candidate: it may register at any, and coordinate never.
func newOutsider(t *testing.T) *bench {
	b := newBench(t, &Floors{})
	b.c = New(Config{Self: self, Type: "counter", Role: "back", Shards: 8}, &Floors{})
	v := &gossip.View{Epoch: b.epoch, Members: []gossip.Member{{Node: gossip.Node{ID: self}, Status: gossip.Up}}}
	for _, id := range []gossip.NodeID{boss, other, fourth} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id, Roles: []string{"back"}}, Status: gossip.Up})
	}
	return b.step(ViewChanged{View: v})
}

// A view that the core has already, or an older one, causes no new request: the declines in
// it stand.
func TestAViewIsTakenInOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	b.declines(boss)
	for range 2 {
		b.epoch--
		b.view(boss, self, other)
		refuse[*protocol.Register](b)
		if b.c.Coordinator() != self {
			t.Fatalf("coordinator %v", b.c.Coordinator())
		}
		b.epoch--
	}
}

// The coordinator of a new view is asked immediately, and again at the pace of a first question, however long
// the last one went without an answer.
func TestANewViewIsAskedAtTheFirstPace(t *testing.T) {
	b := newBench(t, &Floors{})
	for range 5 {
		// All decline again and again, and so are asked less and less often.
		b.declines(boss).declines(self).declines(other)
		b.atDeadline()
	}
	b.view(boss, self, other)
	for range 2 {
		// Nor does it matter how long one that is in office still was asked in vain.
		b.acks(boss)
		b.view(boss, self, other)
		for range 5 {
			b.atDeadline()
		}
		b.view(boss, self, other)
	}
	for _, n := range []gossip.NodeID{boss, self, other} {
		if b.sendsTo(n) != 1 || b.c.Deadline() != b.now.Add(100*time.Millisecond) {
			t.Fatalf("%d sent to %v, and again in %v", b.sendsTo(n), n, b.c.Deadline().Sub(b.now))
		}
		b.declines(n)
	}
}

// Promises of one view are no part of the next: a node that declined without one is
// not asked for ever by who has a coordinator now.
func TestWhatIsUnboundEndsWithItsView(t *testing.T) {
	b := newOutsider(t)
	b.declinesUnbound(boss)
	b.view(other, self)
	v := *b.c.view
	v.Epoch, b.epoch = b.epoch+1, b.epoch+1
	v.Members = []gossip.Member{{Node: gossip.Node{ID: other, Roles: []string{"back"}}, Status: gossip.Up}, {Node: gossip.Node{ID: self}, Status: gossip.Up}}
	b.step(ViewChanged{View: &v})
	if b.acks(other); !b.c.Registered() || b.c.Deadline() != clock.Never {
		t.Errorf("registered %v, asks again at %v", b.c.Registered(), b.c.Deadline())
	}
}

// One that promised nothing is asked again, whoever promised something after it.
func TestAPromiseOfOneIsNoneOfAnother(t *testing.T) {
	b := newOutsider(t)
	b.declinesUnbound(boss).declines(other).acks(fourth)
	if b.atDeadline(); b.sendsTo(boss) != 1 || !b.c.Registered() {
		t.Errorf("registered %v, does %s", b.c.Registered(), b.show())
	}
	// Nor does it become one by the next view or the next round.
	if b.declines(boss).declines(other); b.c.Deadline() != clock.Never {
		t.Errorf("asks again at %v after all have promised", b.c.Deadline())
	}
}

// A candidate learns from the census of a coordinator that takes office, whether it has
// promised or not: once registered, it sends no request.
func TestACandidateWaitsForTheCensus(t *testing.T) {
	b := newBench(t, &Floors{})
	b.c = New(Config{Self: self, Type: "counter", Shards: 8, Foreign: true}, &Floors{})
	b.view(boss, other, self).declinesUnbound(boss).acks(other)
	if b.c.Coordinator() != other || !b.c.Registered() || b.c.Deadline() != clock.Never {
		t.Errorf("registered %v at %v, asks again at %v", b.c.Registered(), b.c.Coordinator(), b.c.Deadline())
	}
}

// In a new generation offices begin anew: what those that declined in the one before
// would do again says nothing of who coordinates.
func TestANewGenerationPresumesNothing(t *testing.T) {
	b := newBench(t, &Floors{})
	b.declines(boss).acks(self)
	b.epoch = gossip.FirstEpoch(b.epoch.Generation() + 1)
	if b.view(boss, self, other); b.c.Coordinator() != boss || b.c.Registered() || b.sendsTo(self) != 0 {
		t.Errorf("coordinator %v, registered %v, does %s", b.c.Coordinator(), b.c.Registered(), b.show())
	}
	if m := want[*protocol.Register](b); m.Term != 0 {
		t.Errorf("claims to have what was published under %v", m.Term)
	}
}

// Only a coordinator that has registered us may be presumed to stay, in whatever generation.
func TestOnlyACoordinatorThatKnowsUsIsPresumedToStay(t *testing.T) {
	for generation := range uint32(2) {
		b := newBench(t, &Floors{})
		b.c = New(Config{Self: self, Type: "counter", Shards: 8, Hosts: true}, &Floors{})
		b.epoch = gossip.FirstEpoch(generation)
		b.view(boss, self, other).declines(boss)
		if b.view(boss, self, other); b.c.Coordinator() != boss || b.sendsTo(self) != 0 {
			t.Errorf("generation %d: coordinator %v, does %s", generation, b.c.Coordinator(), b.show())
		}
	}
}

// Seniors that are presumed to decline are asked one after the other, as fast as they
// answer: until the last has, who is in office cannot be sure of it.
func TestSeniorsAreAskedInTurn(t *testing.T) {
	b := newBench(t, &Floors{})
	b.view(boss, fourth, self, other).declines(boss).declines(fourth).acks(self)
	b.view(boss, fourth, self, other)
	if b.declines(boss); b.sendsTo(fourth) != 1 || b.sendsTo(self) != 0 || b.c.Coordinator() != self {
		t.Errorf("coordinator %v, does %s", b.c.Coordinator(), b.show())
	}
	// Nothing that was published in the coordinator's term has come from them.
	if m := want[*protocol.Register](b); m.Term != 0 {
		t.Errorf("claims to have what %v published under %v", fourth, m.Term)
	}
	// An answer of one that was not asked says nothing of them.
	if b.acks(other); b.c.Coordinator() != self || b.sendsTo(fourth) != 0 {
		t.Errorf("coordinator %v after another's answer", b.c.Coordinator())
	}
	if b.atDeadline(); b.sendsTo(fourth) != 1 {
		t.Errorf("does %s", b.show())
	}
}

// TestACoordinatorThatDeclinesBeforeItsTurnIsAskedAgain checks that a coordinator which leaves office
// while a candidate before it is asked is asked again when it is its turn (seed 4216255).
func TestACoordinatorThatDeclinesBeforeItsTurnIsAskedAgain(t *testing.T) {
	b := newBench(t, &Floors{})
	b.view(boss, fourth, self, other).declines(boss).acks(fourth)
	b.view(boss, fourth, self, other).acks(fourth)
	if b.declines(fourth); b.c.Coordinator() != fourth || b.c.Registered() {
		t.Fatalf("coordinator %v, registered %v", b.c.Coordinator(), b.c.Registered())
	}
	b.declines(boss)
	if b.atDeadline(); b.sendsTo(fourth) != 1 {
		t.Errorf("does %s", b.show())
	}
	if b.declines(fourth); b.c.Coordinator() != self {
		t.Errorf("coordinator %v", b.c.Coordinator())
	}
}

// The next candidate is given time to answer, like the first.
func TestTheNextCandidateHasTimeToAnswer(t *testing.T) {
	b := newBench(t, &Floors{})
	for _, next := range []gossip.NodeID{self, other} {
		b.tick(0)
		b.declines(b.c.Coordinator())
		if b.c.Coordinator() != next || b.c.Deadline() != b.now.Add(100*time.Millisecond) {
			t.Errorf("asks %v, again in %v", b.c.Coordinator(), b.c.Deadline().Sub(b.now))
		}
	}
}

// Said twice, it is said once: an answer may come twice.
func TestADeclineThatComesTwiceSaysNothingNew(t *testing.T) {
	b := newBench(t, &Floors{})
	b.declines(boss).declines(self).declines(other)
	b.declines(boss)
	refuse[Standing](b)
}

// The absence of the type on all nodes is traced once, however often all are asked. It is
// traced again after another cause.
func TestTheAbsenceOfTheTypeIsTracedOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	said := 0
	round := func() {
		for _, n := range []gossip.NodeID{boss, self, other} {
			if b.declines(n); b.traced(TraceRefused) {
				said++
			}
		}
	}
	for range 3 {
		round()
		b.atDeadline()
	}
	if said != 1 {
		t.Errorf("said %d times", said)
	}
	b.view(boss, self, other)
	b.receive(&protocol.RegisterRefused{Head: b.head(), Conflict: protocol.Conflict{Setting: "role"}})
	b.view(boss, self, other)
	if round(); said != 2 {
		t.Errorf("said %d times in the end", said)
	}
	b.view(boss, self, other).acks(boss)
	b.view(boss, self, other)
	if round(); said != 3 {
		t.Errorf("said %d times after a coordinator came and went", said)
	}
}

// Our own coordinator receives a higher term, which its node obeys already.
func TestOurCoordinatorHearsOfTheTermWeObey(t *testing.T) {
	b := newBench(t, &Floors{})
	b.receive(&protocol.RegisterAck{Head: b.head()})
	b.view(boss, self, other)
	b.declines(boss)
	if s := want[Standing](b); s.Term == 0 || s.Term != b.c.floors.term {
		t.Errorf("received term %v, obeys %v", s.Term, b.c.floors.term)
	}
}

// Messages that wait for a home have it asked for in a new view immediately.
func TestANewViewIsAskedForHomesAtOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss).step(NeedHome{Shards: []protocol.ShardID{3}})
	want[*protocol.GetHome](b)
	b.view(boss, self, other)
	want[*protocol.GetHome](b)
	// And a coordinator that takes office has nothing of what was asked before.
	b.view(self, other)
	b.now++
	if b.acks(self); b.sendsTo(self) != 1 {
		t.Errorf("does %s", b.show())
	}
	want[*protocol.GetHome](b)
	// An answer under the same term counts.
	b.acks(self)
	refuse[*protocol.GetHome](b)
}

// Stops of an earlier life of the node are reported in time, but not before the
// coordinator can be found.
func TestWhatFloorsBroughtAlongIsReportedInTime(t *testing.T) {
	floors := &Floors{}
	b := newBench(t, floors)
	b.handOff(1, b.run(1))
	b.step(ShardStopped{Shards: st(1, b.c.hosts.list.entryOf(1).token)})
	b.now = b.now.Add(time.Minute)
	b.c = New(Config{Self: self, Type: "counter", Shards: 8, Hosts: true}, floors)
	b.view(boss, self, other)
	if b.c.Deadline().Before(b.now) {
		t.Errorf("wants a tick %v ago", b.now.Sub(b.c.Deadline()))
	}
	b.acks(boss)
	want[*protocol.Stopped](b)
}

// A coordinator that has registered us does so in each view anew: it may have left office
// with the last one. That we have all it has published is settled already.
func TestEachViewRegistersAnew(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss)
	term := b.epoch
	if b.view(boss, self, other); b.c.Registered() {
		t.Error("registered by what was said in another view")
	}
	for range 2 {
		if m := want[*protocol.Register](b); m.Term != term {
			t.Errorf("claims to have what was published under %v, want %v", m.Term, term)
		}
		b.atDeadline()
	}
	if b.step(Received{From: boss, Msg: &protocol.RegisterAck{Head: b.headOf(term)}}); !b.c.Registered() {
		t.Error("not registered by an answer")
	}
	// What it said before, and comes now, takes nothing back.
	late := b.headOf(term)
	late.View--
	if b.receive(&protocol.RegisterAck{Head: late}); !b.c.Registered() {
		t.Error("not registered after a late answer")
	}
}

// Status says under which term the node is registered, and only if it is.
func TestRegistrationsAreTracedWithTheirTerm(t *testing.T) {
	b := newBench(t, &Floors{})
	late := b.head()
	b.view(boss, self, other)
	if b.receive(&protocol.RegisterAck{Head: late}); b.traced(TraceRegistered) {
		t.Error("said to be registered by an answer of an earlier view")
	}
	for _, said := range []bool{true, false} {
		if b.receive(&protocol.RegisterAck{Head: b.headOf(b.epoch - 1)}); b.traced(TraceRegistered) != said {
			t.Errorf("said so: %v, want %v", !said, said)
		}
	}
	h := b.headOf(b.epoch)
	if b.receive(&protocol.RegisterAck{Head: h}); !b.traced(TraceRegistered) || b.trace[0].Token.Term != h.Term {
		t.Errorf("of a new term: %+v", b.trace)
	}
}

// Answers of a node that is not the coordinator have no effect: neither late answers of a
// former coordinator, nor those of another role's.
func TestOthersAnswersChangeNothing(t *testing.T) {
	b := newBench(t, &Floors{})
	census := &protocol.CensusRequest{Head: b.head()}
	b.acks(other).step(Received{From: other, Msg: census})
	if b.c.Registered() || b.c.Coordinator() != boss {
		t.Errorf("registered %v at %v by one that was not asked", b.c.Registered(), b.c.Coordinator())
	}
	b.acks(boss)
	b.step(Received{From: other, Msg: &protocol.RegisterRefused{Head: b.head(), Conflict: protocol.Conflict{Setting: "role"}}})
	if !b.c.Registered() || b.traced(TraceRefused) {
		t.Errorf("registered %v after another's refusal", b.c.Registered())
	}
	refuse[Standing](b)
	b.receive(&protocol.RegisterRefused{Head: b.head(), Conflict: protocol.Conflict{Setting: "role"}})
	b.acks(other)
	refuse[Standing](b)
}

// A census is an acquaintance: who takes office, and asks, need not be asked.
func TestACensusRegisters(t *testing.T) {
	b := newBench(t, &Floors{})
	if b.receive(&protocol.CensusRequest{Head: b.head()}); !b.c.Registered() || b.c.Deadline() != clock.Never {
		t.Errorf("registered %v, asks again at %v", b.c.Registered(), b.c.Deadline())
	}
}

// A refusal is said again when we were registered meanwhile.
func TestALaterRefusalIsSaidAgain(t *testing.T) {
	b := newBench(t, &Floors{})
	for range 2 {
		if b.receive(&protocol.RegisterRefused{Head: b.head(), Conflict: protocol.Conflict{Setting: "role"}}); !b.traced(TraceRefused) {
			t.Error("not said")
		}
		b.acks(boss)
	}
}

// Without a candidate, the core sends no request and waits for none.
func TestNoRequestWithoutACandidate(t *testing.T) {
	b := newOutsider(t)
	b.view(self)
	refuse[Send](b)
	if b.step(NeedHome{Shards: []protocol.ShardID{1}}); b.c.Coordinator() != 0 || b.c.Deadline() != clock.Never {
		t.Errorf("coordinator %v, waits until %v", b.c.Coordinator(), b.c.Deadline())
	}
	refuse[Send](b)
}

// A core that waits for other nodes to run the type backs off up to the limit. It asks all
// in turn if no node is in office, otherwise those that declined without a promise.
func TestWhoDeclinedIsAskedLessAndLess(t *testing.T) {
	gaps := func(b *bench, n int, answer func()) (gaps []time.Duration) {
		for range n {
			answer()
			start := b.now
			b.atDeadline()
			gaps = append(gaps, b.now.Sub(start)/time.Millisecond)
		}
		return gaps
	}
	b := newBench(t, &Floors{})
	got := gaps(b, 5, func() { b.declines(boss).declines(self).declines(other) })
	if want := []time.Duration{100, 200, 400, 800, 1000}; !equalUpTo(got, want) {
		t.Errorf("when all decline: after %v ms, want at least %v", got, want)
	}
	b = newOutsider(t)
	b.declinesUnbound(boss).acks(other)
	got = gaps(b, 6, func() { b.declinesUnbound(boss) })
	if want := []time.Duration{100, 200, 400, 800, 1000, 1000}; !equalUpTo(got, want) {
		t.Errorf("beside a coordinator: after %v ms, want at least %v", got, want)
	}
}

// equalUpTo: none is below what is wanted, and none above the limit.
func equalUpTo(got, want []time.Duration) bool {
	for i := range want {
		if got[i] < want[i] || got[i] > 1000 {
			return false
		}
	}
	return true
}

// A new coordinator learns from the census all facts that only this node has: where the
// state of a stopping shard goes, which states wait here, and that it drains.
func TestTheCensusTellsWhatOnlyThisNodeKnows(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.send(1, tok, other)
	waits := b.token()
	b.step(StateHeld{Shard: 2, Token: waits, From: other, Term: waits.Term})
	b.receive(&protocol.CensusRequest{Head: b.head()})
	refuse[*protocol.Drain](b)
	m := want[*protocol.CensusReport](b)
	if len(m.Claims) != 1 || m.Claims[0] != (protocol.Claim{Shard: 1, Token: tok, State: protocol.ClaimStopping, To: other}) {
		t.Errorf("claims %+v", m.Claims)
	}
	if len(m.Held) != 1 || m.Held[0] != (protocol.Held{Shard: 2, Token: waits, From: other, Term: waits.Term}) {
		t.Errorf("holds %+v", m.Held)
	}
	// This is recorded before the report: or the first message is about a shard.
	b.step(Drain{}).view(boss, self, other)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	if s := want[Send](b); protocol.Name(s.Msg) != "Drain" {
		t.Errorf("says %s first", protocol.Name(s.Msg))
	}
	// One that hosts nothing is relieved of nothing.
	b = newBench(t, &Floors{})
	b.c = New(Config{Self: self, Type: "counter", Shards: 8}, &Floors{})
	b.view(boss, self).step(Drain{})
	b.receive(&protocol.CensusRequest{Head: b.head()})
	refuse[*protocol.Drain](b)
}

// A coordinator that takes office without a census of this node is notified that it drains.
func TestWhoTakesOfficeHearsThatWeDrain(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss).step(Drain{}).receive(&protocol.Drained{Head: b.head()})
	b.view(self, other).acks(self)
	want[*protocol.Drain](b)
}

// An answer names the order that it answers by its number in the term: one in another
// term would be taken for the answer to another order.
func TestAnAnswerInAnotherTermNamesNoOrder(t *testing.T) {
	b := newBench(t, &Floors{})
	h := b.head()
	b.step(Received{From: boss, Msg: &protocol.HandOff{Head: h}})
	h.Term--
	b.step(Received{From: boss, Msg: &protocol.HandOff{Head: h}})
	if m := want[*protocol.Refused](b); m.Seq != 0 || m.Term == h.Term {
		t.Errorf("answers order %d of term %v", m.Seq, m.Term)
	}
}

// A state that was to be turned to another home by a former coordinator is, and the stop
// answers no order of this one.
func TestATurnOfAnEarlierTermAnswersNoOrderOfThisOne(t *testing.T) {
	b := newBench(t, &Floors{})
	b.view(boss, self, other, fourth)
	tok := b.run(1)
	b.send(1, tok, other)
	b.view(boss, self, fourth).send(1, tok, fourth)
	b.view(boss, self, fourth).receive(&protocol.CensusRequest{Head: b.head()})
	b.keep(1, tok)
	if s := want[StopShard](b); s.To != fourth {
		t.Fatalf("goes to %v", s.To)
	}
	if m := want[*protocol.Stopped](b.keep(1, tok)); m.Seq != 0 {
		t.Errorf("answers %d", m.Seq)
	}
}
