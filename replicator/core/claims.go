package core

import (
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
)

// Claims of dots
//
// The context of a causal value says which changes of each writer its sender has seen. It
// is believed: a dot that was claimed is never taken again, and a writer that meets a claim
// about itself goes on above it. A damaged or hostile frame could so use up the numbers of
// a living writer, whose later changes no replica could then take.
//
// So each member announces in its Status the highest sequence number that it has used
// under any key, and shows it in whatever it sends. A claim about a member that lies more
// than claimReserve above what was heard from that very member is refused, like an item
// that cannot be decoded. Claims within the reserve are taken by all, by their writer too:
// refusing them there would leave replicas different for ever. What such a claim costs are
// the writer's changes of the moment, and a 32,768th part of its numbers.
//
// Claims about nodes outside the view are not bounded: these make no more changes.

// claimReserve is how far the claims about a member may be ahead of what it has said
// itself: 45 minutes without a word from it, at 100,000 changes of one key a second.
const claimReserve = 1 << 28

// claimError means that an item claims changes which a member cannot have made.
type claimError struct {
	writer           view.NodeID
	claimed, allowed uint64
}

func (e *claimError) Error() string {
	return fmt.Sprintf("replicator: %d changes of member %v are claimed, which can have made %d at most", e.claimed, e.writer, e.allowed)
}

// checkClaims refuses a value that came from a peer, nil for the own file, if it claims
// changes that members cannot have made. It notes what the peer shows of its own.
func (c *Core) checkClaims(from *peer, v crdt.Value) error {
	causal, ok := v.(crdt.Causal)
	if !ok || len(c.peers) == 0 {
		return nil
	}
	for writer, seq := range causal.Claims() {
		id, said := view.NodeID(writer), c.dots
		p := c.byID[id]
		switch {
		case p == nil && id != c.cfg.Self:
			continue
		case p == from && from != nil:
			p.dots = max(p.dots, seq)
			continue
		case p != nil:
			said = p.dots
		case seq > c.dots:
			c.stats.FalseClaims++ // nobody else can make changes of this node
		}
		if seq > said+claimReserve {
			if id != c.cfg.Self {
				c.stats.FalseClaims++
			}
			return &claimError{writer: id, claimed: seq, allowed: said + claimReserve}
		}
		if id == c.cfg.Self {
			c.dots = max(c.dots, seq)
		}
	}
	return nil
}

// noteOwnDots keeps the highest sequence number that this node has used up to date.
func (c *Core) noteOwnDots(delta crdt.Value) {
	causal, ok := delta.(crdt.Causal)
	if !ok {
		return
	}
	for writer, seq := range causal.Claims() {
		if view.NodeID(writer) == c.cfg.Self {
			c.dots = max(c.dots, seq)
		}
	}
}
