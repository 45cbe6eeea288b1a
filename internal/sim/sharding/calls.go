package sharding

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// calls are the asks of a type, modelled after the table of internal/delivery. The asker sets a
// deadline, and the request carries the time that is left. The asker records which node has its
// request, and fails the call when that node is lost. A reply to a closed call is late.
type calls struct {
	m      *base
	outbox *outbox
	// withdraw ends the wait of a message that has not been sent, and reports whether there was
	// one.
	withdraw func(*datapath.Message) bool
	// open are the asks of this process that wait for their answers.
	open map[uint64]*call
	// cancelled are the asks whose askers have called them off.
	cancelled map[askOf]bool
}

// call is an ask that waits for its answer.
type call struct {
	// at is where the request is, 0 while it waits in a buffer here.
	at       gossip.NodeID
	deadline clock.Instant
	due      virtual.Instant
	begun    virtual.Instant
	// then, if set, is called with the outcome.
	then func(invariant.Outcome)
	// hosted is set if the type had a home, and the asker a lease, at begun; noRoom if the ask
	// failed because a queue was full.
	hosted, noRoom bool
}

// askOf names an ask from the outside.
type askOf struct {
	asker gossip.NodeID
	call  uint64
}

// askSlack is how late the answer to an ask may come: what a timer and a driver's
// goroutine add to its deadline.
const askSlack = 100 * time.Millisecond

// beginAsk makes an ask of a message.
func (s *calls) beginAsk(msg *datapath.Message) {
	m, r := s.m, s.m.run
	d := r.Rand.Setup.Duration(time.Millisecond, r.Config.AskMax)
	if r.Config.Orderly {
		d += 5 * time.Second
	}
	msg.Call = m.site.inv.newCall()
	c := &call{deadline: m.p.Now().Add(d), begun: r.Now(), hosted: m.hasHome() && m.site.member.LeaseValid()}
	c.due = m.p.Clock.When(c.deadline)
	s.open[msg.Call] = c
	m.checks.asks.Begun(invariant.Ask{Asker: msg.Sender, Call: msg.Call})
	m.p.Thread.At(c.due, func() { s.onDeadline(msg) })
}

// onDeadline ends an ask that waits, and calls its request off.
func (s *calls) onDeadline(msg *datapath.Message) {
	c := s.open[msg.Call]
	if c == nil {
		return
	}
	m := s.m
	c.noRoom = s.withdraw(msg)
	s.endAsk(msg.Call, invariant.TimedOut)
	if c.at != 0 && c.at != m.p.Node.ID {
		_ = s.outbox.sendNow(c.at, &callFrame{typ: m.number, op: opCancel, call: msg.Call})
	}
}

// endAsk ends an ask, at most once.
func (s *calls) endAsk(id uint64, how invariant.Outcome) {
	m, r := s.m, s.m.run
	c := s.open[id]
	if c == nil {
		r.Hit(coverage.ReplyLate)
		return
	}
	delete(s.open, id)
	m.p.Event("ask over", id, func() string { return how.String() })
	r.Judge(m.checks.asks.Over(time.Duration(r.Now()), invariant.Ask{Asker: m.p.Node.ID, Call: id}, how))
	home := c.hosted && m.checks.unhosted < c.begun && len(m.checks.untaken) == 0
	if r.Config.Orderly && !r.Calm && how != invariant.Answered && home && !c.noRoom && !m.checks.notKept[id] && !m.site.member.Leaving() && !s.lostWithMember(c, how) && !s.awaitsCopies(how) {
		r.Fail("G9", "%s: ask %d of type %s is %v although nothing but planned moves happened", m.p.Label, id, m.spec.Name, how)
	}
	if c.then != nil {
		c.then(how)
	}
}

// lostWithMember reports whether an outcome is unknown because the newest view has left out the
// asker or the node that has the request, and that node was not leaving or had not handed over what
// it runs. Orderly runs see such removals too: while links stall, short queues drop a coordinator's orders and their answers, and
// after RemoveAfter the coordinator reports that the member does not answer.
func (s *calls) lostWithMember(c *call, how invariant.Outcome) bool {
	inv := s.m.site.inv
	return how == invariant.Unknown && (inv.removedUnplanned(c.at) || inv.removedUnplanned(s.m.p.Node.ID))
}

// awaitsCopies reports whether an ask may have run out of time while copies were made, in a type with
// replicated states and a run whose queues are shorter than its shards are many. A shard collects its
// states before it begins, and a reply waits until its copies are made; what such a queue drops is
// sent again after up to 1.6 s.
func (s *calls) awaitsCopies(how invariant.Outcome) bool {
	return how == invariant.TimedOut && s.m.spec.Replicas > 0 && s.m.run.Config.QueueFramesMax < s.m.spec.Shards
}

// moveTo notes which node has the request of an ask of this process.
func (s *calls) moveTo(msg *datapath.Message, to gossip.NodeID) (left time.Duration, waits bool) {
	if msg.Call == 0 {
		return 0, true
	}
	c := s.open[msg.Call]
	if c == nil {
		return 0, false
	}
	c.at = to
	return max(c.deadline.Sub(s.m.p.Now()), 1), true
}

// reply answers an ask from where its entity runs.
func (s *calls) reply(msg *datapath.Message, how invariant.Outcome) {
	if msg.Call == 0 {
		return
	}
	s.forgetCancel(msg)
	if msg.Sender == s.m.p.Node.ID {
		s.endAsk(msg.Call, how)
		return
	}
	s.outbox.sendInOrder(msg.Sender, &callFrame{typ: s.m.number, op: opReply, call: msg.Call, outcome: how})
}

func (s *calls) isCancelled(msg *datapath.Message) bool {
	return s.cancelled[askOf{msg.Sender, msg.Call}]
}

func (s *calls) forgetCancel(msg *datapath.Message) {
	delete(s.cancelled, askOf{msg.Sender, msg.Call})
}

// failAt fails the asks whose requests are at a node that is lost.
func (s *calls) failAt(node gossip.NodeID) {
	for _, n := range slices.Sorted(maps.Keys(s.open)) {
		if s.open[n].at == node {
			s.endAsk(n, invariant.Unknown)
		}
	}
}

// refuseAsk ends the ask of a message that runs nowhere.
func (s *calls) refuseAsk(msg *datapath.Message) {
	if s.open[msg.Call] != nil {
		s.endAsk(msg.Call, invariant.Refused)
	}
}

// checkDeadlines checks that no ask hangs (L3): each is over by its deadline.
func (s *calls) checkDeadlines() {
	m, r := s.m, s.m.run
	for _, n := range slices.Sorted(maps.Keys(s.open)) {
		if c := s.open[n]; r.Now() > c.due.Add(askSlack) && r.Now() > m.p.Thread.PausedUntil().Add(askSlack) {
			r.Fail("L3", "%s: ask %d of type %s hangs %v after its deadline", m.p.Label, n, m.spec.Name, r.Now().Sub(c.due))
		}
	}
}
