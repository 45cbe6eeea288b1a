package invariant

import (
	"math"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Two clusters of one name that start apart each run every shard, and give out tokens of
// their own, until they meet. From then on these hold:
//
//   - Two instances of a shard do not act while both of their nodes are ready: a node
//     whose view records a contest is not ready. A node that has not learned of the
//     contest holds its lease for at most the grace.
//   - A region whose view is that of the absorption, or later, starts shards only under
//     tokens above all tokens of the absorbed cluster, and eventually no older token lives
//     in the cluster. An allocation that is on its way when the view comes may still start in
//     a region without the view. Then it is renewed like the shards that live already.

// contests holds when each contest began, by the cluster whose view records it and its
// opponent.
type contests map[[2]uint64]time.Duration

// noteContests records the contests of v, the newest view of its cluster, and drops those that
// have ended: the cluster's own newest view records no contest with the opponent, and the
// opponent's newest view does not yield. Either view may be the one that ends the contest: an
// emergency takeover by members that never learned of a yield replaces the view that yields.
func (c contests) noteContests(at time.Duration, v *gossip.View, newest map[uint64]*gossip.View) {
	for i := range v.Foreign {
		key := [2]uint64{v.Cluster, v.Foreign[i].Cluster}
		if _, open := c[key]; !open {
			c[key] = at
		}
	}
	for key := range c { // order-free: each is judged by itself
		if newest[key[0]].Contest(key[1]) == nil && newest[key[1]].Yields() == nil {
			delete(c, key)
		}
	}
}

// InContest returns since when two clusters are in contest by the view of either.
func (m *Membership) InContest(a, b uint64) (since time.Duration, open bool) {
	since, open = m.contests[[2]uint64{a, b}]
	if other, too := m.contests[[2]uint64{b, a}]; too && (!open || other < since) {
		return other, true
	}
	return since, open
}

// Ready reports whether the view that a node holds records no contest.
func (m *Membership) Ready(id gossip.NodeID) bool {
	n := m.nodes[id]
	return n != nil && n.held != nil && len(n.held.Foreign) == 0
}

// Cluster returns the cluster that a node holds a view of, 0 if none.
func (m *Membership) Cluster(id gossip.NodeID) uint64 {
	if n := m.nodes[id]; n != nil && n.held != nil {
		return n.held.Cluster
	}
	return 0
}

// Apart makes the checker distinguish clusters that may live side by side. Function side
// returns a cluster's side: a cluster and its successors share one.
func (h *Hosting) Apart(side func(cluster uint64) int, grace time.Duration) {
	h.side, h.grace = side, grace
}

// sideOf returns the side on which a node stands: that of its cluster, or its lineage.
func (h *Hosting) sideOf(node gossip.NodeID) int { return h.sideOfLineage(h.members.Lineage(node)) }

func (h *Hosting) sideOfLineage(lineage uint64) int {
	switch {
	case h.members.lineages.tracked:
		return int(lineage)
	case h.side == nil:
		return 0
	}
	return h.side(lineage)
}

// bound is the token that the shards of a cluster must exceed from a view on.
type bound struct {
	cluster uint64
	from    gossip.Epoch
	token   protocol.Token
}

// Absorbed records that a view has admitted a node of another cluster: regions that hold it
// must start shards with higher tokens than all of the other cluster's, if that has yielded. If
// it has not, it lives on, and the tokens of the generations that the node met are meant.
func (h *Hosting) Absorbed(v *gossip.View, loser uint64, met uint32) {
	if h.side(v.Cluster) == h.side(loser) {
		return
	}
	if h.members.clusters[loser].Yields() != nil {
		met = math.MaxUint32
	}
	for _, x := range h.shards { // order-free: each shard by itself
		if top := x.topUntil(loser, met); !top.IsZero() {
			x.bounds = append(x.bounds, bound{v.Cluster, v.Epoch, top})
		}
	}
}

// topUntil returns the highest token of a cluster in generations up to one.
func (x *hosting) topUntil(cluster uint64, generation uint32) (top protocol.Token) {
	for source, t := range x.tops { // order-free: a maximum
		if source.lineage == cluster && source.generation <= generation {
			top = top.Max(t)
		}
	}
	return top
}

// boundAbove returns a bound that a token in a view of a cluster does not exceed, if there is
// one.
func (x *hosting) boundAbove(t protocol.Token, cluster uint64, view gossip.Epoch) (b bound, found bool) {
	for _, b := range x.bounds {
		if b.cluster == cluster && b.from <= view && !b.token.Less(t) {
			return b, true
		}
	}
	return b, false
}

// Outdated returns a live instance at a member with a token below those of a cluster that
// its own has absorbed.
func (h *Hosting) Outdated() (s protocol.ShardID, node gossip.NodeID, found bool) {
	for id, x := range h.shards { // order-free: callers ask again until there is none
		for _, i := range x.live {
			if _, low := x.boundAbove(i.token, h.members.Cluster(i.node), math.MaxUint64); low && h.members.Member(i.node) {
				return id, i.node, true
			}
		}
	}
	return 0, 0, false
}

// bothReady checks that two instances of two clusters do not act while both are ready and
// a view of either records the contest.
func (h *Hosting) bothReady(at time.Duration, s protocol.ShardID, a, b instance) *Violation {
	since, open := h.members.InContest(h.members.Cluster(a.node), h.members.Cluster(b.node))
	if !open || at-since <= h.grace || !h.members.Ready(a.node) || !h.members.Ready(b.node) {
		return nil
	}
	return broken("S1", at, "shard %d acts at %v (%v) and %v (%v), both ready, of clusters that are in contest since %v",
		s, a.node, a.token, b.node, b.token, since)
}
