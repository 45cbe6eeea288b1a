package view

import "time"

// Membership is decided among members. A node whose connection has shaken hands holds
// a certificate of the cluster, or, without TLS, knows its name: that lets it ask to
// be let in, and nothing else. So a message of any other kind counts only if its
// sender stands in the view held here:
//
//	in the view                  every message
//	not in it                    JoinRequest for itself; a question of a former member
//	  brings an older view       is told ours, as it may have been removed
//	  brings a newer view        not believed: the members of our view are asked
//	  of a lineage that stands   not believed, unless a former member brings it
//	without a view here          the first one comes from a node that was asked to let
//	                             this one in, or from the leader that it named
//
// Why nothing is lost: a voter is let in only when every voter that stays holds a view
// with it (join.go), so the leader or candidate of a later view stands in the view of
// whoever stays. A stranger with a newer view means that this node was removed, or has
// not become a voter; then its former companions know, and answer with the view.
//
// If none of them is left, nobody can vouch. After Lease + RemoveAfter without a
// leader this node holds nothing that could be lost, and believes the stranger: at
// worst its incarnation, which cannot act, ends.

// speaks reports whether msg counts when it comes from a node, and answers or notes it
// if not.
func (c *Core) speaks(from NodeID, msg Message) bool {
	if c.mutant == mutantStrangersSpeak {
		return true
	}
	if c.view == nil {
		return c.speaksToJoiner(from, msg)
	}
	if c.view.Member(from) != nil {
		return true
	}
	switch m := msg.(type) {
	case *JoinRequest:
		return c.admitStranger(m.Hops == 0, from)
	case *Encounter, *Confront, *Confronted:
		return true // from another cluster of our name: foreign.go, vouch.go
	case *LeaveRequest, *NeedView:
		return c.admitStranger(c.gone[from], from)
	case *Contest:
		return m.View != nil && c.believes(from, m.View, compare(c.view, m.View) == stands)
	}
	v, epoch := shownView(msg)
	if v != nil {
		return c.believes(from, v, false)
	}
	if p, is := msg.(*Ping); is {
		switch {
		case p.Cluster != c.view.Cluster:
			return true // it is told apart where pings are handled
		case epoch < c.view.Epoch:
			return true // and is answered with our view there
		}
		c.consult(from)
		return false
	}
	return c.admitStranger(false, from)
}

// shownView returns the view that a message was sent in, and the epoch of a ping.
func shownView(msg Message) (*View, Epoch) {
	switch m := msg.(type) {
	case *Decided:
		return m.View, 0
	case *Ping:
		return m.View, m.Epoch
	case *Accept:
		return m.Base, 0
	case *PreVote:
		return m.Base, 0
	case *Prepare:
		return m.Base, 0
	case *Contested:
		return m.View, 0
	}
	return nil, 0
}

// believes judges a view that a node outside ours brings. asks is set on a question
// that may be answered whatever its sender is.
func (c *Core) believes(from NodeID, v *View, asks bool) bool {
	switch compare(c.view, v) {
	case older, stranger:
		return true // it is answered, or noted, and changes nothing here
	case stands:
		return true
	case newer:
		if asks || c.forsaken() {
			return true
		}
	case yields:
		if c.gone[from] || c.introduced[from] || c.forsaken() {
			return true
		}
	}
	c.consult(from)
	return false
}

// forsaken reports whether this node has been without a leader for so long that it can
// lose nothing by believing a stranger.
func (c *Core) forsaken() bool {
	since := max(c.grantedAt, c.heardAt)
	return !c.lease.Valid(c.now) && c.now.Sub(since) > c.patience()
}

func (c *Core) patience() time.Duration {
	d := c.cfg.Lease + c.cfg.RemoveAfter
	return d + c.margin(d)
}

// consult asks the members of our view for a newer one, once for each Ping: a stranger
// has shown that there may be one.
func (c *Core) consult(stranger NodeID) {
	if c.now.Before(c.nextConsult) {
		return
	}
	c.nextConsult = c.now.Add(c.cfg.Ping)
	c.trace("view shown by no member", stranger, "the members are asked")
	for i := range min(len(c.view.Members), joinerAsks) {
		c.send(c.view.Members[i].ID, &Decided{View: c.ref()})
	}
}

// admitStranger notes a message that only members send.
func (c *Core) admitStranger(ok bool, from NodeID) bool {
	if !ok && !c.gone[from] { // a former member may not know yet
		c.trace("spoken by no member", from, "")
	}
	return ok
}

// introducedMax bounds the nodes that members have shown in another lineage.
const introducedMax = membersMax

// introduce notes the members of another lineage that a member of ours has shown: they
// may contest our view themselves, should the member that showed them be gone.
func (c *Core) introduce(by NodeID, v *View) {
	if c.view.Member(by) == nil && !c.gone[by] || v.packed() {
		return
	}
	if c.introduced == nil || len(c.introduced)+len(v.Members) > introducedMax {
		c.introduced = map[NodeID]bool{}
	}
	for i := range v.Members {
		c.introduced[v.Members[i].ID] = true
	}
}

// speaksToJoiner reports whether a message counts at a node without a view: what the
// nodes say that it has asked to let it in, and the leader that these have named.
func (c *Core) speaksToJoiner(from NodeID, msg Message) bool {
	if c.entry.asked(from) {
		return true
	}
	if v, _ := shownView(msg); v != nil {
		c.trace("view shown by no contact", from, "")
		return false
	}
	return false // nothing else is for a node without a view
}
