package view

import "github.com/peerage-go/peerage/gossip"

// A member that is about to leave announces it first (AnnounceLeave). The following views
// show it as leaving, so that nothing new is placed on it while it hands over its shards.
// Nothing else changes: it votes, holds its lease and may lead until it leaves (Leave). A
// leaving member never becomes up again, since a status never goes back; to stay, it must
// start a new incarnation.
//
// The notice is retransmitted until a view shows the member as leaving: only the leader
// holds it, and loses it when it steps down, as with join requests.

// driveAnnounce retransmits the notice to the leader until a view shows this node as
// leaving.
func (c *Core) driveAnnounce() bool {
	if !c.announces() || c.now.Before(c.nextAnnounce) {
		return false
	}
	c.nextAnnounce = c.now.Add(c.cfg.Ping)
	if c.leadership == nil {
		c.sendTo(c.leader, &LeaveNotice{})
		return false
	}
	c.onLeaveNotice(c.self())
	return true
}

// announces reports whether this node still waits for a view that shows it as leaving.
func (c *Core) announces() bool {
	return c.announced && !c.leaving && c.view != nil && c.status == gossip.Up
}

func (c *Core) onLeaveNotice(from gossip.NodeID) {
	o := c.leadership
	m := c.view.Member(from)
	if o == nil || m == nil || m.Status == gossip.Leaving || o.notices[from] {
		return
	}
	o.notices[from] = true
	if o.batchAt == 0 {
		o.batchAt = c.now.Add(c.batchWait())
	}
}

// turnsLeaving reports whether the next view shows a member as leaving.
func (c *Core) turnsLeaving(m *gossip.Member) bool {
	return m.Status == gossip.Up && c.leadership.notices[m.ID] && !c.now.Before(c.leadership.batchAt)
}
