package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/transport"
)

// Asks, modelled after sharding's table of calls. The asker sets a deadline, and the
// request carries the time that is left. The asker records which node has its request,
// and fails the call when that node is lost. A reply to a closed call is late.

// call is an ask that waits for its answer.
type call struct {
	// at is where the request is, 0 while it waits in a buffer here.
	at       nodeID
	deadline clock.Instant
	due      instant
	begun    instant
	// hosted is set if the type had a home, and the asker a lease, at begun; noRoom if the ask
	// failed because a queue was full.
	hosted, noRoom bool
}

// callOf names an ask from the outside.
type callOf struct {
	asker nodeID
	call  uint64
}

type outcomeOf = invariant.Outcome

const (
	answered = invariant.Answered
	// refusedHere: the request has not run anywhere and never will.
	refusedHere = invariant.Refused
	// outcomeUnknown: the node is lost, or the instance was abandoned.
	outcomeUnknown = invariant.Unknown
	timedOut       = invariant.TimedOut
)

// askSlack is how late the answer to an ask may come: what a timer and a driver's
// goroutine add to its deadline.
const askSlack = 100 * time.Millisecond

// beginAsk makes an ask of a message.
func (u *upper) beginAsk(m *message) {
	w := u.p.w
	d := w.setRand.dur(time.Millisecond, w.swarm.askMax)
	if w.swarm.orderly {
		d += 5 * time.Second
	}
	w.calls++
	m.call = w.calls
	c := &call{deadline: u.p.now().Add(d), begun: w.now, hosted: u.p.hosted(u.spec) && u.p.leaseValid()}
	c.due = u.p.clk.when(c.deadline)
	u.calls[m.call] = c
	w.types[u.number].asks.Begun(invariant.Ask{Asker: m.sender, Call: m.call})
	w.at(c.due, func() {
		u.p.run(func() {
			if c := u.calls[m.call]; c != nil {
				u.over(m.call, timedOut)
				if c.at != 0 && c.at != u.p.node.ID {
					_ = u.frame(c.at, &entityFrame{op: opCancel, call: m.call})
				}
			}
		})
	})
}

// at notes where the request of an ask is.
func (u *upper) at(m *message, node nodeID) {
	if c := u.calls[m.call]; m.call != 0 && c != nil && m.sender == u.p.node.ID {
		c.at = node
	}
}

// deadline is when a request of this process expires.
func (u *upper) deadline(m *message) clock.Instant {
	if c := u.calls[m.call]; m.call != 0 && c != nil {
		return c.deadline
	}
	return clock.Never
}

// over ends an ask, at most once.
func (u *upper) over(call uint64, how outcomeOf) {
	w := u.p.w
	c := u.calls[call]
	if c == nil {
		w.hit(markReplyLate)
		return
	}
	delete(u.calls, call)
	w.outcomes[how]++
	w.event(u.p, "ask over", call, func() string { return how.String() })
	w.judge(w.types[u.number].asks.Over(time.Duration(w.now), invariant.Ask{Asker: u.p.node.ID, Call: call}, how))
	t := w.types[u.number]
	home := c.hosted && t.unhosted < c.begun && len(t.untaken) == 0
	if w.swarm.orderly && !w.calm && how != answered && home && !c.noRoom && !u.p.member.leaving {
		w.fail("G9", "%s: ask %d of type %s is %v although nothing but planned moves happened", u.p.label, call, u.spec.name, how)
	}
}

// hosted reports whether the type has a home to go to: a member that hosts it and
// stays, in numbers that are enough.
func (p *proc) hosted(t *typeSpec) bool {
	w, v, n := p.w, p.member.view, 0
	for _, q := range w.running() {
		if m := v.Member(q.node.ID); m != nil && m.Status == gossip.Up && w.swarm.hosts(q.slot, t) && !q.member.leaving {
			n++
		}
	}
	return n >= max(w.swarm.minMembers, 1)
}

// noteUnhosted notes the types that lose their last home when a process begins to leave.
// Asks that wait for such a home may time out.
func (p *proc) noteUnhosted() {
	for i, t := range p.w.types {
		if !p.hosted(&p.w.swarm.types[i]) {
			t.unhosted = p.w.now
		}
	}
}

// replied takes a reply.
func (u *upper) replied(call uint64, how outcomeOf) {
	u.over(call, how)
}

// reply answers an ask from where its entity runs.
func (u *upper) reply(m *message, how outcomeOf) {
	if m.call == 0 {
		return
	}
	delete(u.gone, m.from())
	if m.sender == u.p.node.ID {
		u.over(m.call, how)
		return
	}
	u.answer(m.sender, &entityFrame{op: opReply, call: m.call, outcome: how})
}

// answer sends f, or queues it in order until the connection has room.
func (u *upper) answer(to nodeID, f *entityFrame) {
	if len(u.outbox[to]) == 0 && !errors.Is(u.frame(to, f), transport.ErrQueueFull) {
		return
	}
	u.outbox[to] = append(u.outbox[to], f)
	if len(u.outbox[to]) == 1 {
		u.answerLater(to)
	}
}

func (u *upper) answerLater(to nodeID) {
	u.p.later(5*time.Millisecond, func() {
		for u.on && len(u.outbox[to]) > 0 {
			if errors.Is(u.frame(to, u.outbox[to][0]), transport.ErrQueueFull) {
				u.answerLater(to)
				return
			}
			u.outbox[to] = u.outbox[to][1:]
		}
	})
}

// failCalls fails the asks whose requests are at a node that is lost.
func (u *upper) failCalls(node nodeID) {
	for _, n := range slices.Sorted(maps.Keys(u.calls)) {
		if u.calls[n].at == node {
			u.over(n, outcomeUnknown)
		}
	}
}

// noRoom notes at the asker that its ask found a buffer or a mailbox full.
func (w *world) noRoom(m *message, typ int) {
	asker := w.byID[m.sender]
	if m.call == 0 || asker == nil || !asker.layers.on {
		return
	}
	if c := asker.layers.types[typ].calls[m.call]; c != nil {
		c.noRoom = true
	}
}

// drop gives a message up that never left.
func (u *upper) drop(m *message) {
	u.p.w.noRoom(m, u.number)
	u.giveUp(m)
}

// giveUp ends the way of a message that runs nowhere.
func (u *upper) giveUp(m *message) {
	u.p.w.dropped++
	if u.calls[m.call] != nil {
		u.over(m.call, refusedHere)
	}
}

// misplace counts messages to an allocation that were lost because its node refused
// them.
func (u *upper) misplace(s protocol.ShardID, t protocol.Token, lost []*message) {
	w := u.p.w
	if !w.types[u.number].untaken[protocol.ShardToken{Shard: s, Token: t}] {
		w.misplaced += len(lost)
	}
	for _, m := range lost {
		u.giveUp(m)
	}
}

// checkAsks checks that no ask hangs (L3): on a process that runs, each is over by its
// deadline.
func (w *world) checkAsks() {
	for _, p := range w.running() {
		if p.paused || p.over || p.cost > 0 || len(p.waiting) > 0 {
			continue
		}
		for _, u := range p.layers.types {
			for _, n := range slices.Sorted(maps.Keys(u.calls)) {
				c := u.calls[n]
				if u.on && w.now > c.due.add(askSlack) && w.now > p.pausedUntil.add(askSlack) {
					w.fail("L3", "%s: ask %d of type %s hangs %v after its deadline", p.label, n, u.spec.name, w.now.sub(c.due))
				}
			}
		}
	}
}
