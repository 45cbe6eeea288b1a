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
	if r := c.leadership.withholdLease(subject, reporter); r != nil {
		c.resign(r)
	}
}

// withholdLease stops renewing the lease of one of two members that cannot work together. If
// that is this leader, it returns its resignation.
func (o *leadership) withholdLease(subject, reporter gossip.NodeID) *resignation {
	subjectPeer, reporterPeer := o.peers[subject], o.peers[reporter]
	if subjectPeer != nil && subjectPeer.leaseWithheldSince != 0 || reporterPeer != nil && reporterPeer.leaseWithheldSince != 0 {
		return nil // one of the two is already being removed
	}
	if subject == reporter || o.view.Member(subject) == nil || o.view.Member(reporter) == nil {
		return nil
	}
	if !o.heardLately(subject) || !o.heardLately(reporter) {
		return nil // one is removed for its death or silence, which says nothing about the other
	}
	loser := o.memberToRemove(subject, reporter)
	o.traceEvent("yields", loser, "cannot work with "+otherOf(loser, subject, reporter).String())
	if loser == o.self() {
		return &resignation{reason: "has fewer working links than a member", pause: 2*o.cfg.Lease + o.cfg.RemoveAfter}
	}
	if p := o.peers[loser]; p != nil {
		p.leaseWithheldSince = o.now
	}
	return nil
}

func otherOf(id, a, b gossip.NodeID) gossip.NodeID {
	if id == a {
		return b
	}
	return a
}

// memberToRemove returns the one of two members that must go.
func (o *leadership) memberToRemove(a, b gossip.NodeID) gossip.NodeID {
	la, lb := o.workingLinks(a), o.workingLinks(b)
	if la != lb {
		if la < lb {
			return a
		}
		return b
	}
	for i := range o.view.Members { // the first found is the senior one
		switch o.view.Members[i].ID {
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
func (o *leadership) workingLinks(id gossip.NodeID) int {
	n := 0
	for i := range o.view.Members {
		m := &o.view.Members[i]
		if m.ID != id && m.Status.Votes() && o.heardLately(m.ID) && !o.reportsUnreachable(m.ID, id) && !o.reportsUnreachable(id, m.ID) {
			n++
		}
	}
	return n
}

// heardLately reports whether a member has answered this leader within the last lease, and
// nothing says that it is dead: silence from before the term counts. Dead and silent members
// do not count in workingLinks: only some members have detected that their links with these
// are broken.
func (o *leadership) heardLately(id gossip.NodeID) bool {
	if id == o.self() {
		return true
	}
	p := o.peers[id]
	return p != nil && p.t0 != 0 && !o.evidence.dead(id) && o.now.Sub(p.answeredAt) < o.cfg.Lease
}

// reportsUnreachable reports whether a cannot reach b, by a's own report.
func (o *leadership) reportsUnreachable(a, b gossip.NodeID) bool {
	list := o.evidence.unreachable
	if a != o.self() {
		p := o.peers[a]
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
