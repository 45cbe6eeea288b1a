package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/driver"
	"github.com/peerage-go/peerage/internal/failure"
)

// AddType starts the driver of a type that this node registers. connect makes the endpoint of
// the type for the new driver; it is called before the driver's first event, and must not call
// Drivers. AddType does nothing after Close.
func (ds *Drivers) AddType(t Type, c *Counters, connect func(*TypeDriver) Endpoint) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.closed {
		return
	}
	if old := ds.byType[t.Name]; old != nil {
		// Other nodes ran the type before this one registered it.
		old.retire()
	}
	d := ds.newDriver(t, c, false)
	if t.States != nil && ds.Hosts(&t) {
		d.replicateStates()
	}
	ds.byType[t.Name] = d
	d.endpoint = connect(d)
	ds.startDriver(d)
}

// addForeign starts the driver of a type that this node does not run; called with the mutex.
func (ds *Drivers) addForeign(typ, role string) *TypeDriver {
	ds.env.Log.Warn("sharding: entity type is not registered on this node of its role; register it on all of them, or give it another role",
		"type", typ, "role", role)
	d := ds.newDriver(Type{Name: typ, Role: role, Shards: protocol.ShardsMax, Proxy: true}, &Counters{}, true)
	ds.byType[typ] = d
	ds.startDriver(d)
	return d
}

// framesMax bounds the frames of other nodes that wait for the cores of a type.
const framesMax = 4096

// newDriver makes the driver of a type; called with the mutex. foreign is set for a type that
// only other nodes run.
func (ds *Drivers) newDriver(t Type, c *Counters, foreign bool) *TypeDriver {
	d := &TypeDriver{
		all: ds, typ: t, counters: c,
		inbox: driver.New(driver.Config[any]{Clock: ds.cfg.Clock, Frames: framesMax, Join: joinShardEvents}), ended: make(chan struct{}), drained: make(chan struct{}), trace: &traceRing{},
	}
	if observe := ds.env.ShardMoved; observe != nil {
		d.moves.observe = func(cause, phase string, took time.Duration) { observe(t.Name, cause, phase, took) }
	}
	d.moves.report = func(s moveSum) { logMoves(ds.env.Log, t.Name, s) }
	d.transfers = ds.transfers.Type(t.Name, &c.Transfers, func(id gossip.NodeID) bool { return d.view.Load().Member(id) != nil })
	floors := ds.floors[t.Name]
	if floors == nil {
		floors = &region.Floors{}
		ds.floors[t.Name] = floors
	}
	d.region = region.New(region.Config{
		Self: ds.cfg.Self.ID, Type: t.Name, Role: t.Role, Shards: int(t.Shards),
		Hosts: !foreign && ds.Hosts(&t), Foreign: foreign, Capacity: ds.cfg.Capacity, ShardOf: t.ShardOf, Keeps: t.Keeps, Messages: t.Messages,
	}, floors)
	if !foreign && ds.cfg.Self.HasRole(t.Role) && ds.cfg.Store != nil {
		d.coordinator = coordinator.New(coordinator.Config{
			Self: ds.cfg.Self.ID, Type: t.Name, Role: t.Role, Shards: int(t.Shards), ShardOf: t.ShardOf, Keeps: t.Keeps, Messages: t.Messages,
			Strategy: newRecoverStrategy(t.Strategy, d.view.Load, t.Name, ds.env.Log), MinMembers: t.MinMembers, MinMembersAll: ds.cfg.MinMembers, DeclinedIn: ds.declined[t.Name], Reluctant: t.Proxy,
			Collects: t.States != nil, StopTimeout: t.StopTimeout, Rebalance: t.Rebalance, RemoveAfter: ds.cfg.RemoveAfter,
		})
	}
	return d
}

// startDriver starts a driver with the present view and lease; called with the mutex.
func (ds *Drivers) startDriver(d *TypeDriver) {
	if ds.view != nil {
		d.inbox.Put(viewChanged{ds.view})
	}
	d.inbox.Put(leaseChanged{ds.leased})
	go d.runLoop()
}

// retire ends the driver of a type that is now registered; called with the mutex.
func (d *TypeDriver) retire() {
	d.inbox.Finish()
	<-d.ended
}

// Abandoned drops every instance that runs here, without running user code. Once it has
// returned, no handler begins, and no shard that was about to start will start.
func (ds *Drivers) Abandoned() {
	var waits []*TypeDriver
	var done []chan struct{}
	for _, d := range ds.sortedDrivers() {
		if d.endpoint != nil {
			d.endpoint.Abandon()
		}
		ch := make(chan struct{})
		if d.inbox.Put(abandoned{ch}) {
			waits, done = append(waits, d), append(done, ch)
		}
	}
	for i, d := range waits {
		select {
		case <-done[i]:
		case <-d.ended:
		}
	}
}

// Drain hands all shards off to other nodes, in order. It returns once this node hosts
// none, no other node can take the rest, or ctx ends. It fails with failure.NodeStopping if the Drivers
// end meanwhile.
func (ds *Drivers) Drain(ctx context.Context) error {
	all := ds.sortedDrivers()
	for _, d := range all {
		d.inbox.Put(region.Drain{})
	}
	for _, d := range all {
		if d.endpoint == nil || !ds.Hosts(&d.typ) {
			continue
		}
		select {
		case <-d.drained:
		case <-d.ended:
			return failure.NodeStopping
		case <-ctx.Done():
			return fmt.Errorf("sharding: %s still hosts %d shards: %w", d.typ.Name, d.endpoint.ShardCount(), ctx.Err())
		}
	}
	return nil
}

// Close rejects further types and messages, and reports whether the Drivers were open.
func (ds *Drivers) Close() (first bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	first = !ds.closed
	ds.closed = true
	ds.states.Close()
	return first
}

// Wait waits, after Close and the end of the context, until all drivers have ended.
func (ds *Drivers) Wait() {
	ds.mu.Lock()
	all := slices.Collect(maps.Values(ds.byType))
	ds.mu.Unlock()
	for _, d := range all {
		d.inbox.Close()
	}
	for _, d := range all {
		<-d.ended
	}
}
