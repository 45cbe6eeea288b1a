package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/run"
)

// contacts models memberlist as an adversary. Its contacts differ from node to node, come
// late and repeatedly, and mix the dead with the living. They never contain a view's
// membership. The only requirement is that a living contact comes up in the end.
type contacts struct {
	run   *run.Run
	hosts *hosts
	// formed counts the clusters that were formed.
	formed int
}

// informRepeatedly hands contacts to a process, and decides which process forms a cluster.
func (c *contacts) informRepeatedly(n *node) {
	wait := c.run.Rand.Contact.Duration(20*time.Millisecond, 400*time.Millisecond)
	if n.member.View() != nil {
		wait *= 4
	}
	c.run.After(wait, func() {
		if n.p.Active() {
			n.p.Thread.Run(func() { c.inform(n) })
			c.informRepeatedly(n)
		}
	})
}

// inform hands contacts to a process, or has it form a cluster.
func (c *contacts) inform(n *node) {
	if n.p.Removed() {
		return
	}
	if n.member.View() == nil && c.mayForm(n) {
		n.p.Event("forms", 0, nil)
		c.formed++
		if c.formed > 1 {
			c.run.Hit(coverage.Reformed)
		}
		generation, millisecond := c.hosts.walls.formingGeneration(n.p.Slot, c.generations())
		n.member.Step(view.Form{Generation: generation, Millisecond: millisecond, Secret: [2]uint64{uint64(c.formed), 1}})
		return
	}
	if given := c.draw(n); len(given) > 0 {
		n.member.Step(view.Contacts{Nodes: given})
	}
}

// generations returns the generations that processes have met, by host.
func (c *contacts) generations() []uint32 {
	generations := make([]uint32, len(c.hosts.all))
	for _, q := range c.hosts.running() {
		generations[q.p.Slot] = q.generation
	}
	return generations
}

// draw draws the nodes that memberlist reports to one process at one time.
func (c *contacts) draw(n *node) []gossip.Node {
	var given []gossip.Node
	r, all := c.run.Rand.Contact, c.hosts.all
	for _, i := range r.Subset(len(all), 1+r.IntN(len(all))) {
		if c.hosts.meeting.isParted(n.p.Slot, i) {
			continue
		}
		if q := all[i].node; q != nil && (q != n || r.Chance(10)) {
			given = append(given, q.p.Node)
		}
		if old := all[i].former; len(old) > 0 && r.Chance(25) {
			given = append(given, old[r.IntN(len(old))])
		}
	}
	return given
}

// mayForm is the forming rule of internal/membership with all hosts as contact points and
// all of them expected: every one answers, none belongs to a cluster, and this node
// has the lowest address.
func (c *contacts) mayForm(n *node) bool {
	for i := range c.hosts.all {
		at := &c.hosts.all[i]
		if c.hosts.meeting.separates(i, n.p.Slot) {
			if c.findsOther(n, i) {
				return false
			}
			continue
		}
		if !at.expected {
			continue
		}
		q := at.node
		if q == nil || q.p.Thread.Paused() || q.p.Removed() || q.member.View() != nil || c.hosts.net.Blocked(n.p.Slot, i) != network.Open || i < n.p.Slot {
			return false
		}
	}
	return true
}

// findsOther reports whether a host of the other side, which is no contact point, shows a
// cluster that can be reached, and joined.
func (c *contacts) findsOther(n *node, slot int) bool {
	q := c.hosts.all[slot].node
	return c.hosts.meeting.met && q != nil && q.member.View() != nil && c.hosts.net.Blocked(n.p.Slot, slot) == network.Open
}

// LookAround asks one contact point which cluster it belongs to.
func (n *node) LookAround() {
	h, r := n.hosts, n.hosts.run
	i := r.Rand.Contact.IntN(len(h.all))
	q, ours := h.all[i].node, n.member.View()
	if q == nil || q == n || q.p.Thread.Paused() || q.p.Removed() || q.member.View() == nil || h.net.Blocked(n.p.Slot, i) != network.Open || ours.Member(q.p.ID()) != nil {
		return
	}
	theirs := q.member.View()
	switch {
	case theirs.Cluster == ours.Cluster:
		if !invariant.SameView(theirs, ours) {
			n.member.Send(view.Send{To: q.p.ID(), Msg: &view.Decided{View: view.Whole(ours)}})
		}
	case !q.member.LeaseValid():
	case n.member.Isolated() > r.Config.RemoveAfter+r.Config.Lease:
		n.Removed(gossip.Removed{Reason: "lost its quorum and found a live cluster", Outranked: true})
	case n.member.LeaseValid():
		n.member.Step(view.ForeignSeen{Cluster: theirs.Cluster, Nodes: append([]gossip.Node{q.p.Node}, nodesIn(theirs)...)})
	}
}

// nodesIn lists the members of a view.
func nodesIn(v *gossip.View) (out []gossip.Node) {
	for i := range v.Members {
		out = append(out, v.Members[i].Node)
	}
	return out
}
