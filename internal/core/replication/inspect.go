package replication

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// Peers returns the other members with the role, the most senior first.
func (c *Core) Peers() []replicator.PeerStats {
	out := make([]replicator.PeerStats, 0, len(c.peers))
	for _, p := range c.peers {
		out = append(out, replicator.PeerStats{ID: p.id, Down: p.down, Lag: c.log.last() - p.acked, CaughtUp: p.caughtUp >= c.epoch})
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
