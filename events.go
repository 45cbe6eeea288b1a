package peerage

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
)

// Subscribe calls fn for each event of the cluster and of this node. The events are those
// of package gossip:
//
//   - ViewChanged: a new view.
//   - MemberJoined, MemberLeft, MemberRemoved: members come and go, with the reason and the
//     evidence.
//   - LeaderChanged, QuorumLost, QuorumRegained.
//   - LeaseChanged: this node's lease pauses or resumes.
//   - Removed: an incarnation has ended. The events of the next incarnation follow, with a
//     MemberJoined for each member of its first view.
//
// The first events describe the current state. Subscribe may be called at any time, also
// before Start.
//
// fn runs in a goroutine of its own, one event after the other, and may block: neither the
// node nor other subscribers wait for it. At most 4096 events, and one for each member,
// wait for fn. If fn falls further behind, it receives gossip.Missed and then the current
// state; this is counted (peerage_cluster_events_missed_total). Events arrive after the
// fact: code that must not run without a lease has to check LeaseValid.
//
// After cancel, no further call of fn begins; a call that is running may still finish. fn
// may call cancel and all methods of the Node. Close delivers the remaining events, for at
// most 100 ms.
func (n *Node) Subscribe(fn func(gossip.Event)) (cancel func()) { return n.feed.Subscribe(fn) }

// feedPatience is how long Close waits for subscribers.
const feedPatience = 100 * time.Millisecond

// closeFeed delivers the remaining events to subscribers. It does not wait for slow ones.
func (n *Node) closeFeed() {
	ctx, cancel := context.WithTimeout(context.Background(), feedPatience)
	defer cancel()
	_ = n.feed.Close(ctx)
}

// membership returns this node's part in the cluster. Between incarnations it returns the
// zero Status.
func (n *Node) membership() membership.Status {
	if s := n.stack.Load(); s != nil {
		return s.gossip.Status()
	}
	return membership.Status{}
}
