package ddata

import (
	"context"

	"github.com/peerage-go/peerage/gossip"
)

// Status describes one replica, and how far the other replicas lag behind it.
type Status struct {
	// Keys counts existing keys. Tombstones counts deleted keys that not all replicas have
	// forgotten yet.
	Keys, Tombstones int
	// Bytes is the approximate size of all keys, including tombstones.
	Bytes int
	// Settled reports whether this replica has caught up with the view. Until then,
	// majorities are counted over former members too.
	Settled bool
	// Replicas are the other members of the role, the most senior first.
	Replicas []Replica
}

// Replica describes another replica as this one sees it.
type Replica struct {
	ID gossip.NodeID
	// Connected is false while its connection is lost.
	Connected bool
	// Lag is the number of changes made here that the replica has not confirmed.
	Lag uint64
	// CaughtUp reports whether the replica has caught up with the view.
	CaughtUp bool
}

// Status returns a snapshot.
func (d *Data) Status(ctx context.Context) (Status, error) {
	s, peers, err := d.r.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	out := Status{Keys: s.Keys - s.Tombstones, Tombstones: s.Tombstones, Bytes: s.Bytes, Settled: s.Settled}
	for _, p := range peers {
		out.Replicas = append(out.Replicas, Replica{ID: p.ID, Connected: !p.Down, Lag: p.Lag, CaughtUp: p.CaughtUp})
	}
	return out, nil
}
