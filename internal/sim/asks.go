package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/virtual"
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
	due      virtual.Instant
	begun    virtual.Instant
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
	d := w.setRand.Duration(time.Millisecond, w.swarm.askMax)
	if w.swarm.orderly {
		d += 5 * time.Second
	}
	w.calls++
	m.Call = w.calls
	c := &call{deadline: u.p.now().Add(d), begun: w.Now(), hosted: u.p.hosted(u.spec) && u.p.leaseValid()}
	c.due = u.p.clk.When(c.deadline)
	u.calls[m.Call] = c
	w.types[u.number].asks.Begun(invariant.Ask{Asker: m.Sender, Call: m.Call})
	w.At(c.due, func() {
		u.p.run(func() {
			if c := u.calls[m.Call]; c != nil {
				c.noRoom = u.path.Withdraw(m)
				u.over(m.Call, timedOut)
				if c.at != 0 && c.at != u.p.node.ID {
					_ = u.frame(c.at, &entityFrame{op: opCancel, call: m.Call})
				}
			}
		})
	})
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
	w.judge(w.types[u.number].asks.Over(time.Duration(w.Now()), invariant.Ask{Asker: u.p.node.ID, Call: call}, how))
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
			t.unhosted = p.w.Now()
		}
	}
}

// reply answers an ask from where its entity runs.
func (u *upper) reply(m *message, how outcomeOf) {
	if m.Call == 0 {
		return
	}
	delete(u.gone, callOf{m.Sender, m.Call})
	if m.Sender == u.p.node.ID {
		u.over(m.Call, how)
		return
	}
	u.answer(m.Sender, &entityFrame{typ: u.number, op: opReply, call: m.Call, outcome: how})
}

// answer sends f, or queues it in order until the connection has room.
func (u *upper) answer(to nodeID, f typed) {
	u.outbox[to] = append(u.outbox[to], f)
	if len(u.outbox[to]) == 1 {
		u.sendAnswers(to)
	}
}

// sendAnswers sends what is in an outbox, as far as there is room.
func (u *upper) sendAnswers(to nodeID) {
	for u.on && len(u.outbox[to]) > 0 {
		err := u.p.send(to, transport.Message, frame{transport.KindEntity, u.outbox[to][0]})
		if errors.Is(err, transport.ErrQueueFull) {
			u.p.later(5*time.Millisecond, func() { u.sendAnswers(to) })
			return
		}
		u.outbox[to] = u.outbox[to][1:]
	}
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
	asker := w.byID[m.Sender]
	if m.Call == 0 || asker == nil || !asker.layers.on {
		return
	}
	if c := asker.layers.types[typ].calls[m.Call]; c != nil {
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
	if u.calls[m.Call] != nil {
		u.over(m.Call, refusedHere)
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
				if u.on && w.Now() > c.due.Add(askSlack) && w.Now() > p.pausedUntil.Add(askSlack) {
					w.fail("L3", "%s: ask %d of type %s hangs %v after its deadline", p.label, n, u.spec.name, w.Now().Sub(c.due))
				}
			}
		}
	}
}
