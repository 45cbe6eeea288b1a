package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// A member that is about to leave announces it first (AnnounceLeave). The following views
// show it as leaving, so that nothing new is placed on it while it hands over its shards.
// Nothing else changes: it votes, holds its lease and may lead until it leaves (Leave). A
// leaving member never becomes up again, since a status never goes back; to stay, it must
// start a new incarnation.
//
// The notice is retransmitted until a view shows the member as leaving: only the leader
// holds it, and loses it when it steps down, as with join requests.

// departure holds this node's own leave and its announcement, and the leave requests that
// arrived while there was no leader.
type departure struct {
	*history
	evidence *evidence

	leaving   bool
	nextLeave clock.Instant
	// leavers holds the members that sent LeaveRequest while there was no leader.
	leavers map[gossip.NodeID]bool
	// announced is set once this node has announced that it will leave.
	announced    bool
	nextAnnounce clock.Instant
}

// driveAnnounce retransmits the notice until a view shows this node as leaving.
func (c *Core) driveAnnounce() bool {
	if !c.departure.sendNotice(c.follower.leader) || c.leadership == nil {
		return false
	}
	c.leadership.queueNotice(c.self())
	return true
}

// sendNotice sends the notice to the leader if it is due, and reports whether it was.
func (d *departure) sendNotice(leader gossip.NodeID) bool {
	if !d.announces() || d.now.Before(d.nextAnnounce) {
		return false
	}
	d.nextAnnounce = d.now.Add(d.cfg.Ping)
	d.sendTo(leader, &LeaveNotice{})
	return true
}

// announces reports whether this node still waits for a view that shows it as leaving.
func (d *departure) announces() bool {
	return d.announced && !d.leaving && d.view != nil && d.status == gossip.Up
}

// requestLeave sends the leave request to the leader, or to all members if there is none, at
// most once per Ping. A leader needs no request of its own.
func (d *departure) requestLeave(leader gossip.NodeID) {
	if d.now.Before(d.nextLeave) {
		return
	}
	d.nextLeave = d.now.Add(d.cfg.Ping)
	if leader != 0 {
		d.sendTo(leader, &LeaveRequest{})
	} else {
		d.evidence.toElectorate(&LeaveRequest{})
	}
}

// repeatLeave makes the node retransmit its request or its notice immediately: there is a
// new leader.
func (d *departure) repeatLeave() {
	if d.leaving {
		d.nextLeave = d.now
	}
	if d.announced {
		d.nextAnnounce = d.now
	}
}

// allLeave reports whether all living voters, this node included, have asked to leave:
// then no other candidate is worth waiting for.
func (d *departure) allLeave() bool {
	for i := range d.view.Members {
		m := &d.view.Members[i]
		if m.ID != d.self() && m.Status.Votes() && !d.leavers[m.ID] && !d.evidence.dead(m.ID) {
			return false
		}
	}
	return true
}

// allOthersDead reports whether every other member is proven dead.
func (d *departure) allOthersDead() bool {
	for i := range d.view.Members {
		if id := d.view.Members[i].ID; id != d.self() && !d.evidence.dead(id) {
			return false
		}
	}
	return true
}

// A leader that leaves commits the view without itself, and is then the only node that
// holds it. If the leader stopped immediately and its last messages were lost, no
// remaining node would hold the decided view, and the remaining nodes might be no quorum
// of the one they hold. So the leader stays for a moment, without lease or vote, and
// retransmits the view until a plain quorum of it has acknowledged it.

// farewell is the state of a leader that has left and distributes its last view.
type farewell struct {
	*history
	evidence *evidence
	quorums  *quorums
	// last is the view that it distributes, which leaves this node out.
	last *gossip.View
	// packed is the view as sent.
	packed *SentView
	knows  map[gossip.NodeID]bool
	next   clock.Instant
	until  clock.Instant
}

// startFarewell makes this leader, which v leaves out, distribute v.
func (c *Core) startFarewell(v *gossip.View) {
	c.leadership, c.campaign.candidacy = nil, nil
	c.farewell = &farewell{last: v, packed: c.packView(v, c.view), knows: map[gossip.NodeID]bool{}, until: c.now.Add(2 * c.cfg.RemoveAfter)}
	c.wireMachines()
	c.driveFarewell()
}

// driveFarewell ends the incarnation once the last view is distributed.
func (c *Core) driveFarewell() {
	if c.farewell.distributeView() {
		c.endIncarnation(c.farewell.last.Epoch, "left")
	}
}

// countAnswer handles a message: it counts the nodes that hold the view, and sends it to
// those that do not.
func (f *farewell) countAnswer(from gossip.NodeID, msg Message) {
	switch m := msg.(type) {
	case *Decided:
		if m.View != nil && m.View.Cluster == f.last.Cluster && m.View.Epoch >= f.last.Epoch {
			f.knows[from] = true
		}
	case *PreVote, *Prepare, *LeaveRequest, *JoinRequest, *NeedView:
		if f.last.Member(from) != nil {
			f.sendTo(from, &Decided{View: Whole(f.last)})
		}
	}
}

// distributeView sends the view when that is due. It reports whether a quorum holds the view
// or the time is over.
func (f *farewell) distributeView() (done bool) {
	if f.quorums.plain(f.last, func(id gossip.NodeID) bool { return f.knows[id] }) || !f.now.Before(f.until) {
		return true
	}
	if f.now.Before(f.next) {
		return false
	}
	f.next = f.now.Add(f.cfg.Ping / 2)
	for i := range f.last.Members {
		if id := f.last.Members[i].ID; !f.knows[id] && f.evidence.mayLive(id) {
			f.sendTo(id, &Decided{View: f.packed})
		}
	}
	return false
}
