package placement

import (
	"strings"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TypeStatus is a node's state of one type.
type TypeStatus struct {
	Type    string
	Role    string
	Hosting bool
	// Registered is set once a coordinator has acknowledged this node's region.
	Registered bool
	// Refused is set if the coordinator does not register this node: it names the setting
	// that must be equal on all nodes, and both values. It is also set if no node of the
	// role runs the type.
	Refused string
	// Unregistered is set if this node should have the type, by its role, but does not
	// register it. All fields below are then zero.
	Unregistered bool
	// Coordinator is the coordinator of the type in this node's view.
	Coordinator  gossip.NodeID
	Coordinating bool
	// Term is the term of the newest coordinator that this node has had a message from.
	Term   gossip.Epoch
	Shards []ShardStatus
	// Moves are the newest moves by the coordinator of this node, Open the shards of which it
	// waits to run at their new homes.
	Moves []Moves
	Open  []strategy.ShardID
}

// ShardStatus is one shard as this node sees it.
type ShardStatus struct {
	Shard strategy.ShardID
	// Home is zero if this node has no home for the shard.
	Home  gossip.NodeID
	Token protocol.Token
	// Route is "unknown", "closed", "suspended", "local" or "remote".
	Route string
	// Entities is the number of entities here, Buffered the number of messages that wait
	// here.
	Entities int
	Buffered int
}

// registration records whether the coordinator of a type has registered this node's region. The
// driver's goroutine writes it.
type registration struct {
	registered atomic.Bool
	// term is that of the coordinator that has registered the region last.
	term atomic.Uint64
	// elected is the coordinator's node by this node's view and declines.
	elected atomic.Uint64
	// refused is why the coordinator does not register this node, nil if it does.
	refused atomic.Pointer[string]
}

func (r *registration) setRegistered(term gossip.Epoch) {
	r.refused.Store(nil)
	r.registered.Store(true)
	r.term.Store(uint64(term))
}

func (r *registration) setRefused(why string) {
	r.registered.Store(false)
	r.refused.Store(&why)
}

// refusal returns why the coordinator does not register this node, "" if it does.
func (r *registration) refusal() string {
	if why := r.refused.Load(); why != nil {
		return *why
	}
	return ""
}

// lacksHosts reports whether no node that could coordinate the type runs it.
func (r *registration) lacksHosts() bool { return strings.HasPrefix(r.refusal(), protocol.SettingType) }

// Ready reports whether every registered type has registered with its coordinator once. A
// type that no node of its role runs counts as registered: those nodes may have an older
// version, and leave only once this node is ready. Once true, the result stays true: a type
// that is added later, or a coordinator that is being replaced, does not take a node out of
// service.
func (ds *Drivers) Ready() bool {
	if ds.ready.Load() {
		return true
	}
	for _, d := range ds.sortedDrivers() {
		if d.endpoint != nil && !d.registration.registered.Load() && !d.registration.lacksHosts() {
			return false
		}
	}
	ds.ready.Store(true)
	return true
}

// Status returns this node's state of all types, sorted by name. It sends no message.
func (ds *Drivers) Status() []TypeStatus {
	var out []TypeStatus
	for _, d := range ds.sortedDrivers() {
		if d.endpoint != nil {
			out = append(out, d.typeStatus())
		} else if ds.cfg.Self.HasRole(d.typ.Role) {
			out = append(out, TypeStatus{Type: d.typ.Name, Role: d.typ.Role, Unregistered: true})
		}
	}
	return out
}

func (d *TypeDriver) typeStatus() TypeStatus {
	r := &d.registration
	t := TypeStatus{
		Type: d.typ.Name, Role: d.typ.Role, Hosting: d.all.Hosts(&d.typ),
		Registered: r.registered.Load(), Refused: r.refusal(), Term: gossip.Epoch(r.term.Load()),
		Coordinator: gossip.NodeID(r.elected.Load()),
	}
	t.Coordinating = t.Coordinator == d.all.cfg.Self.ID
	t.Moves, t.Open = d.moves.listMoves(), d.moves.listOpen()
	t.Shards = make([]ShardStatus, d.typ.Shards)
	for i := range t.Shards {
		s := &t.Shards[i]
		s.Shard = strategy.ShardID(i)
		s.Home, s.Token, s.Route, s.Buffered = d.endpoint.RouteOf(s.Shard)
		s.Entities = d.endpoint.Population(s.Shard)
	}
	return t
}

// FrameCounts returns the numbers of malformed messages, and of messages that were dropped
// because too many were waiting.
func (ds *Drivers) FrameCounts() (malformed, overrun uint64) {
	return ds.malformed.Load(), ds.overrun.Load()
}
