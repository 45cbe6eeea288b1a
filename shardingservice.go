package peerage

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding"
)

// shardingService is the sharding of one incarnation, as a sharding.Registry starts it.
type shardingService interface {
	HandleCoordinator(from gossip.NodeID, payload []byte)
	HandleEntities(from gossip.NodeID, frames interface {
		Next() (frame []byte, ok bool)
	})
	ViewChanged(v *gossip.View)
	LeaseChanged(valid bool)
	PeerUp(id gossip.NodeID, c transport.Class)
	PeerLost(id gossip.NodeID, c transport.Class)
	Abandoned()
	Drain(ctx context.Context) error
	WaitAnswered(ctx context.Context)
	Close(ctx context.Context) error

	Ready() bool
	Status() []placement.TypeStatus
	Frames() figures.Frames
	CollectFigures(ctx context.Context) (*gossip.View, map[gossip.NodeID]string, error)
	Running() []sharding.RunningHandler
}

// interceptAll sets the interceptors of all types of r.
func interceptAll(r *sharding.Registry, all []sharding.Interceptor) error {
	set, err := door.Open[func([]sharding.Interceptor)](r)
	if err == nil {
		set(all)
	}
	return err
}

// startSharding starts the service of the types of r.
func startSharding(r *sharding.Registry, cfg placement.Config, o figures.ShardingObserver) (shardingService, error) {
	start, err := door.Open[func(placement.Config, figures.ShardingObserver) (any, error)](r)
	if err != nil {
		return nil, err
	}
	service, err := start(cfg, o)
	if err != nil {
		return nil, err
	}
	s, ok := service.(shardingService)
	if !ok {
		return nil, fmt.Errorf("peerage: %T lacks methods of shardingService", service)
	}
	return s, nil
}
