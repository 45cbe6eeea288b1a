package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/fence"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// A kernel retransmits what a process has written, also when the process has ended or
// goes on as its next incarnation: frames may arrive seconds late, behind those of the
// later incarnation. The receiver must not take them; package fence decides.

// fenceMax bounds the tables of package fence: no run has as many incarnations.
const fenceMax = 1 << 16

// retransmitMost is how long a kernel goes on for a process that has ended, lateMost how
// late its bytes come in runs in which they come late.
const (
	retransmitMost = 5 * time.Second
	lateMost       = 3 * time.Second
)

// linger delivers what an ended process had sent, then the end of the stream.
func (c *conn) linger() {
	c.state = dead
	late := time.Duration(0)
	if c.w.swarm.lateBytes {
		late = c.w.netRand.Duration(0, lateMost)
	}
	for i := range c.pending {
		c.pending[i].due = max(c.pending[i].due, c.w.Now().Add(late))
	}
	c.retransmit(c.w.Now().Add(retransmitMost))
}

// retransmit sends the rest of a lingering connection when it is due and the path open.
func (c *conn) retransmit(giveUp virtual.Instant) {
	w := c.w
	if len(c.pending) == 0 {
		c.ended()
		return
	}
	w.At(max(c.pending[0].due, w.Now()), func() {
		switch {
		case !c.to.alive, c.closed, w.Now() > giveUp, w.path(c.from.slot, c.to.slot) == reject:
			w.lost += len(c.pending)
			c.pending = nil
		case w.path(c.from.slot, c.to.slot) == drop && w.swarm.lateBytes:
			c.pending[0].due = w.Now().Add(w.netRand.Duration(20*time.Millisecond, 600*time.Millisecond))
		case w.path(c.from.slot, c.to.slot) == drop:
			w.lost++
			c.pending = c.pending[1:]
		default:
			head := c.pending[0]
			c.pending = c.pending[1:]
			c.arrive(head.frame)
		}
		c.retransmit(giveUp)
	})
}

// admits decides, as an accepting transport does, whether a connection is welcome, and
// ends those that it supersedes.
func (p *proc) admits(c *conn) bool {
	if p.w.cfg.Mutant.Is("late frames are taken") {
		return true
	}
	if c.class != transport.Control && p.dropped.Has(c.from.node.ID) {
		return false
	}
	switch p.marks.Accept(c.from.process, c.from.incarnation) {
	case fence.Superseded, fence.Full:
		return false
	}
	for _, old := range p.accepted() {
		if old.from.process == c.from.process && old.from.incarnation < c.from.incarnation {
			old.fence()
		}
	}
	return true
}

// accepted returns the accepted connections in a fixed order.
func (p *proc) accepted() []*conn {
	all := make([]*conn, 0, len(p.in))
	for _, c := range p.in {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conn) int {
		return cmp.Or(cmp.Compare(a.from.node.ID, b.from.node.ID), cmp.Compare(a.class, b.class))
	})
	return all
}

// fence ends a connection whose sender counts no longer; both ends learn of it.
func (c *conn) fence() {
	key := peerClass{c.from.node.ID, c.class}
	if c.closed || c.to.in[key] != c {
		return
	}
	c.closed = true
	delete(c.to.in, key)
	c.w.hit(markLateFenced)
	c.w.After(0, func() { c.to.peerEvent(transport.AcceptedLost, c.class, c.from.node.ID, 0) }) // its reader reports the loss
	c.w.After(c.w.hosts[c.to.slot].latency[c.from.slot], func() {
		if c.state == up && c.stalled == virtual.Never {
			c.breaks()
		}
	})
}

// fenceDropped ends the connections of members that a newer view has dropped.
func (p *proc) fenceDropped(v *gossip.View) {
	ids := make([]nodeID, len(v.Members))
	for i := range v.Members {
		ids[i] = v.Members[i].ID
	}
	for _, id := range p.dropped.SetMembers(ids) {
		for _, class := range []transport.Class{transport.Message, transport.Bulk} {
			if c := p.in[peerClass{id, class}]; c != nil && !p.w.cfg.Mutant.Is("late frames are taken") {
				c.fence()
			}
		}
	}
}
