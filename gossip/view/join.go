package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// How a node gets in and out (DESIGN 4.1).
//
//	ask      JoinRequest to a few contacts at a time, passed on to the leader
//	joining  the leader lets in whoever has asked within a few milliseconds, all at
//	         once; joiners know the view and answer, they neither vote nor hold leases
//	up       in a later view, when the joiner and every voter that stays have answered
//	         in the view in which it is joining
//
// Why two steps: a voter that some living voter has not heard of could form a quorum
// that the other knows nothing of. So a voter that hears nothing holds joiners up,
// until it answers or is removed for its silence.
//
// A NodeID is let in once. A request that comes late, after the node was removed, is
// refused where that is remembered; where it is not, the node meets itself in a view
// as joining after it was up, and ends (adopt). Requests live in one leader's office
// and die with it: joiners ask again.
//
// Whoever leaves gives its lease up first, so that it can be left out at once. It may
// still vote and even lead, last of all, to let others go; but it counts no proofs for
// a quorum, since a view without it may exist that no window shows (total).

// entry is how a node without a view tries to get in.
type entry struct {
	contacts []Node
	next     clock.Instant
	wait     time.Duration
	turn     int
	// passed holds the leaders that contacts have passed the request on to, newest last.
	// Invariant: at most leadersMax.
	passed []NodeID
}

// leadersMax bounds the leaders that a joiner has been told of.
const leadersMax = 8

// asked reports whether a node may answer the request to be let in.
func (e *entry) asked(id NodeID) bool {
	return slices.Contains(e.passed, id) || slices.ContainsFunc(e.contacts, func(n Node) bool { return n.ID == id })
}

// onPassed takes the leader that a contact has passed the request on to.
func (e *entry) onPassed(leader NodeID) {
	if leader == 0 || slices.Contains(e.passed, leader) {
		return
	}
	if len(e.passed) == leadersMax {
		e.passed = slices.Delete(e.passed, 0, 1)
	}
	e.passed = append(e.passed, leader)
}

const (
	// contactsAtOnce is how many contacts are asked at a time.
	contactsAtOnce = 3
	contactsMax    = 1024
	joinsMax       = 1024
	membersMax     = 2048
	hopsMax        = 3
)

func (c *Core) onContacts(nodes []Node) {
	if c.view != nil {
		return
	}
	e := &c.entry
	before := len(e.contacts)
	for _, n := range nodes {
		known := slices.ContainsFunc(e.contacts, func(k Node) bool { return k.ID == n.ID })
		if n.ID != c.self() && n.ID != 0 && !known && len(e.contacts) < contactsMax {
			e.contacts = append(e.contacts, n)
		}
	}
	if len(e.contacts) > before {
		// The new ones are asked first.
		e.turn = before
		e.next, e.wait = c.now, 0
	}
}

// driveEntry asks contacts to be let in, again and again.
func (c *Core) driveEntry() bool {
	e := &c.entry
	if len(e.contacts) == 0 || c.now.Before(e.next) {
		return false
	}
	for range min(contactsAtOnce, len(e.contacts)) {
		n := e.contacts[e.turn%len(e.contacts)]
		e.turn++
		c.out.Learn = append(c.out.Learn, n)
		c.send(n.ID, &JoinRequest{Node: c.cfg.Self, Least: c.cfg.Least})
	}
	e.wait = min(max(2*e.wait, c.cfg.Ping/2), c.cfg.Lease)
	e.next = c.now.Add(e.wait + c.upTo(e.wait/4))
	return false
}

func (c *Core) entryDeadline() clock.Instant {
	if len(c.entry.contacts) == 0 {
		return clock.Never
	}
	return c.entry.next
}

// onJoinRequest queues a node that wants in, or passes the request on.
func (c *Core) onJoinRequest(from NodeID, m *JoinRequest) {
	if c.view == nil || m.Node.ID == 0 {
		return
	}
	if known := c.view.Member(m.Node.ID); known != nil && known.Addr != m.Node.Addr {
		// One incarnation has one address. Who passes requests on lets this one pass no more
		// than a leader does, so that it accuses whoever made it up.
		c.trace("place of a member asked for", from, "that of "+m.Node.ID.String()+", at "+m.Node.Addr)
		return
	}
	o := c.office
	if o == nil {
		if m.Hops < hopsMax && c.leader != 0 && c.leader != m.Node.ID {
			if from == m.Node.ID { // it is told whose answer to believe, first
				c.send(from, &JoinPassed{Leader: c.leader})
			}
			c.send(c.leader, &JoinRequest{Node: m.Node, Hops: m.Hops + 1, Least: m.Least})
		}
		return
	}
	if len(c.view.Foreign) > 0 {
		return // nobody is let in during a contest: the standing is frozen
	}
	c.out.Learn = append(c.out.Learn, m.Node)
	if c.gone[m.Node.ID] {
		// A late request of a node that was removed: it never comes back.
		c.send(m.Node.ID, &JoinRefused{Reason: "this incarnation was removed before"})
		return
	}
	if c.view.Member(m.Node.ID) != nil || len(o.joins) >= joinsMax {
		return // the rounds tell it the view
	}
	if slices.ContainsFunc(o.joins, func(n Node) bool { return n.ID == m.Node.ID }) {
		return
	}
	o.joins = append(o.joins, m.Node)
	c.foreign.least = max(c.foreign.least, m.Least)
	if o.batchAt == 0 {
		o.batchAt = c.now.Add(c.batchWait())
	}
}

// onLeave gives the lease up for good and asks to be left out.
func (c *Core) onLeave() {
	if c.leaving {
		return
	}
	c.leaving = true
	if c.view == nil {
		c.end(0, "left before it was let in")
		return
	}
	c.lease = Lease{}
	c.out.Lease = &Lease{}
	if c.office != nil && c.office.batchAt == 0 {
		c.office.batchAt = c.now.Add(c.batchWait())
	}
}

// driveLeave repeats the wish to leave until a view leaves this node out. The last
// member just goes.
func (c *Core) driveLeave() bool {
	if c.view == nil {
		return false
	}
	if c.alone() {
		c.end(c.view.Epoch, "left")
		return true
	}
	if c.now.Before(c.nextLeave) {
		return false
	}
	c.nextLeave = c.now.Add(c.cfg.Ping)
	switch {
	case c.office != nil:
	case c.leader != 0:
		c.send(c.leader, &LeaveRequest{})
	default:
		c.toElectorate(&LeaveRequest{})
	}
	return false
}

// wishAgain says at once to a new leader, or to all while there is none, that this node
// wants to leave.
func (c *Core) wishAgain() {
	if c.leaving {
		c.nextLeave = c.now
	}
	if c.announced {
		c.nextAnnounce = c.now
	}
}

// allLeave reports whether all voters that live, this one among them, are known to
// leave: then there is nobody else to wait for who could lead.
func (c *Core) allLeave() bool {
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID != c.self() && m.Status.Votes() && !c.leavers[m.ID] && !c.dead(m.ID) {
			return false
		}
	}
	return true
}

// alone reports whether every other member is proven dead.
func (c *Core) alone() bool {
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; id != c.self() && !c.dead(id) {
			return false
		}
	}
	return true
}

func (c *Core) onLeaveRequest(from NodeID) {
	if c.view == nil {
		return
	}
	o := c.office
	if c.view.Member(from) == nil {
		if c.gone[from] {
			c.send(from, &Decided{View: c.view})
		}
		return
	}
	if o == nil {
		c.leavers[from] = true // whoever leads next is to know
		return
	}
	if o.leaves[from] {
		return
	}
	o.leaves[from] = true
	if o.batchAt == 0 {
		o.batchAt = c.now.Add(c.batchWait())
	}
}
