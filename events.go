package peerage

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Subscribe calls fn for what happens to the cluster and to this node's part in it, as
// package gossip's events: views (gossip.ViewChanged), members that come and go with
// the reason and the evidence (gossip.MemberJoined, MemberLeft, MemberRemoved), the
// leader (LeaderChanged), the lease as it pauses and resumes (LeaseChanged), the quorum
// (QuorumLost, QuorumRegained), and the end of an incarnation (Removed), after which
// the next one's events follow, with a MemberJoined for each member of its first view.
// The state so far is told first. Subscribe may be called at any time, before Start too.
//
// fn is called from a goroutine of its own, one event after the other, and may block:
// nothing waits for it, neither the node nor other subscribers, and what waits for it
// is bounded. Who falls too far behind (4096 events and one for each member) is told
// gossip.Missed and then the state anew, which is counted
// (peerage_cluster_events_missed_total). So events come after the fact: what must not
// run without a lease asks LeaseValid.
//
// After cancel no further call of fn begins; one under way may still finish. cancel
// and all methods of the Node may be called from fn. Close lets fn be told the rest,
// for at most 100 ms.
func (n *Node) Subscribe(fn func(gossip.Event)) (cancel func()) { return n.feed.Subscribe(fn) }

// feedPatience is how long Close waits for subscribers.
const feedPatience = 100 * time.Millisecond

// closeFeed tells subscribers what waits for them. Those that are slow are left behind.
func (n *Node) closeFeed() {
	ctx, cancel := context.WithTimeout(context.Background(), feedPatience)
	defer cancel()
	_ = n.feed.Close(ctx)
}

// Membership returns how this node stands in its cluster: view, ballots, lease, links,
// contact points and recent events; the zero Status while it is between incarnations.
func (n *Node) Membership() gossip.Status {
	if s := n.stack.Load(); s != nil {
		return s.gossip.Status()
	}
	return gossip.Status{}
}
