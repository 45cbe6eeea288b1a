package view

import "github.com/peerage-go/peerage/gossip"

// A member may answer the leader although a coordinator cannot reach it. Then one of the
// two must go: the one with fewer working links, or on a tie the junior. The leader stops
// renewing its lease, and removes it after RemoveAfter, when the lease has certainly
// ended.

func (c *Core) onYield(subject, reporter gossip.NodeID) {
	if c.view == nil {
		return
	}
	if c.leadership == nil {
		if c.follower.leader != 0 {
			c.sendTo(c.follower.leader, &YieldRequest{Subject: subject})
		}
		return
	}
	subjectPeer, reporterPeer := c.leadership.peers[subject], c.leadership.peers[reporter]
	if subjectPeer != nil && subjectPeer.leaseWithheldSince != 0 || reporterPeer != nil && reporterPeer.leaseWithheldSince != 0 {
		return // one of the two is already being removed
	}
	if subject == reporter || c.view.Member(subject) == nil || c.view.Member(reporter) == nil {
		return
	}
	loser := c.memberToRemove(subject, reporter)
	c.traceEvent("yields", loser, "cannot work with "+otherOf(loser, subject, reporter).String())
	if loser == c.self() {
		c.stepDown("has fewer working links than a member")
		c.campaign.campaignAfter = c.now.Add(2*c.cfg.Lease + c.cfg.RemoveAfter)
		return
	}
	if p := c.leadership.peers[loser]; p != nil {
		p.leaseWithheldSince = c.now
	}
}

func otherOf(id, a, b gossip.NodeID) gossip.NodeID {
	if id == a {
		return b
	}
	return a
}

// memberToRemove returns the one of two members that must go.
func (c *Core) memberToRemove(a, b gossip.NodeID) gossip.NodeID {
	la, lb := c.workingLinks(a), c.workingLinks(b)
	if la != lb {
		if la < lb {
			return a
		}
		return b
	}
	for i := range c.view.Members { // the first found is the senior one
		switch c.view.Members[i].ID {
		case a:
			return b
		case b:
			return a
		}
	}
	return a
}

// workingLinks counts the voters with which a member has a link that neither side
// reports as broken.
func (c *Core) workingLinks(id gossip.NodeID) int {
	n := 0
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID != id && m.Status.Votes() && c.heardLately(m.ID) && !c.reportsUnreachable(m.ID, id) && !c.reportsUnreachable(id, m.ID) {
			n++
		}
	}
	return n
}

// heardLately reports whether a member counts in workingLinks. Dead and silent members do
// not: only some members have detected that their links with these are broken.
func (c *Core) heardLately(id gossip.NodeID) bool {
	if id == c.self() {
		return true
	}
	p := c.leadership.peers[id]
	return p != nil && !c.evidence.dead(id) && c.now.Sub(p.answeredAt) < c.cfg.Lease
}

// reportsUnreachable reports whether a cannot reach b, by a's own report.
func (c *Core) reportsUnreachable(a, b gossip.NodeID) bool {
	list := c.evidence.unreachable
	if a != c.self() {
		p := c.leadership.peers[a]
		if p == nil {
			return true
		}
		list = p.unreachable
	}
	for _, id := range list {
		if id == b {
			return true
		}
	}
	return false
}
