package ddata

import (
	"context"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
)

// Status is what one replica holds and how far the others are.
type Status struct {
	// Keys are those that exist, Tombstones those that have been deleted and are not
	// yet forgotten by all replicas.
	Keys, Tombstones int
	// Bytes is about how much all keys take, tombstones too.
	Bytes int
	// Settled reports whether this replica has caught up with the view: until then
	// majorities are counted over former members too.
	Settled bool
	// Replicas are the other members with the role, the most senior first.
	Replicas []Replica
}

// Replica is what this one knows of another.
type Replica struct {
	ID view.NodeID
	// Connected is false while its connection is lost.
	Connected bool
	// Lag is how many changes made here it has not confirmed.
	Lag uint64
	// CaughtUp reports whether it has caught up with the view.
	CaughtUp bool
}

// statuser is a Replicator that can tell; *replicator.Replicator is one.
type statuser interface {
	Status(ctx context.Context) (replicator.Stats, []replicator.PeerStats, error)
}

// Status returns a snapshot. It is empty, without an error, if the Replicator that
// d was made of cannot tell.
func (d *Data) Status(ctx context.Context) (Status, error) {
	r, ok := d.r.(statuser)
	if !ok {
		return Status{}, nil
	}
	s, peers, err := r.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	out := Status{Keys: s.Keys - s.Tombstones, Tombstones: s.Tombstones, Bytes: s.Bytes, Settled: s.Settled}
	for _, p := range peers {
		out.Replicas = append(out.Replicas, Replica{ID: p.ID, Connected: !p.Down, Lag: p.Lag, CaughtUp: p.CaughtUp})
	}
	return out, nil
}
