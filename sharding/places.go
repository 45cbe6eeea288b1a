package sharding

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/failure"
)

// ErrNoRole reports a call that only nodes of the type's role can serve.
var ErrNoRole error = failure.NoRole

// Place sets the nodes on which the application wants shards of a type, by the nodes'
// names; "" clears a wish. A wish is added to earlier wishes about other shards, and lasts
// until the last node of the role is gone. Of two calls about one shard, the later one
// counts. nil means that a majority of the role has stored it. Shards then move as
// strategy.External documents; the type's Strategy must be External, or one that also reads
// State.Wanted. A name that no member has is stored, and takes effect when a member of that
// name appears.
//
// It fails with ErrUnknownType, ErrNoShard, *TypeError for a name that is longer than a
// node's can be, ErrNotReady while the node is in no cluster, ErrNodeStopping when it is
// closed, ErrNoRole on nodes without the type's role, and with the errors of package
// replicator, of which ErrOutcomeUnknown is not a failure.
func (r *Registry) Place(ctx context.Context, typ string, wanted map[ShardID]string) (err error) {
	defer setGroup(&err)
	s, p, err := r.serving(typ)
	if err != nil {
		return err
	}
	for shard, name := range wanted {
		if uint32(shard) >= p.place.Shards {
			return fmt.Errorf("%w: %s has %d shards, not %v", ErrNoShard, typ, p.place.Shards, shard)
		}
		// All nodes of the role keep the wishes, so one for a name that no node can have is
		// refused.
		if len(name) > view.NameBytesMax {
			return &TypeError{Type: typ, Wrong: []string{fmt.Sprintf("the name of a node has at most %d bytes, that for shard %v has %d", view.NameBytesMax, shard, len(name))}}
		}
	}
	placer := s.drivers.Placer(p.place.Role)
	if placer == nil {
		return ErrNoRole
	}
	return placer.Place(ctx, typ, wanted)
}

// unknownHere is ErrUnknownType for a type that this node has not registered.
func unknownHere(typ string) error { return fmt.Errorf("%w: %q on this node", ErrUnknownType, typ) }

// serving returns what serves a registered type now.
func (r *Registry) serving(typ string) (*service, *registered, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.types[typ]
	switch {
	case p == nil:
		return nil, nil, unknownHere(typ)
	case r.now == nil && r.closed:
		return nil, nil, ErrNodeStopping
	case r.now == nil:
		return nil, nil, ErrNotReady
	}
	return r.now, p, nil
}
