package view

import "github.com/peerage-go/peerage/gossip"

// Views on the wire. A view of a thousand members takes some 50 kB, and every change is
// sent to all of them several times. So a view of packFrom or more members is sent as a
// difference from one that the receiver holds: removed members, changed statuses, new
// members. If the receiver probably holds the view itself, the difference is empty.
//
// A receiver that does not hold the base cannot unpack the view, but can identify it:
// cluster, epoch and forks are always included, and suffice to compare (lineage.go). If
// it lacks that view, it requests the whole (NeedView) and drops the message. From then
// on the sender sends whole views to this receiver.
//
// Everything else in this package works on whole views: a message's view is unpacked
// before its members are read, against the view that this node holds.

// packFrom is the number of members from which views are packed.
const packFrom = 8

// change is the difference between a packed view and its base. The members of a view are
// those of its base, in their order, without the removed, followed by the new ones.
type change struct {
	// base is the epoch of the base view; the view's own epoch if the difference is
	// empty.
	base  gossip.Epoch
	gone  []gossip.NodeID
	other []statusOf
	added []gossip.Member
}

// statusOf is a member's new status.
type statusOf struct {
	id     gossip.NodeID
	status gossip.Status
}

// SentView is a view as a message carries it: whole, or as a difference from another view.
// Without its members, a packed view has all other fields, which suffice to compare it.
type SentView struct {
	*gossip.View
	// change is nil if the view is whole.
	change *change
}

// Whole returns a view as it is sent with its members, nil if v is nil.
func Whole(v *gossip.View) *SentView {
	if v == nil {
		return nil
	}
	return &SentView{View: v}
}

// Header returns the view, without members if it is packed; nil if v is nil.
func (v *SentView) Header() *gossip.View {
	if v == nil {
		return nil
	}
	return v.View
}

// On returns the whole view, by the view that the sender of the message holds: a packed view is
// a difference from it. On returns nil if it is a difference from another view.
func (v *SentView) On(held *gossip.View) *gossip.View {
	switch {
	case v == nil:
		return nil
	case v.change == nil:
		return v.View
	case held == nil || held.Cluster != v.Cluster || held.Epoch != v.change.base || !continues(held, v.View):
		return nil
	}
	return v.change.applyTo(v.View, held)
}

// Packed reports whether the view must be unpacked before its members can be read.
func (v *SentView) Packed() bool { return v != nil && v.change != nil }

// difference returns the change from base to v, nil if it is not a series of single
// steps.
func difference(v, base *gossip.View) *change {
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

// perMember is about how many removed members or changed statuses take as many bytes as a member.
const perMember = 6

// saves reports whether the difference takes at most about half the bytes of the whole view v.
func (d *change) saves(v *gossip.View) bool {
	return (len(d.gone)+len(d.other))/perMember+len(d.added) <= len(v.Members)/2
}

// continues reports whether v is in base's lineage, at base or after it.
func continues(base, v *gossip.View) bool {
	r := compareViews(base, v)
	return r == newer || r == same
}

// applyTo computes the whole view, nil if the difference does not fit the base.
func (d *change) applyTo(v, base *gossip.View) *gossip.View {
	out := &gossip.View{Cluster: v.Cluster, Origin: v.Origin, Epoch: v.Epoch, Forks: v.Forks, Standing: v.Standing, TokensFrom: v.TokensFrom, Least: v.Least, Foreign: v.Foreign, Out: v.Out}
	out.Members = make([]gossip.Member, 0, len(base.Members)+len(d.added))
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

// onNeedView sends the whole view that the asker could not unpack if it still matters,
// otherwise the view that this node holds.
func (c *Core) onNeedView(from gossip.NodeID) {
	m := c.view.Member(from)
	switch {
	case c.view == nil:
	case c.campaign.candidacy != nil && c.campaign.candidacy.base == c.view.Epoch && m != nil:
		c.sendTo(from, c.campaign.candidacyMessage(Whole(c.view)))
	case c.leadership != nil && m != nil && c.leadership.peers[from] != nil:
		c.leadership.sendWholeView(m)
	default:
		c.sendTo(from, &Decided{View: Whole(c.view)})
	}
}
