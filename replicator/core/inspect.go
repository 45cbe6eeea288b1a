package core

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
)

// PeerStats is what a core knows of another member with the role.
type PeerStats struct {
	ID view.NodeID
	// Down: its connection was lost.
	Down bool
	// Lag is the number of own changes that it has not confirmed.
	Lag uint64
	// CaughtUp reports whether it has caught up with the current view.
	CaughtUp bool
}

// Peers returns the other members with the role, the most senior first.
func (c *Core) Peers() []PeerStats {
	out := make([]PeerStats, 0, len(c.peers))
	for _, p := range c.peers {
		out = append(out, PeerStats{ID: p.id, Down: p.down, Lag: c.log.last() - p.acked, CaughtUp: p.caughtUp >= c.epoch})
	}
	return out
}

// keyStats describes one key. The zero keyStats is that of a key that was never
// there.
type keyStats struct {
	// Kind is 0 for a key that has been deleted.
	Kind crdt.Kind
	// Generation counts the key's deletions.
	Generation uint64
	// Bytes is about the encoded size of the value.
	Bytes int
	// Print is equal at replicas that hold the same.
	Print uint64
}

// Key describes a key.
func (c *Core) Key(key string) keyStats {
	it := c.store.get(key)
	if it == nil {
		return keyStats{}
	}
	return keyStats{Kind: it.kind(), Generation: it.gen, Bytes: it.bytes, Print: it.print}
}
