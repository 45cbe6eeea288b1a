package view

// A member may answer the leader although a coordinator cannot reach it. Then one of the
// two must go: the one with fewer working links, or on a tie the junior. The leader stops
// renewing its lease, and removes it after RemoveAfter, when the lease has certainly
// ended.

func (c *Core) onYield(subject, reporter NodeID) {
	if c.view == nil {
		return
	}
	if c.office == nil {
		if c.leader != 0 {
			c.send(c.leader, &YieldRequest{Subject: subject})
		}
		return
	}
	subjectPeer, reporterPeer := c.office.peers[subject], c.office.peers[reporter]
	if subjectPeer != nil && subjectPeer.starved != 0 || reporterPeer != nil && reporterPeer.starved != 0 {
		return // one of the two is already being removed
	}
	if subject == reporter || c.view.Member(subject) == nil || c.view.Member(reporter) == nil {
		return
	}
	loser := c.yields(subject, reporter)
	c.trace("yields", loser, "cannot work with "+other(loser, subject, reporter).String())
	if loser == c.self() {
		c.stepDown("has fewer working links than a member")
		c.standAfter = c.now.Add(2*c.cfg.Lease + c.cfg.RemoveAfter)
		return
	}
	if p := c.office.peers[loser]; p != nil {
		p.starved = c.now
	}
}

func other(id, a, b NodeID) NodeID {
	if id == a {
		return b
	}
	return a
}

// yields returns the one of two members that must go.
func (c *Core) yields(a, b NodeID) NodeID {
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
func (c *Core) workingLinks(id NodeID) int {
	n := 0
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID != id && m.Status.Votes() && c.heardLately(m.ID) && !c.reports(m.ID, id) && !c.reports(id, m.ID) {
			n++
		}
	}
	return n
}

// heardLately reports whether a member counts in workingLinks. Dead and silent members do
// not: only some members have detected that their links with these are broken.
func (c *Core) heardLately(id NodeID) bool {
	if id == c.self() {
		return true
	}
	p := c.office.peers[id]
	return p != nil && !c.dead(id) && c.now.Sub(p.answeredAt) < c.cfg.Lease
}

// reports reports whether a cannot reach b, by a's own report.
func (c *Core) reports(a, b NodeID) bool {
	list := c.unreachable
	if a != c.self() {
		p := c.office.peers[a]
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
