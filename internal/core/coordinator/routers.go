package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Routers
//
// A shard stops when all routes to it are closed; otherwise, requests forwarded to its
// former home are lost when that home leaves. Registered regions and proxies are asked to
// close theirs. So are members that have not registered in this term: they may still route
// by homes from an earlier coordinator, and their view, and with it their messages to this
// node, may be late. The members that might do so are determined as follows:
//
//   - Members with the role might, of any status.
//   - Proxies, outside the role, receive homes only when the records name them at majority.
//     A successor reads the records before it moves a shard. A successor that takes office
//     before they are written has raised the fence, so they never are.
//
// Rejected: to wait for all of them to register. It takes as long, and the request closes
// their routes as well. To ask all members outside the role: most of them do not run
// the type, and each move would wait for each of them.

// routers returns the members that may have routes to close, most senior first.
func (c *Core) routers() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		if p := c.peers[n]; p != nil && p.registered || c.unsaid(n) && c.findable(n) {
			out = append(out, n)
		}
	}
	return out
}

// findable reports whether a successor would find that this member may route.
func (c *Core) findable(n gossip.NodeID) bool {
	m, p := c.view.Member(n), c.peers[n]
	return m != nil && m.HasRole(c.cfg.Role) || p != nil && p.listed
}

// list notes that the records name a member. A proxy has waited for that.
func (c *Core) list(n gossip.NodeID) {
	if c.view.Member(n) == nil {
		return
	}
	waited := !c.findable(n)
	p := c.peer(n)
	if p.listed = true; waited && p.registered {
		c.tellServed(n)
	}
}

// tellServed sends the homes of all served shards to a region or proxy.
func (c *Core) tellServed(n gossip.NodeID) {
	for i := range c.shards {
		if c.shards[i].served() {
			c.outbox.homes.add(n, protocol.ShardID(i))
		}
	}
}
