package sharding

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/coordinator"
)

// ErrNoRole is the error of what only nodes of a type's role can do.
var ErrNoRole = errors.New("sharding: this node does not carry the type's role")

// Placer is a Store that also keeps where the application wants shards. That of
// DataStore is one.
type Placer interface {
	// Place sets the wanted node of shards, by name; "" ends the wish. Nil means that
	// a majority has it.
	Place(ctx context.Context, typ string, wanted map[ShardID]string) error
	// WatchPlaces calls fn with all that is wanted: now, and after changes. Fn does
	// not block and may keep the map. Cancel does not wait for a running fn.
	WatchPlaces(typ string, fn func(wanted map[ShardID]string)) (cancel func())
}

// Place says on which nodes the application wants shards of a type, by the nodes'
// names; "" ends the wish. It stands beside what was said of other shards before,
// until the last node of the role is gone, and of two calls about one shard the
// later counts. Nil means that a majority of the role has it; shards then move as
// strategy.External says, and the type's Strategy must be that, or one that looks
// at State.Wanted as well. A name that no member has is remembered, and obeyed when
// it appears.
//
// It fails with ErrUnknownType, ErrNoShard, *TypeError for a name that is longer than a
// node's can be, ErrNotReady while the node is in no cluster, ErrNodeStopping when it is
// closed, ErrNoRole on nodes that do not carry the type's role, and with the errors of
// package replicator, among which ErrOutcomeUnknown is no failure.
func (r *Registry) Place(ctx context.Context, typ string, wanted map[ShardID]string) error {
	s, p, err := r.serving(typ)
	if err != nil {
		return err
	}
	info := p.describe()
	for shard, name := range wanted {
		if uint32(shard) >= info.shards {
			return fmt.Errorf("%w: %s has %d shards, not %v", ErrNoShard, typ, info.shards, shard)
		}
		// Wishes are remembered by all nodes of the role, so one for a name that nobody can
		// have is refused.
		if len(name) > view.NameBytesMax {
			return &TypeError{Type: typ, Wrong: []string{fmt.Sprintf("the name of a node has at most %d bytes, that for shard %v has %d", view.NameBytesMax, shard, len(name))}}
		}
	}
	placer := s.placer(info.role)
	if placer == nil {
		return ErrNoRole
	}
	return placer.Place(ctx, typ, wanted)
}

// unknownHere is ErrUnknownType of what this node would have to know.
func unknownHere(typ string) error { return fmt.Errorf("%w: %q on this node", ErrUnknownType, typ) }

// serving returns what serves a registered type now.
func (r *Registry) serving(typ string) (*Sharding, dataPath, error) {
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

// placer returns where the wishes of a role are kept, nil where they cannot be.
func (s *Sharding) placer(role string) Placer {
	if !s.cfg.Self.HasRole(role) || s.cfg.Store == nil {
		return nil
	}
	p, _ := s.cfg.Store(role).(Placer)
	return p
}

// watchPlaces tells the coordinator of this node what is wanted, in office or not:
// it may take office any time.
func (sh *shell) watchPlaces() (cancel func()) {
	if sh.coord == nil {
		return func() {}
	}
	p := sh.s.placer(sh.info.role)
	if p == nil {
		return func() {}
	}
	return p.WatchPlaces(sh.info.name, func(wanted map[ShardID]string) {
		sh.inbox.put(coordinator.Wanted{Names: wanted})
	})
}
