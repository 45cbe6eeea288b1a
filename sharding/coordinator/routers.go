package coordinator

import (
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// Who routes
//
// A shard stops when all routes to it are closed, or what is sent on to its former home
// is lost when that one leaves. Those who are registered are asked to close theirs. So
// are members that have not spoken in this term: they may route by what an earlier
// coordinator has told them, and their view, and with it what they say to us, may be
// late. Which of them might is known, because
//
//   - members with the role might, whatever their status;
//   - others, proxies, are told of homes only when the records name them at majority.
//     A successor reads the records before it moves anything; and one that takes office
//     before they are written has raised the fence, so they never are.
//
// Rejected: to wait for all of them to register. It takes as long, and to ask them closes
// their routes as well. To ask all members outside the role: most of them do not know
// the type, and each move would wait for each of them.

// routers returns who may have routes to close, most senior first.
func (c *Core) routers() []view.NodeID {
	var out []view.NodeID
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		if p := c.peers[n]; p != nil && p.registered || c.unsaid(n) && c.findable(n) {
			out = append(out, n)
		}
	}
	return out
}

// findable reports whether a successor would know of a member that it may route.
func (c *Core) findable(n view.NodeID) bool {
	m, p := c.view.Member(n), c.peers[n]
	return m != nil && m.HasRole(c.cfg.Role) || p != nil && p.listed
}

// list notes that the records name a member. A proxy has waited for that.
func (c *Core) list(n view.NodeID) {
	if c.view.Member(n) == nil {
		return
	}
	waited := !c.findable(n)
	p := c.peer(n)
	if p.listed = true; waited && p.registered {
		c.tellServed(n)
	}
}

// tellServed tells a region or proxy of everything that is served.
func (c *Core) tellServed(n view.NodeID) {
	for i := range c.shards {
		if c.shards[i].served() {
			c.outbox.homes.add(n, protocol.ShardID(i))
		}
	}
}
