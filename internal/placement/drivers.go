package placement

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
	"github.com/peerage-go/peerage/internal/transport"
)

// typesMax bounds the types for which other nodes can make this node start a driver.
const typesMax = 1024

// Env is what Drivers share with the rest of a node's sharding. All fields but
// StateReplicated and ShardMoved must be set.
type Env struct {
	Log *slog.Logger
	// Ctx ends all goroutines; Work counts those that may wait for another node.
	Ctx  context.Context
	Work *sync.WaitGroup
	// SendAnswer queues a frame of an entity's class for a node and does not block.
	SendAnswer func(to gossip.NodeID, frame []byte)
	// StateReplicated is called for each replicated version of a state, with the time that it
	// waited.
	StateReplicated func(typ string, lag time.Duration)
	// ShardMoved is called on the coordinator's node when a phase of the move of a shard has
	// ended; it must not block.
	ShardMoved func(typ, cause, phase string, took time.Duration)
	// HashStates gives each replicated state a hash, so that an entity that changes a returned
	// slice is always found.
	HashStates bool
}

// Drivers are the TypeDrivers of one incarnation of a node. All methods are safe for
// concurrent use.
type Drivers struct {
	cfg       Config
	env       Env
	states    *statecopy.Set
	transfers *statetransfer.Transfers
	queries   queries
	// ready is sticky.
	ready              atomic.Bool
	malformed, overrun atomic.Uint64

	mu     sync.Mutex
	closed bool
	byType map[string]*TypeDriver
	view   *gossip.View
	// leased is the lease as reported last. A new driver gets it, and not Config.LeaseValid: while a
	// lease that has expired is renewed before its end was noticed, no change is reported.
	leased bool
	// floors outlive the drivers of a type.
	floors map[string]*region.Floors
	// declined are the views up to which this node has declined to coordinate types that
	// it did not run. A decline binds the node when it runs the type later.
	declined map[string]gossip.Epoch
	// silent are the nodes that do not respond.
	silent map[gossip.NodeID]bool
}

// New returns Drivers without types.
func New(cfg Config, env Env) *Drivers {
	ds := &Drivers{
		cfg: cfg, env: env,
		byType: map[string]*TypeDriver{}, floors: map[string]*region.Floors{}, declined: map[string]gossip.Epoch{}, silent: map[gossip.NodeID]bool{},
	}
	ds.states = statecopy.NewSet(statecopy.Config{
		Self: cfg.Self.ID, Clock: cfg.Clock, Log: env.Log, Ctx: env.Ctx, Work: env.Work,
		TypesMax: typesMax, HashAll: env.HashStates,
		Send: func(to gossip.NodeID, frame []byte) error {
			return cfg.Links.Send(to, transport.Bulk, transport.KindEntity, frame)
		},
		FramesDropped: func(n uint64) { ds.overrun.Add(n) },
		Replicated:    env.StateReplicated,
	})
	ds.transfers = statetransfer.New(statetransfer.Config{
		Self: cfg.Self.ID, Clock: cfg.Clock, Links: cfg.Links, Log: env.Log, Ctx: env.Ctx, SendAck: env.SendAnswer, StateHeld: ds.noteStateHeld,
	})
	return ds
}

// Hosts reports whether this node hosts a type.
func (ds *Drivers) Hosts(t *Type) bool { return !t.Proxy && ds.cfg.Self.HasRole(t.Role) }

// Placer returns the store of a role's wanted places, nil if there is none.
func (ds *Drivers) Placer(role string) Placer { return roleStore[Placer](ds, role) }

// Plans returns the store of the plans of a role's daemons, nil if there is none.
func (ds *Drivers) Plans(role string) PlanStore { return roleStore[PlanStore](ds, role) }

// Rememberer returns the store of a role's remembered entities, nil if there is none.
func (ds *Drivers) Rememberer(role string) Rememberer { return roleStore[Rememberer](ds, role) }

// roleStore returns the store of a role as a T, nil if this node has none.
func roleStore[T any](ds *Drivers, role string) (store T) {
	if ds.cfg.Self.HasRole(role) && ds.cfg.Store != nil {
		store, _ = ds.cfg.Store(role).(T)
	}
	return store
}

// driverOf returns the driver of a type, nil if there is none.
func (ds *Drivers) driverOf(typ string) *TypeDriver {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.byType[typ]
}

// sortedDrivers returns the drivers, sorted by type.
func (ds *Drivers) sortedDrivers() []*TypeDriver {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var out []*TypeDriver
	for _, name := range slices.Sorted(maps.Keys(ds.byType)) {
		out = append(out, ds.byType[name])
	}
	return out
}

// HandleMessage handles a message of another node's coordinator or region, or a query. It
// keeps nothing of payload and does not block. If too many messages wait, it drops and counts
// the message: the protocol retransmits.
func (ds *Drivers) HandleMessage(from gossip.NodeID, payload []byte) {
	m, err := protocol.Decode(payload)
	if err != nil {
		ds.malformed.Add(1)
		return
	}
	if protocol.IsQuery(m) {
		ds.handleQuery(from, m)
		return
	}
	d := ds.driverFor(m)
	if d.lacksCoordinator(m) != nil {
		ds.declineRegister(from, m)
	}
	if d != nil && !d.inbox.PutFrame(received{from, m}) {
		ds.overrun.Add(1)
	}
}

// driverFor returns the driver that a message is for. A node must answer the census of a type
// that it has not registered, since a former registration may have hosted shards: it gets a
// region that hosts nothing.
func (ds *Drivers) driverFor(m protocol.Message) *TypeDriver {
	typ := m.Header().Type
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.byType[typ]
	census, is := m.(*protocol.CensusRequest)
	if d != nil || ds.closed || !is || len(ds.byType) >= typesMax {
		return d
	}
	return ds.addForeign(typ, census.Role)
}

// HandleTransfer handles a frame of a handoff's states. It keeps nothing of frame.
func (ds *Drivers) HandleTransfer(from gossip.NodeID, frame []byte) error {
	return ds.transfers.HandleFrame(from, frame)
}

// HandleReplication handles a frame of replicated states. It keeps nothing of frame.
func (ds *Drivers) HandleReplication(from gossip.NodeID, frame []byte) error {
	return ds.states.HandleFrame(from, frame)
}

// noteStateHeld reports to a type's region core that the states of a shard are here.
func (ds *Drivers) noteStateHeld(typ string, e region.StateHeld) {
	if d := ds.driverOf(typ); d != nil {
		d.inbox.Put(e)
	}
}

// ViewChanged reports a newer view. It returns the members of the last view that are not in
// this one.
func (ds *Drivers) ViewChanged(v *gossip.View) (gone []gossip.NodeID) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	old := ds.view
	ds.view = v
	if old != nil {
		for _, m := range old.Members {
			if v.Member(m.ID) == nil {
				gone = append(gone, m.ID)
				delete(ds.silent, m.ID)
			}
		}
	}
	ds.states.ViewChanged(v)
	for _, d := range ds.byType {
		d.inbox.Put(viewChanged{v})
	}
	ds.reportSilent()
	return gone
}

// WithMembers calls f with the members of the newest view, none before the first. No newer view
// is adopted until f has returned, so f must be quick, and must not call ds.
func (ds *Drivers) WithMembers(f func([]gossip.Member)) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var members []gossip.Member
	if ds.view != nil {
		members = ds.view.Members
	}
	f(members)
}

// SetResponding records whether a peer responds, and informs the coordinators: they move
// nothing while a member is silent.
func (ds *Drivers) SetResponding(id gossip.NodeID, responds bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.silent[id] == !responds {
		return
	}
	if responds {
		delete(ds.silent, id)
	} else {
		ds.silent[id] = true
	}
	ds.reportSilent()
}

// reportSilent informs the coordinators of the silent nodes; called with the mutex.
func (ds *Drivers) reportSilent() {
	nodes := slices.Sorted(maps.Keys(ds.silent))
	for _, d := range ds.byType {
		d.inbox.Put(coordinator.Silent{Nodes: nodes})
	}
}

// LeaseChanged reports that the lease became valid, ended, or changed its generation.
func (ds *Drivers) LeaseChanged(valid bool) {
	ds.mu.Lock()
	ds.leased = valid
	ds.mu.Unlock()
	for _, d := range ds.sortedDrivers() {
		d.inbox.Put(leaseChanged{valid})
		if valid && d.endpoint != nil {
			d.endpoint.Resume()
		}
	}
}
