package view

import "slices"

// Views on the wire. A view of a thousand members takes some 50 kB, and every step to
// the next one is told to all of them several times over. So a view of packFrom and
// more members travels as what makes it different from one that the receiver holds:
// who is gone, whose status is another, who is new. A view that the receiver is
// thought to hold itself is a difference that is empty.
//
// A receiver that does not hold the base cannot tell what the view is, but which one:
// cluster, epoch and forks are always there, and they are enough to compare (lineage.go).
// When it turns out that it lacks that view, it asks for the whole (NeedView), and drops
// the message. The sender then sends the whole to this one, now and from there on.
//
// Everything else in this package works on whole views: messages are unpacked where a
// view is first looked into, against the one that this node holds.

// packFrom is from how many members on views are packed.
const packFrom = 32

// change is how a packed view differs from its base. The members of the next view are
// always those of its base, in their order, without the gone, and then the new ones.
type change struct {
	// base is the epoch of the view it differs from; its own epoch if it does not differ.
	base  Epoch
	gone  []NodeID
	other []statusOf
	added []Member
}

// statusOf is a member's new status.
type statusOf struct {
	id     NodeID
	status Status
}

// packed reports whether the view's members must be worked out first.
func (v *View) packed() bool { return v != nil && v.change != nil }

// pack returns v as a difference from base, or v itself where that is no gain: when it
// is small, when there is no base, or when it did not come from base by single steps.
func (c *Core) pack(v, base *View) *View {
	if v == nil || base == nil || len(v.Members) < c.packFrom || v.packed() || base.packed() {
		return v
	}
	d := difference(v, base)
	if d == nil || len(d.gone)+len(d.other)+2*len(d.added) > len(v.Members)/2 {
		return v
	}
	packed := &View{Cluster: v.Cluster, Origin: v.Origin, Epoch: v.Epoch, Forks: v.Forks, Standing: v.Standing, TokensFrom: v.TokensFrom, Foreign: v.Foreign, change: d}
	if v != base { // who holds it already has its departures
		packed.Out = v.Out
	}
	return packed
}

// ref returns this node's view for those who are thought to hold it.
func (c *Core) ref() *View { return c.pack(c.view, c.view) }

// difference returns how v differs from base, nil if not by single steps.
func difference(v, base *View) *change {
	d := &change{base: base.Epoch}
	if v == base {
		return d
	}
	at := 0
	for i := range base.Members {
		m := &base.Members[i]
		if at == len(v.Members) || v.Members[at].ID != m.ID {
			d.gone = append(d.gone, m.ID)
			continue
		}
		if v.Members[at].Joined != m.Joined {
			return nil
		}
		if v.Members[at].Status != m.Status {
			d.other = append(d.other, statusOf{m.ID, v.Members[at].Status})
		}
		at++
	}
	d.added = v.Members[at:]
	for i := range d.added {
		if base.Member(d.added[i].ID) != nil {
			return nil // the order has changed
		}
	}
	return d
}

// unpack returns the whole view, nil if this node does not hold the base.
func (c *Core) unpack(v *View) *View {
	if !v.packed() {
		return v
	}
	if c.view == nil {
		return nil
	}
	if compare(c.view, v) == same {
		return c.view
	}
	// The view before the last is a base for a moment: while its successor is told.
	for _, base := range []*View{c.view, c.before} {
		if base != nil && base.Cluster == v.Cluster && base.Epoch == v.change.base && continues(base, v) {
			return v.change.apply(v, base)
		}
	}
	return nil
}

// continues reports whether v is of the line of base, at it or after it.
func continues(base, v *View) bool {
	r := compare(base, v)
	return r == newer || r == same
}

// apply works the members out, nil if the difference does not fit the base.
func (d *change) apply(v, base *View) *View {
	out := &View{Cluster: v.Cluster, Origin: v.Origin, Epoch: v.Epoch, Forks: v.Forks, Standing: v.Standing, TokensFrom: v.TokensFrom, Foreign: v.Foreign, Out: v.Out}
	out.Members = make([]Member, 0, len(base.Members)+len(d.added))
	gone, other := 0, 0
	for i := range base.Members {
		m := base.Members[i]
		if gone < len(d.gone) && d.gone[gone] == m.ID {
			gone++
			continue
		}
		if other < len(d.other) && d.other[other].id == m.ID {
			m.Status = d.other[other].status
			other++
		}
		out.Members = append(out.Members, m)
	}
	out.Members = append(out.Members, d.added...)
	if gone != len(d.gone) || other != len(d.other) || len(out.Members) > membersMax || !distinct(out.Members) {
		return nil
	}
	return out
}

// ask asks for the whole view that a message was about.
func (c *Core) ask(from NodeID, v *View) {
	c.trace("asks for the whole view", from, v.Epoch.String())
	c.send(from, &NeedView{Epoch: v.Epoch})
}

// onNeedView sends the whole: what the asker could not make use of, if it still
// matters, and the view that this node holds otherwise.
func (c *Core) onNeedView(from NodeID) {
	m := c.view.Member(from)
	switch {
	case c.view == nil:
	case c.cand != nil && c.cand.base == c.view.Epoch && m != nil:
		c.send(from, c.candidacyMessage(c.view))
	case c.office != nil && m != nil && c.office.peers[from] != nil:
		p := c.office.peers[from]
		p.whole = true
		c.send(from, c.roundMessage(m, p, &Ping{}))
		if prep := c.office.prep; prep != nil && prep.base == c.view.Epoch && !prep.yes[from] {
			certain, weak := c.deadMembers()
			c.send(from, &Prepare{Ballot: c.office.ballot, Base: c.view, Dead: certain, Weak: weak})
		}
	default:
		c.send(from, &Decided{View: c.view})
	}
}

// candidacyMessage is what a candidate asks its electorate now, with its view as given.
func (c *Core) candidacyMessage(base *View) Message {
	certain, weak := c.deadMembers()
	certain, weak = slices.Clip(certain), slices.Clip(weak)
	if c.cand.preparing {
		return &Prepare{Ballot: c.cand.ballot, Base: base, Dead: certain, Weak: weak}
	}
	return &PreVote{Ballot: c.cand.ballot, Base: base, Dead: certain, Weak: weak}
}
