package region

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

const resendWait = 200 * time.Millisecond

// all returns the effects and messages of type T of the last step.
func all[T any](b *bench) (found []T) {
	for _, e := range b.did {
		if x, is := any(e).(T); is {
			found = append(found, x)
		} else if s, is := e.(Send); is {
			if x, is := any(s.Msg).(T); is {
				found = append(found, x)
			}
		}
	}
	return found
}

// only returns the one effect or message of type T of the last step.
func only[T any](b *bench) T {
	b.t.Helper()
	found := all[T](b)
	if len(found) != 1 {
		b.t.Fatalf("%d of %T, want 1: %s", len(found), *new(T), b.show())
	}
	return found[0]
}

// idle passes a long time without messages.
func (b *bench) idle() *bench {
	b.now = b.now.Add(time.Hour)
	return b
}

// begin orders the node to close its route to a shard.
func (b *bench) begin(s protocol.ShardID, move protocol.Token) *bench {
	b.t.Helper()
	return b.receive(&protocol.Begin{Head: b.head(), Shards: st(s, move)})
}

func (b *bench) need(shards ...protocol.ShardID) *bench {
	b.t.Helper()
	return b.step(NeedHome{Shards: shards})
}

// The shell's buffer is emptied for the next steps: it keeps its memory and nothing in it.
func TestEffectsAreReset(t *testing.T) {
	e := Effects{Do: []Effect{AbandonAll{}}, Trace: []TraceEvent{{Kind: "x"}}}
	e.Reset()
	if len(e.Do)+len(e.Trace) != 0 || cap(e.Do) != 1 || cap(e.Trace) != 1 || e.Do[:1][0] != nil || e.Trace[:1][0] != (TraceEvent{}) {
		t.Errorf("%+v", e)
	}
}

// A type has at least one shard, and no more than the protocol can name.
func TestTheNumberOfShardsIsBounded(t *testing.T) {
	for shards, want := range map[int]int{-1: 1, 0: 1, 7: 7, 2 * protocol.ShardsMax: protocol.ShardsMax} {
		if c := New(Config{Self: self, Shards: shards}, &Floors{}); c.routes.list.shards != want || c.hosts.list.entries.shards != want || c.cfg.Shards != want {
			t.Errorf("%d shards became %d", shards, c.cfg.Shards)
		}
	}
}

// Of two moves, the later counts. A Begin of the earlier one that comes late has no answer.
func TestALateBeginIsNotConfirmed(t *testing.T) {
	b := newBench(t, &Floors{})
	early, late := b.token(), b.token()
	b.begin(1, late)
	want[*protocol.BeginAck](b)
	if b.begin(1, early); len(b.did) > 0 || !b.traced(TraceStaleToken) {
		t.Errorf("does %s", b.show())
	}
}

// A route that is closed for one move is closed for the next, which has a marker of its own. The
// owner's answer to the earlier one no longer counts, nor that of any other node.
func TestTheMarkerOfALaterMoveCounts(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(1, other, b.token()).homes(2, other, b.token())
	first, second := b.token(), b.token()
	b.begin(1, first)
	if b.begin(1, first); len(b.did) > 0 {
		t.Errorf("a copy of Begin does %s", b.show())
	}
	b.begin(1, second)
	if m := only[SendMarker](b); m != (SendMarker{Shard: 1, Marker: Marker{Owner: other, Token: second}}) {
		t.Errorf("sends %+v", m)
	}
	for _, ack := range []MarkerAcked{{From: other, Shards: st(1, first)}, {From: boss, Shards: st(1, second)}} {
		b.step(ack)
		refuse[*protocol.BeginAck](b)
	}
	// It is sent again, and no other with it.
	b.tick(resendWait)
	if m := only[SendMarker](b); m.Shard != 1 || m.Owner != other || m.Token != second {
		t.Errorf("sends %+v again", m)
	}
	// The owner is there: a view without another member confirms nothing.
	b.view(self, other, fourth)
	refuse[*protocol.BeginAck](b)
	b.step(MarkerAcked{From: other, Shards: st(1, second)})
	if m := only[*protocol.BeginAck](b); !slices.Equal(m.Shards, st(1, second)) {
		t.Errorf("confirms %+v", m)
	}
	b.step(MarkerAcked{From: other, Shards: st(1, second)})
	refuse[*protocol.BeginAck](b)
}

// The first message that waits for an answer starts the timer, and later ones do not postpone it.
func TestTheFirstOfSeveralStartsTheTimer(t *testing.T) {
	for name, wait := range map[string]func(*bench){
		"a marker":  func(b *bench) { b.begin(1, b.token()) },
		"a request": func(b *bench) { b.need(3) },
		"a stop":    func(b *bench) { b.step(Abandoned{}) },
		"a drain":   func(b *bench) { b.step(Drain{}) },
	} {
		b := newBench(t, &Floors{})
		b.acks(boss).run(2)
		b.homes(1, other, b.token())
		b.idle()
		wait(b)
		if got := b.c.Deadline().Sub(b.now); got != resendWait {
			t.Errorf("%s: a tick after %v", name, got)
		}
		first := b.c.Deadline()
		b.now = b.now.Add(resendWait / 2)
		if b.need(4); b.c.Deadline() != first {
			t.Errorf("%s: another message postpones the tick by %v", name, b.c.Deadline().Sub(first))
		}
		// A tick before its time does nothing.
		if b.step(Tick{}); len(b.did) > 0 || b.c.Deadline() != first {
			t.Errorf("%s: an early tick does %s", name, b.show())
		}
		b.now = first
		if b.step(Tick{}); len(b.did) == 0 || b.c.Deadline() != first.Add(resendWait) {
			t.Errorf("%s: the next tick after %v", name, b.c.Deadline().Sub(b.now))
		}
	}
}

// A registered region does not register again at a tick that is for something else, and one that
// waits for a registration does not retransmit other messages.
func TestATickRepeatsOnlyWhatIsDue(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss).need(1)
	b.tick(resendWait)
	refuse[*protocol.Register](b)
	b = newBench(t, &Floors{})
	b.now = b.c.Deadline().Add(-1)
	if b.step(Tick{}); len(b.did) > 0 {
		t.Errorf("before the deadline: %s", b.show())
	}
	b.tick(1)
	want[*protocol.Register](b)
	b = newBench(t, &Floors{})
	b.acks(boss)
	if b.idle().step(Tick{}); len(b.did) > 0 {
		t.Errorf("nothing waits: %s", b.show())
	}
}

// A host without a coordinator, and a proxy, need no permission to drain.
func TestADrainWithoutACoordinatorEndsItself(t *testing.T) {
	for name, cfg := range map[string]Config{"no candidate": {Role: "none", Hosts: true}, "a proxy": {}} {
		b := newBench(t, &Floors{})
		cfg.Self, cfg.Type, cfg.Shards = self, "counter", 8
		b.c = New(cfg, &Floors{})
		if b.view(boss, self).step(Drain{}); len(b.did) != 1 || b.did[0] != (Drained{}) {
			t.Errorf("%s: does %s", name, b.show())
		}
	}
}

// The coordinator is asked to relieve this node until it answers. Only its own answer counts, and
// only to a node that drains.
func TestOnlyTheCoordinatorEndsADrain(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss)
	tok := b.run(1)
	done := &protocol.Drained{Head: b.head()}
	b.receive(done)
	refuse[StopShard](b)
	if b.c.drain.last {
		t.Error("drains although nobody asked for it")
	}
	b.step(Drain{}).step(Received{From: other, Msg: done})
	refuse[StopShard](b)
	b.tick(resendWait)
	only[*protocol.Drain](b)
	b.receive(done)
	if s := only[StopShard](b); s.Shard != 1 || s.Token != tok {
		t.Errorf("stops %+v", s)
	}
	b.step(ShardStopped{Shards: st(1, tok)})
	b.tick(resendWait)
	refuse[*protocol.Drain](b)
	only[*protocol.Stopped](b)
}

// An answer names its order.
func TestAnswersNameTheirOrder(t *testing.T) {
	b := newBench(t, &Floors{})
	h := b.head()
	h.Probe = true
	b.receive(&protocol.CensusRequest{Head: h})
	if m := only[*protocol.CensusReport](b); m.Seq != h.Seq {
		t.Errorf("the report answers %d, want %d", m.Seq, h.Seq)
	}
	if m := only[*protocol.Seen](b); m.Seq != h.Seq {
		t.Errorf("the sign of life answers %d, want %d", m.Seq, h.Seq)
	}
}

// A confirmation of an earlier stop does not confirm a later one.
func TestAStopIsConfirmedByItsToken(t *testing.T) {
	b := newBench(t, &Floors{})
	earlier, tok := b.token(), b.run(1)
	b.handOff(1, tok).step(ShardStopped{Shards: st(1, tok)})
	b.receive(&protocol.StoppedAck{Head: b.head(), Shards: st(1, earlier)})
	b.tick(resendWait)
	only[*protocol.Stopped](b)
	b.receive(&protocol.StoppedAck{Head: b.head(), Shards: st(1, b.token())})
	b.tick(resendWait)
	refuse[*protocol.Stopped](b)
}

// An order to start an earlier allocation than the one that runs here is late. The node promises
// that the earlier one does not run, and the later one stays.
func TestALateOrderTouchesNoLaterAllocation(t *testing.T) {
	for name, order := range map[string]func(*bench, protocol.Token){
		"to start": func(b *bench, tok protocol.Token) { b.hostShard(1, tok) },
		"to stop":  func(b *bench, tok protocol.Token) { b.handOff(1, tok) },
	} {
		b := newBench(t, &Floors{})
		late := b.token()
		tok := b.run(1)
		order(b, late)
		refuse[StopShard](b)
		if m := only[*protocol.Stopped](b); !slices.Equal(m.Shards, st(1, late)) {
			t.Errorf("%s: promises %v, want %v", name, m.Shards, late)
		}
		if got := b.c.Hosted(); len(got) != 1 || got[0] != (protocol.Claim{Shard: 1, Token: tok, State: protocol.ClaimHosted}) {
			t.Errorf("%s: hosts %+v", name, got)
		}
	}
}

// A promise includes what was promised before: the coordinator may have lost that. It never
// includes the allocation that lives here, even if a later one must not start any more.
func TestAPromiseIsAsHighAsItMayBe(t *testing.T) {
	b := newBench(t, &Floors{})
	before := b.token()
	ended := b.run(1)
	b.handOff(1, ended).step(ShardStopped{Shards: st(1, ended)})
	b.handOff(1, before)
	if m := only[*protocol.Stopped](b); !slices.Equal(m.Shards, st(1, ended)) {
		t.Errorf("nothing runs: promises %v, want %v", m.Shards, ended)
	}
	lives := b.run(1)
	b.handOff(1, before)
	if m := only[*protocol.Stopped](b); !slices.Equal(m.Shards, st(1, ended)) {
		t.Errorf("a later one runs: promises %v, want %v", m.Shards, ended)
	}
	// A start that waited for the stop was taken back.
	b.handOff(1, lives)
	next := b.token()
	b.hostShard(1, next).handOff(1, next)
	b.handOff(1, before)
	if m := only[*protocol.Stopped](b); !slices.Equal(m.Shards, st(1, before)) {
		t.Errorf("the present one still stops: promises %v, want %v", m.Shards, before)
	}
}

// The order for a later allocation ends the present one. Of several that wait for its end, the
// latest starts, in whatever order they came.
func TestTheLatestAllocationFollows(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		b := newBench(t, &Floors{})
		present := b.run(1)
		next, latest := b.token(), b.token()
		if swapped {
			next, latest = latest, next
		}
		b.hostShard(1, next)
		if s := only[StopShard](b); s.Token != present {
			t.Fatalf("stops %+v", s)
		}
		b.hostShard(1, latest)
		refuse[StopShard](b)
		// The order to stop the present one comes again, late.
		b.handOff(1, present)
		b.step(ShardStopped{Shards: st(1, present)})
		if s, highest := only[StartShard](b), next.Max(latest); s.Token != highest {
			t.Errorf("starts %v, want %v", s.Token, highest)
		}
	}
}

// A later allocation that waits for a stop does not start if this node has lost its lease, or
// drains, by then.
func TestAWaitingStartNeedsALeaseAndATaker(t *testing.T) {
	for name, play := range map[string]func(b *bench, order func()){
		"the lease has lapsed":    func(b *bench, order func()) { order(); b.step(LeaseChanged{}) },
		"the node drains":         func(b *bench, order func()) { order(); b.step(Drain{}) },
		"the node drained before": func(b *bench, order func()) { b.step(Drain{}); order() },
	} {
		b := newBench(t, &Floors{})
		present := b.run(1)
		play(b, func() { b.hostShard(1, b.token()) })
		if b.step(ShardStopped{Shards: st(1, present)}); len(all[StartShard](b)) > 0 || len(all[*protocol.Stopped](b)) != 1 {
			t.Errorf("%s: does %s", name, b.show())
		}
	}
}

// The shell reports about an allocation that has ended: the present one has neither started nor
// stopped.
func TestReportsOfTheShellBelongToTheirAllocation(t *testing.T) {
	b := newBench(t, &Floors{})
	former, tok := b.token(), b.token()
	b.hostShard(1, tok)
	if b.step(ShardStarted{Shards: st(1, former)}); len(b.did) > 0 {
		t.Errorf("the start of an earlier one does %s", b.show())
	}
	b.step(ShardStarted{Shards: st(1, tok)})
	only[*protocol.ShardsHosted](b)
	if b.step(ShardStopped{Shards: st(1, former)}); len(b.did) > 0 {
		t.Errorf("the stop of an earlier one does %s", b.show())
	}
	b.step(ShardStopped{Shards: st(1, tok)})
	only[*protocol.Stopped](b)
}

// Only an order that would call a stop handler waits for the lease.
func TestAPromiseNeedsNoLease(t *testing.T) {
	b := newBench(t, &Floors{})
	b.run(1)
	b.step(LeaseChanged{})
	tok := b.token()
	b.handOff(2, tok)
	if m := only[*protocol.Stopped](b); !slices.Equal(m.Shards, st(2, tok)) {
		t.Errorf("promises %v", m.Shards)
	}
	h := b.head()
	b.receive(&protocol.HandOff{Head: h, Shards: []protocol.HandOffOrder{{Shard: 1 << 19, Token: tok, Move: h.Stamp()}}})
	if !b.traced(TraceUnknownShard) {
		t.Error("an order about a shard that does not exist waits for the lease")
	}
}

// A node outside its own view starts nothing: it is about to end, or to join.
func TestANodeOutsideItsViewStartsNothing(t *testing.T) {
	b := newBench(t, &Floors{})
	b.view(boss, other).hostShard(1, b.token())
	refuse[StartShard](b)
	b.view(boss, self, other)
	only[StartShard](b)
	// It is obeyed once.
	b.step(LeaseChanged{Valid: true})
	refuse[StartShard](b)
	refuse[*protocol.ShardsHosted](b)
}

// An order that waited for the lease is obeyed once.
func TestAHeldOrderIsObeyedOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.step(LeaseChanged{}).hostShard(1, tok)
	b.step(LeaseChanged{Valid: true})
	only[*protocol.ShardsHosted](b)
	b.step(LeaseChanged{Valid: true})
	refuse[*protocol.ShardsHosted](b)
}

// A shell that has no view yet reports none, and peers may write before there is one.
func TestNothingHappensBeforeThereIsAView(t *testing.T) {
	b := &bench{t: t, now: 1, epoch: gossip.FirstEpoch(1), c: New(Config{Self: self, Type: "counter", Shards: 8, Hosts: true}, &Floors{})}
	if b.step(ViewChanged{}); len(b.did) > 0 || b.c.Deadline() != clock.Never {
		t.Errorf("does %s", b.show())
	}
	if b.declines(boss); len(b.did) > 0 {
		t.Errorf("does %s", b.show())
	}
	b.view(boss, self)
	only[*protocol.Register](b)
	if b.step(ViewChanged{}); len(b.did) > 0 {
		t.Errorf("does %s", b.show())
	}
}

// No message has more shards than fit, and two receivers share none.
func TestAnswersAreBounded(t *testing.T) {
	var a answers
	for i := range batchMax + 1 {
		a.addAnswer(5, nil, protocol.ShardToken{Shard: protocol.ShardID(i)})
	}
	a.addAnswer(7, nil, protocol.ShardToken{Shard: 1})
	var to []gossip.NodeID
	var sizes []int
	a.drainAnswers(func(n gossip.NodeID, _ uint64, list []protocol.ShardToken) {
		to, sizes = append(to, n), append(sizes, len(list))
	})
	if !slices.Equal(to, []gossip.NodeID{5, 5, 7}) || !slices.Equal(sizes, []int{batchMax, 1, 1}) {
		t.Errorf("sends %v to %v", sizes, to)
	}
}

// Check is the judge of the simulator: it finds each broken invariant.
func TestCheckFindsBrokenInvariants(t *testing.T) {
	for name, damage := range map[string]func(*Core){
		"wanted":                    func(c *Core) { c.routes.wanted++ },
		"marked":                    func(c *Core) { c.routes.marked++ },
		"hosting":                   func(c *Core) { c.hosts.hosting++ },
		"running":                   func(c *Core) { delete(c.floors.running, 1) },
		"a route out":               func(c *Core) { c.routes.list.entryOf(3).open = true },
		"an open route wanted":      func(c *Core) { c.routes.list.entryOf(1).wanted = true },
		"an open route marked":      func(c *Core) { c.routes.list.entryOf(1).needMove().marker = other },
		"a token without a home":    func(c *Core) { c.hosts.list.entryOf(3).token = protocol.Token{Seq: 1} },
		"running at its floor":      func(c *Core) { c.floors.raise(1, c.hosts.list.entryOf(1).token) },
		"starting at its floor":     func(c *Core) { c.floors.raise(2, c.hosts.list.entryOf(2).token) },
		"a stop of one that runs":   func(c *Core) { c.hosts.list.entryOf(1).stop = &hostStop{} },
		"no stop of one that stops": func(c *Core) { c.hosts.list.entryOf(2).phase = stopping },
		"above its floor":           func(c *Core) { c.floors.unconfirmed = map[protocol.ShardID]protocol.Token{5: {Seq: 1}} },
	} {
		b := newBench(t, &Floors{})
		b.run(1)
		b.hostShard(2, b.token())
		damage(b.c)
		if b.c.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// A refusal after a long registration is followed by requests at the first pace: the time while
// this node was registered does not count as time without an answer.
func TestALateRefusalIsFollowedAtTheFirstPace(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss).need(1)
	for range 10 {
		b.tick(resendWait)
	}
	b.receive(&protocol.RegisterRefused{Head: b.head(), Conflict: protocol.Conflict{Setting: "role"}})
	b.atDeadline()
	only[*protocol.Register](b)
	if got := b.c.link.retry.Sub(b.now); got != 2*b.c.cfg.Retry {
		t.Errorf("registers again after %v", got)
	}
}
