package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// A leader that leaves commits the view without itself, and is then the only node that
// holds it. If the leader stopped immediately and its last messages were lost, no
// remaining node would hold the decided view, and the remaining nodes might be no quorum
// of the one they hold. So the leader stays for a moment, without lease or vote, and
// retransmits the view until a plain quorum of it has acknowledged it.

// farewell is the state of a leader that has left and distributes its last view.
type farewell struct {
	view *gossip.View
	// packed is the view as sent.
	packed *SentView
	knows  map[gossip.NodeID]bool
	next   clock.Instant
	until  clock.Instant
}

func (c *Core) startFarewell(v *gossip.View) {
	c.leadership, c.candidacy = nil, nil
	c.farewell = &farewell{view: v, packed: c.packView(v, c.view), knows: map[gossip.NodeID]bool{}, until: c.now.Add(2 * c.cfg.RemoveAfter)}
	c.driveFarewell()
}

// onFarewell handles a message: it counts the nodes that hold the view, and sends it to
// those that do not.
func (c *Core) onFarewell(from gossip.NodeID, msg Message) {
	f := c.farewell
	switch m := msg.(type) {
	case *Decided:
		if m.View != nil && m.View.Cluster == f.view.Cluster && m.View.Epoch >= f.view.Epoch {
			f.knows[from] = true
		}
	case *PreVote, *Prepare, *LeaveRequest, *JoinRequest, *NeedView:
		if f.view.Member(from) != nil {
			c.sendTo(from, &Decided{View: Whole(f.view)})
		}
	}
}

func (c *Core) driveFarewell() {
	f := c.farewell
	if c.quorums.plain(f.view, func(id gossip.NodeID) bool { return f.knows[id] }) || !c.now.Before(f.until) {
		c.endIncarnation(f.view.Epoch, "left")
		return
	}
	if c.now.Before(f.next) {
		return
	}
	f.next = c.now.Add(c.cfg.Ping / 2)
	for i := range f.view.Members {
		if id := f.view.Members[i].ID; !f.knows[id] && c.evidence.mayLive(id) {
			c.sendTo(id, &Decided{View: f.packed})
		}
	}
}
