package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// How a node joins and leaves.
//
//	ask      JoinRequest to a few contacts at a time, forwarded to the leader
//	joining  the leader admits all nodes that asked within a few milliseconds, in one
//	         view; joiners hold the view and answer pings, they neither vote nor hold leases
//	up       in a later view, when the joiner and every voter that stays have answered
//	         in the view in which it is joining
//
// Why two steps: a voter that some living voter does not have in its view could be in a
// quorum that the latter cannot count. So a voter that has not acknowledged the view
// holds joiners up, until it answers or is removed for its silence.
//
// A NodeID is admitted once. A request that arrives after the node was removed is refused
// if the leader has it in gone. Otherwise the node finds itself in a view as joining
// after it was up, and ends (adoptView). A leader loses the requests that it holds when it
// steps down: joiners ask again.
//
// A leaving node drops its lease first, so that it can be left out immediately. It may
// still vote, and as a last resort lead, so that other members can leave. But it counts
// no proofs for a quorum, since a view without it may exist that no window excludes
// (total).

// joining is the state of a node that has no view and asks for admission.
type joining struct {
	*history
	contacts []gossip.Node
	next     clock.Instant
	wait     time.Duration
	turn     int
	// passed holds the leaders to which contacts have forwarded the request, newest last.
	// Invariant: at most leadersMax.
	passed []gossip.NodeID
}

// leadersMax bounds joining.passed.
const leadersMax = 8

// wasAsked reports whether a node may answer the join request.
func (e *joining) wasAsked(id gossip.NodeID) bool {
	return slices.Contains(e.passed, id) || slices.ContainsFunc(e.contacts, func(n gossip.Node) bool { return n.ID == id })
}

// onPassed records the leader to which a contact has forwarded the request.
func (e *joining) onPassed(leader gossip.NodeID) {
	if leader == 0 || slices.Contains(e.passed, leader) {
		return
	}
	if len(e.passed) == leadersMax {
		e.passed = slices.Delete(e.passed, 0, 1)
	}
	e.passed = append(e.passed, leader)
}

const (
	// contactsAtOnce is how many contacts the first attempts ask, contactsLater how many the
	// attempts after longer waits ask at most: where most contacts are dead or have no view
	// either, a living member is found in a few attempts.
	contactsAtOnce = 3
	contactsLater  = 24
	contactsMax    = 1024
	joinsMax       = 1024
	membersMax     = 2048
	hopsMax        = 3
)

func (e *joining) onContacts(nodes []gossip.Node) {
	if e.view != nil {
		return
	}
	before := len(e.contacts)
	for _, n := range nodes {
		known := slices.ContainsFunc(e.contacts, func(k gossip.Node) bool { return k.ID == n.ID })
		if n.ID != e.self() && n.ID != 0 && !known && len(e.contacts) < contactsMax {
			e.contacts = append(e.contacts, n)
		}
	}
	if len(e.contacts) > before {
		// Ask the new contacts first.
		e.turn = before
		e.next, e.wait = e.now, 0
	}
}

// contactsNow returns how many contacts the next attempt asks: more after a longer wait, so that
// the pace of requests stays until contactsLater.
func (e *joining) contactsNow() int {
	paces := max(int(2*e.wait/e.cfg.Ping), 1)
	return min(contactsAtOnce*paces, contactsLater, len(e.contacts))
}

// driveJoining sends join requests to contacts, backing off between attempts.
func (e *joining) driveJoining() bool {
	if len(e.contacts) == 0 || e.now.Before(e.next) {
		return false
	}
	for range e.contactsNow() {
		n := e.contacts[e.turn%len(e.contacts)]
		e.turn++
		e.out.Learn = append(e.out.Learn, n)
		e.sendTo(n.ID, &JoinRequest{Node: e.cfg.Self, Least: e.cfg.Least})
	}
	e.wait = min(max(2*e.wait, e.cfg.Ping/2), e.cfg.Lease)
	e.next = e.now.Add(e.wait + e.upTo(e.wait/4))
	return false
}

func (e *joining) joiningDeadline() clock.Instant {
	if len(e.contacts) == 0 {
		return clock.Never
	}
	return e.next
}

// onJoinRequest queues a node that asks for admission, or forwards the request.
func (c *Core) onJoinRequest(from gossip.NodeID, m *JoinRequest) {
	if c.view == nil || m.Node.ID == 0 {
		return
	}
	if known := c.view.Member(m.Node.ID); known != nil && known.Addr != m.Node.Addr {
		// One incarnation has one address. A forwarding member rejects such a request as
		// a leader does, so that the trace names its author.
		c.traceEvent("join request with a member's id, ignored", from, "that of "+m.Node.ID.String()+", at "+m.Node.Addr)
		return
	}
	o := c.leadership
	if o == nil {
		if m.Hops < hopsMax && c.follower.leader != 0 && c.follower.leader != m.Node.ID {
			if from == m.Node.ID { // first name the leader whose answer it may accept
				c.sendTo(from, &JoinPassed{Leader: c.follower.leader})
			}
			c.sendTo(c.follower.leader, &JoinRequest{Node: m.Node, Hops: m.Hops + 1, Least: m.Least})
		}
		return
	}
	if len(c.view.Foreign) > 0 {
		return // no admission during a contest: the standing is frozen
	}
	if !speaksWith(c.view, &m.Node) {
		c.traceEvent("join request without a common wire version, ignored", from,
			fmt.Sprintf("%d to %d of %v", m.Node.WireOldest, m.Node.WireNewest, m.Node.ID))
		return
	}
	c.out.Learn = append(c.out.Learn, m.Node)
	if c.gone[m.Node.ID] {
		// A late request of a removed node: this incarnation never returns.
		c.sendTo(m.Node.ID, &JoinRefused{Reason: "this incarnation was removed before"})
		return
	}
	if c.view.Member(m.Node.ID) != nil {
		return // the rounds of pings send it the view
	}
	if o.queueJoin(m.Node) {
		c.foreign.least = max(c.foreign.least, m.Least)
	}
}

// speaksWith reports whether n and all members have a wire version in common.
func speaksWith(v *gossip.View, n *gossip.Node) bool {
	oldest, newest := v.WireVersions()
	return max(oldest, n.WireOldest) <= min(newest, n.WireNewest)
}

// onLeave gives the lease up for good and asks to be left out.
func (c *Core) onLeave() {
	if c.departure.leaving {
		return
	}
	c.departure.leaving = true
	if c.view == nil {
		c.endIncarnation(0, "left before it was admitted")
		return
	}
	c.holder.waiveLease()
	if c.leadership != nil {
		c.leadership.startBatch()
	}
}

// driveLeave retransmits the leave request until a view leaves this node out. The last
// member ends without asking.
func (c *Core) driveLeave() bool {
	if c.view == nil {
		return false
	}
	if c.departure.allOthersDead() {
		c.endIncarnation(c.view.Epoch, "left")
		return true
	}
	c.departure.requestLeave(c.follower.leader)
	return false
}

func (c *Core) onLeaveRequest(from gossip.NodeID) {
	if c.view == nil {
		return
	}
	o := c.leadership
	if c.view.Member(from) == nil {
		if c.gone[from] {
			c.sendTo(from, &Decided{View: Whole(c.view)})
		}
		return
	}
	if o == nil {
		c.departure.leavers[from] = true // kept for the next leader
		return
	}
	o.queueLeave(from)
}

// requests holds the joins and leaves that wait for the leader's next view. They wait for a
// moment, so that nodes that come or go together share a view.
type requests struct {
	*history
	joins  []gossip.Node
	leaves map[gossip.NodeID]bool
	// notices holds the members that announced to leave.
	notices map[gossip.NodeID]bool
	// batchAt is when the waiting joins and leaves are proposed.
	batchAt clock.Instant
	// raiseAt is until when a joiner that could become up waits for other joiners.
	raiseAt clock.Instant
}

// batchWait is how long requests wait for more that share the next view.
func (q *requests) batchWait() time.Duration { return q.cfg.Ping / 40 }

// startBatch sets the time at which the waiting requests are proposed, unless it is set.
func (q *requests) startBatch() {
	if q.batchAt == 0 {
		q.batchAt = q.now.Add(q.batchWait())
	}
}

// queueJoin queues a node that is no member, and reports whether it was not queued before.
func (q *requests) queueJoin(n gossip.Node) bool {
	if len(q.joins) >= joinsMax || slices.ContainsFunc(q.joins, func(k gossip.Node) bool { return k.ID == n.ID }) {
		return false
	}
	q.joins = append(q.joins, n)
	q.startBatch()
	return true
}

// queueLeave queues a member that asks to be left out.
func (q *requests) queueLeave(id gossip.NodeID) {
	if !q.leaves[id] {
		q.leaves[id] = true
		q.startBatch()
	}
}

// queueNotice queues a member that announces its leave.
func (q *requests) queueNotice(id gossip.NodeID) {
	m := q.view.Member(id)
	if m == nil || m.Status == gossip.Leaving || q.notices[id] {
		return
	}
	q.notices[id] = true
	q.startBatch()
}

// turnsLeaving reports whether the next view shows a member as leaving.
func (q *requests) turnsLeaving(m *gossip.Member) bool {
	return m.Status == gossip.Up && q.notices[m.ID] && !q.now.Before(q.batchAt)
}
