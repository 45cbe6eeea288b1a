package main

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
)

const (
	// leavingSeen is how long a node that leaves waits for a view that shows it, as package peerage.
	leavingSeen = 250 * time.Millisecond
	// lookAgain is the interval of looks at a condition of a scene.
	lookAgain = 5 * time.Millisecond
)

// restartInTurn restarts nodes, one after the other: each leaves in order, starts again on its host,
// and is a member with a lease before the next one leaves. They are spread over the cluster, and
// begin with the leader.
func (c *cluster) restartInTurn() []int {
	all := c.living()
	count := len(all)
	if c.restarts > 0 {
		count = min(c.restarts, count)
	}
	first := max(c.leader(), 0)
	var order []int
	for i := range count {
		order = append(order, all[i*len(all)/count])
	}
	for i, slot := range order {
		if slot >= first {
			order = append(order[i:], order[:i]...)
			break
		}
	}
	c.restartAll(order)
	return all
}

// restartAll restarts the nodes of hosts in this order.
func (c *cluster) restartAll(slots []int) {
	if c.busy = len(slots) > 0; !c.busy {
		return
	}
	former := c.slots[slots[0]]
	former.leaveInOrder()
	c.awaitTrue(func() bool {
		n := c.slots[slots[0]]
		return n != nil && n != former && n.isUp()
	}, func() { c.restartAll(slots[1:]) })
}

// awaitTrue calls then as soon as a condition holds.
func (w *world) awaitTrue(ok func() bool, then func()) {
	if ok() {
		then()
		return
	}
	w.run.After(lookAgain, func() { w.awaitTrue(ok, then) })
}

// isUp reports whether the node is a member that is up, has a lease, and is registered for all types.
func (n *node) isUp() bool {
	v := n.member.View()
	if v == nil || !n.member.LeaseValid() {
		return false
	}
	for _, t := range n.types {
		if !t.region.Registered() {
			return false
		}
	}
	m := v.Member(n.p.ID())
	return m != nil && m.Status == gossip.Up
}

// leaveInOrder takes the node out in order: it announces that it leaves, and leaves once a view
// shows that.
func (n *node) leaveInOrder() {
	n.member.StartLeaving()
	n.member.Step(view.AnnounceLeave{})
	until := n.w.run.Now().Add(leavingSeen)
	n.w.awaitTrue(func() bool {
		v := n.member.View()
		m := v.Member(n.p.ID())
		return n.p.Removed() || m == nil || m.Status == gossip.Leaving || n.w.run.Now() >= until
	}, func() {
		n.drainTypes(func() { n.member.Step(view.Leave{}) })
	})
}
