package placement

import (
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/driver"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TypeDriver runs the region core and, on nodes of the type's role, the coordinator core of
// one type, in one goroutine. It performs their effects in order and decides nothing. Its
// exported methods are safe for concurrent use and do not block.
type TypeDriver struct {
	all *Drivers
	typ Type
	// endpoint is nil for a type that only other nodes run: its region answers a census and
	// hosts nothing.
	endpoint Endpoint
	counters *Counters
	inbox    *driver.Driver[any]
	ended    chan struct{}
	trace    *traceRing
	moves    moveLog

	// transfers moves the states of shards in handoffs.
	transfers *statetransfer.Type
	// states and recoveries are nil unless the type's state is replicated.
	states     *statecopy.Replicator
	recoveries *recoveries

	region             *region.Core
	regionEffects      region.Effects
	coordinator        *coordinator.Core
	coordinatorEffects coordinator.Effects
	// loopback are messages between the two cores of this node.
	loopback driver.Loopback[protocol.Message]
	// regionTerm and officeTerm are the terms of the cores' newest events.
	regionTerm, officeTerm gossip.Epoch
	// warnedFar is set once a term far beyond the view was warned of.
	warnedFar bool
	// inOffice is the term of the office that the coordinator holds, 0 for none.
	inOffice  atomic.Uint64
	greetings greetings
	// messagesWarned is the last term in which a difference of messages was logged.
	messagesWarned gossip.Epoch

	view         atomic.Pointer[gossip.View]
	registration registration
	drained      chan struct{}
}

// received is a decoded message of another node.
type received struct {
	from gossip.NodeID
	msg  protocol.Message
}

// These are the other events of a TypeDriver. Events of a core enter the queue as they are.
type (
	viewChanged  struct{ view *gossip.View }
	leaseChanged struct{ valid bool }
	abandoned    struct{ done chan struct{} }
	// statesRecovered allows a shard with replicated state to start.
	statesRecovered struct {
		shard strategy.ShardID
		token protocol.Token
	}
	// superseded reports a newer allocation of a shard; writes under this token will never be
	// acknowledged.
	superseded struct {
		shard strategy.ShardID
		token protocol.Token
	}
)

// NeedHome asks the coordinator for the home of a shard.
func (d *TypeDriver) NeedHome(shard strategy.ShardID) {
	d.inbox.Put(region.NeedHome{Shards: []strategy.ShardID{shard}})
}

// Misrouted reports that the home of a shard refused a message: it has moved.
func (d *TypeDriver) Misrouted(shard strategy.ShardID, t protocol.Token) {
	d.inbox.Put(region.Misrouted{Shard: shard, Token: t})
}

// MarkerAcked reports that a former home has received all messages of this node to a shard.
func (d *TypeDriver) MarkerAcked(from gossip.NodeID, shard strategy.ShardID, t protocol.Token) {
	d.inbox.Put(region.MarkerAcked{From: from, Shards: []protocol.ShardToken{{Shard: shard, Token: t}}})
}

// Supersede ends the allocation of a shard immediately.
func (d *TypeDriver) Supersede(shard strategy.ShardID, t protocol.Token) {
	d.inbox.Put(superseded{shard, t})
}

// OfficeTerm returns the term of the office that this node's coordinator holds, 0 for none.
func (d *TypeDriver) OfficeTerm() gossip.Epoch { return gossip.Epoch(d.inOffice.Load()) }

// States returns the Replicator of the type's states, nil if they are not replicated.
func (d *TypeDriver) States() *statecopy.Replicator { return d.states }

// Members returns the nodes of the type's role in the view.
func (d *TypeDriver) Members() (m daemon.Members) {
	v := d.view.Load()
	if v == nil {
		return m
	}
	m.Epoch = v.Epoch
	for i := range v.Members {
		if v.Members[i].HasRole(d.typ.Role) {
			m.Nodes = append(m.Nodes, v.Members[i].ID)
		}
	}
	return m
}

// runLoop handles events until the service or the driver ends.
func (d *TypeDriver) runLoop() {
	defer close(d.ended)
	defer d.moves.reportSum()
	defer d.watchPlaces()()
	d.inbox.Run(d.all.env.Ctx.Done(), d.stepBatch)
}

// stepBatch handles a batch of events and what is due, and returns the next deadline.
func (d *TypeDriver) stepBatch(batch []any) clock.Instant {
	for _, ev := range batch {
		d.handleEvent(ev)
	}
	d.stepOnTime()
	if d.coordinator != nil {
		return clock.Min(d.region.Deadline(), d.coordinator.Deadline())
	}
	return d.region.Deadline()
}

// stepOnTime steps the cores whose deadline has passed.
func (d *TypeDriver) stepOnTime() {
	now := d.all.cfg.Clock.Now()
	if !now.Before(d.region.Deadline()) {
		d.stepRegion(region.Tick{})
	}
	if d.coordinator != nil && !now.Before(d.coordinator.Deadline()) {
		d.stepCoordinator(coordinator.Tick{})
	}
	d.deliverLoopback()
}

// handleEvent gives one event to the cores that it concerns, then the messages that they send
// to each other.
func (d *TypeDriver) handleEvent(ev any) {
	switch ev := ev.(type) {
	case viewChanged:
		d.view.Store(ev.view)
		d.stepRegion(region.ViewChanged{View: ev.view})
		d.stepCoordinator(coordinator.ViewChanged{View: ev.view})
	case leaseChanged:
		d.stepRegion(region.LeaseChanged{Valid: ev.valid})
		d.stepCoordinator(coordinator.LeaseChanged{Valid: ev.valid})
	case abandoned:
		d.stepRegion(region.Abandoned{})
		d.deliverLoopback()
		close(ev.done)
	case received:
		d.dispatchMessage(ev.from, ev.msg)
	case statesRecovered:
		d.startRecovered(ev)
	case superseded:
		d.endSuperseded(ev)
	case region.Event:
		d.stepRegion(ev)
	case coordinator.Event:
		d.stepCoordinator(ev)
	}
	d.deliverLoopback()
	d.greetOutsiders()
}

// dispatchMessage takes a message to the core that it is for.
func (d *TypeDriver) dispatchMessage(from gossip.NodeID, m protocol.Message) {
	if protocol.ToCoordinator(m) {
		d.stepCoordinator(coordinator.Received{From: from, Msg: m})
		return
	}
	d.stepRegion(region.Received{From: from, Msg: m})
}

// deliverLoopback delivers the messages that the cores of this node sent to each other.
func (d *TypeDriver) deliverLoopback() {
	d.loopback.Deliver(func(m protocol.Message) { d.dispatchMessage(d.all.cfg.Self.ID, m) })
}

// sendMessage sends a message of a core.
func (d *TypeDriver) sendMessage(to gossip.NodeID, m protocol.Message) {
	if to == d.all.cfg.Self.ID {
		if r := d.lacksCoordinator(m); r != nil {
			m = protocol.DeclineMissing(d.view.Load(), to, r)
		}
		if d.coordinator != nil || !protocol.ToCoordinator(m) {
			d.loopback.Add(m)
		}
		return
	}
	// Ignore send errors: the cores retransmit until acknowledged.
	_ = d.all.cfg.Links.Send(to, transport.Control, transport.KindCoordinator, protocol.Append(nil, m))
}
