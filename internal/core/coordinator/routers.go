package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
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
func (ms *members) routers() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range ms.view.Members {
		n := ms.view.Members[i].ID
		if p := ms.peers[n]; p != nil && p.registered || ms.unsaid(n) && ms.findable(n) {
			out = append(out, n)
		}
	}
	return out
}

// findable reports whether a successor would find that this member may route.
func (ms *members) findable(n gossip.NodeID) bool {
	if p := ms.peers[n]; p != nil && p.listed {
		return true
	}
	m := ms.view.Member(n)
	return m != nil && m.HasRole(ms.cfg.Role)
}
