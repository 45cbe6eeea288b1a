package invariant

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Hosting checks where instances live: S1 (one live instance), S7 (one owner per
// token, tokens grow), S11 (no start before the stop elsewhere). It rests on a
// Membership for leases and views.
//
// An instance is live at a node from Started until Stopped, Abandoned or Gone,
// and can act while the node's lease is valid. S1 in its effective form: at no
// time can two of one shard act. If lineages are tracked, that holds for members of the newest
// view of one. S11 is stronger: as long as a member of the newest view
// holds an instance, even without a lease, no other node of its cluster starts the shard,
// because that member may resume. A cluster that was formed beside a member without a
// lease starts it; S1 holds between the two.
type Hosting struct {
	members *Membership
	shards  map[protocol.ShardID]*hosting
	owners  map[shardToken]gossip.NodeID
	started map[protocol.ShardToken]bool
	// side distinguishes clusters that live side by side, nil if none do (apart.go).
	side  func(cluster uint64) int
	grace time.Duration
}

type shardToken struct {
	shard protocol.ShardID
	token protocol.Token
	side  int
}

// hosting is one shard. tops holds the highest token of each generation of a lineage, and bounds
// those of absorbed clusters.
type hosting struct {
	live   []instance
	tops   map[lineageGeneration]protocol.Token
	bounds []bound
}

type lineageGeneration struct {
	lineage    uint64
	generation uint32
}

type instance struct {
	node  gossip.NodeID
	token protocol.Token
}

// NewHosting returns an empty checker.
func NewHosting(m *Membership) *Hosting {
	return &Hosting{
		members: m, shards: map[protocol.ShardID]*hosting{}, owners: map[shardToken]gossip.NodeID{}, started: map[protocol.ShardToken]bool{},
	}
}

func (h *Hosting) shard(s protocol.ShardID) *hosting {
	x := h.shards[s]
	if x == nil {
		x = &hosting{tops: map[lineageGeneration]protocol.Token{}}
		h.shards[s] = x
	}
	return x
}

// Started records that a node began to host a shard under a token. view is the epoch of the
// view that the node's region holds.
func (h *Hosting) Started(at time.Duration, node gossip.NodeID, s protocol.ShardID, t protocol.Token, view gossip.Epoch) *Violation {
	side := h.sideOf(node)
	x, key := h.shard(s), shardToken{s, t, side}
	if owner, ok := h.owners[key]; ok && owner != node {
		return broken("S7", at, "shard %d token %v belongs to %v and starts at %v", s, t, owner, node)
	}
	h.owners[key], h.started[protocol.ShardToken{Shard: s, Token: t}] = node, true
	if !h.members.Member(node) {
		// A late order on a node that was removed and has not learned of it: it holds no
		// lease (S6) and never will again, so the instance never acts.
		x.live = append(x.live, instance{node, t})
		return h.single(at, s, x)
	}
	if top := h.topOf(x, side); !top.Less(t) {
		return broken("S7", at, "shard %d starts at %v with token %v, not above %v", s, node, t, top)
	}
	if b, low := x.boundAbove(t, h.members.Cluster(node), view); low {
		return broken("S7", at, "shard %d starts at %v with token %v, not above %v of the cluster that was absorbed", s, node, t, b.token)
	}
	source := lineageGeneration{h.members.Lineage(node), t.Term.Generation()}
	x.tops[source] = x.tops[source].Max(t)
	for _, o := range x.live {
		if h.sideOf(o.node) != side {
			continue
		}
		if o.node == node {
			return broken("S11", at, "shard %d starts twice at %v: %v and %v", s, node, o.token, t)
		}
		if h.members.Member(o.node) && h.members.Lineage(o.node) == h.members.Lineage(node) {
			return broken("S11", at, "shard %d starts at %v (%v) while member %v still holds it (%v)", s, node, t, o.node, o.token)
		}
	}
	x.live = append(x.live, instance{node, t})
	return h.single(at, s, x)
}

// topOf returns the highest token under which a shard was started in the clusters of a side.
func (h *Hosting) topOf(x *hosting, side int) (top protocol.Token) {
	for source, t := range x.tops { // order-free: a maximum
		if h.sideOfLineage(source.lineage) == side {
			top = top.Max(t)
		}
	}
	return top
}

// Stopped records that a node no longer hosts a shard.
func (h *Hosting) Stopped(node gossip.NodeID, s protocol.ShardID) {
	x := h.shard(s)
	x.live = slices.DeleteFunc(x.live, func(i instance) bool { return i.node == node })
}

// Abandoned records that a node dropped all its instances, or that its process ended.
func (h *Hosting) Abandoned(node gossip.NodeID) {
	for s := range h.shards {
		h.Stopped(node, s)
	}
}

// Resumed records that a node's lease became valid after it had lapsed.
func (h *Hosting) Resumed(at time.Duration, node gossip.NodeID) *Violation {
	for _, s := range h.hostedShards(node) {
		if b := h.single(at, s, h.shards[s]); b != nil {
			return b
		}
	}
	return nil
}

// Acts records that an instance begins to handle a message.
func (h *Hosting) Acts(at time.Duration, node gossip.NodeID, s protocol.ShardID, t protocol.Token) *Violation {
	x := h.shard(s)
	if !h.members.Valid(at, node) {
		return broken("S1", at, "shard %d acts at %v (%v) without a lease", s, node, t)
	}
	if !slices.Contains(x.live, instance{node, t}) {
		return broken("S1", at, "shard %d acts at %v (%v) where it does not live: %v", s, node, t, x.live)
	}
	return h.single(at, s, x)
}

// WasStarted reports whether the shard was ever started under the token.
func (h *Hosting) WasStarted(s protocol.ShardID, t protocol.Token) bool {
	return h.started[protocol.ShardToken{Shard: s, Token: t}]
}

// Live returns the nodes that hold an instance of the shard.
func (h *Hosting) Live(s protocol.ShardID) []gossip.NodeID {
	var out []gossip.NodeID
	for _, i := range h.shard(s).live {
		out = append(out, i.node)
	}
	return out
}

func (h *Hosting) hostedShards(node gossip.NodeID) []protocol.ShardID {
	var out []protocol.ShardID
	for s, x := range h.shards {
		if slices.ContainsFunc(x.live, func(i instance) bool { return i.node == node }) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// single checks S1 in its effective form.
func (h *Hosting) single(at time.Duration, s protocol.ShardID, x *hosting) *Violation {
	var acting []instance
	for _, i := range x.live {
		if h.members.Valid(at, i.node) && (!h.members.lineages.tracked || h.members.Member(i.node)) {
			acting = append(acting, i)
		}
	}
	for i, b := range acting {
		for _, a := range acting[:i] {
			if h.sideOf(a.node) == h.sideOf(b.node) {
				return broken("S1", at, "shard %d lives twice: %v (%v) and %v (%v)", s, a.node, a.token, b.node, b.token)
			}
			if v := h.bothReady(at, s, a, b); v != nil {
				return v
			}
		}
	}
	return nil
}
