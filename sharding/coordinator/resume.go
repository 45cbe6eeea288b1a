package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// heldAt is a state that waits at a node, as its report says.
type heldAt struct {
	node view.NodeID
	protocol.Held
}

// atHome reports whether the former home kept it.
func (h *heldAt) atHome() int {
	if h.node == h.From {
		return 1
	}
	return 0
}

// resumeMoves carries on the moves that a predecessor left half done: a shard that
// lives nowhere is placed where its state waits. A state may be taken only if it
// is the newest there can be, or an older one would come back from the dead:
//
//   - it was left by the newest allocation that was ever written; or that one was to
//     take it, and then its home knows whether it has: it gets the shard, and takes
//     what still waits there. (It may not have said so: its report can be older than
//     the state's arrival. And what others hold of it may be older than what ran there.)
//   - nobody else has promised not to run the shard under a later token: somebody
//     may have run it;
//   - it is of this generation: what the dead have written may be known to nobody;
//   - the read knows what the predecessor has written. It may not if nearly all have left
//     at about the same time, the one to whom the state was sent among them.
func (c *Core) resumeMoves() {
	for i := range c.census.held {
		h := &c.census.held[i]
		if r := c.census.stored[h.Shard]; r.From == h.From && h.Token.Less(r.Token) {
			h.node = r.Home
		}
	}
	held := slices.DeleteFunc(c.census.held, func(h heldAt) bool { return !c.newestState(&h) || c.passedOn(&h) })
	slices.SortStableFunc(held, func(a, b heldAt) int {
		if a.Token != b.Token {
			return b.Token.Compare(a.Token)
		}
		// Of two the one at the new home: the old one was to be relieved.
		return a.atHome() - b.atHome()
	})
	var snap snapshot
	for _, h := range held {
		s := &c.shards[h.Shard]
		if s.phase != free || s.from != 0 || c.view.Member(h.node) == nil {
			continue
		}
		if c.leaving(h.node) && h.node == h.From && c.sendOn(&snap, &h) {
			continue
		}
		s.prefer, s.from, s.known = h.node, h.From, true
		c.traceShard(TraceResumed, h.Shard, h.node, h.Token, "its state waits there")
	}
}

// noteVoters notes to whom the predecessor wrote: old is the view before this term.
func (c *Core) noteVoters(old *view.View) {
	for _, m := range old.WithRole(c.cfg.Role) {
		c.census.voters++
		c.census.unheard = append(c.census.unheard, m.ID)
	}
}

// passedOn reports whether a state that its former home has kept may have lived on
// without us knowing: the home to which it was sent has left unheard, and so have so many
// others that a majority of those to whom the predecessor wrote may be among them.
func (c *Core) passedOn(h *heldAt) bool {
	left := func(n view.NodeID) bool { return c.view.Member(n) == nil }
	if h.node != h.From || !left(h.To) || !slices.Contains(c.census.unheard, h.To) {
		return false
	}
	gone := 0
	for _, n := range c.census.unheard {
		if left(n) {
			gone++
		}
	}
	return gone > c.census.voters/2
}

// sendOn has a former home that takes no shards send the state it kept to another:
// the HandOff is ordered again. It reports false if it cannot: then the shard comes to
// life where its state is, and moves on from there or ends with the node. To leave the
// state behind would let the node end, and a member that joins meanwhile start cold.
func (c *Core) sendOn(snap *snapshot, h *heldAt) bool {
	s := &c.shards[h.Shard]
	target := c.ask(snap.of(c), h.Shard)
	if target == 0 || target == h.node || h.Token.Less(s.token) {
		return false
	}
	s.home, s.token, s.known = h.node, h.Token, true
	s.move, s.target = c.next(), target
	snap.placed(h.Shard, 0, target)
	c.traceShard(TraceResumed, h.Shard, target, h.Token, "its state is sent there again")
	c.turn(h.Shard)
	return true
}

// holdStopped notes where the states are of shards that were stopping when their
// node reported, and have stopped since: the other end may have reported before.
func (c *Core) holdStopped() {
	for _, cl := range c.census.claims {
		if cl.to == 0 || !c.stoppedSince(cl) {
			continue
		}
		at := cl.to
		if c.view.Member(at) == nil {
			at = cl.node
		}
		c.census.held = append(c.census.held, heldAt{at, protocol.Held{Shard: cl.shard, Token: cl.token, From: cl.node, To: cl.to}})
	}
}

func (c *Core) newestState(h *heldAt) bool {
	r := c.census.stored[h.Shard]
	switch {
	case h.Token.Term.Generation() != c.term.Generation():
		return false
	case h.Token.Less(r.Token) && r.From != h.From:
		return false
	}
	return !slices.ContainsFunc(c.census.stops, func(st claim) bool {
		return st.shard == h.Shard && st.node != h.From && h.Token.Less(st.token)
	})
}
