package sharding

import (
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
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
	Coordinator  view.NodeID
	Coordinating bool
	// Term is the term of the newest coordinator that this node has had a message from.
	Term   view.Epoch
	Shards []ShardStatus
}

// ShardStatus is one shard as this node sees it.
type ShardStatus struct {
	Shard ShardID
	// Home is zero if this node has no home for the shard.
	Home  view.NodeID
	Token Token
	// Route is "unknown", "closed", "suspended", "local" or "remote".
	Route string
	// Entities is the number of entities here, Buffered the number of messages that wait
	// here.
	Entities int
	Buffered int
}

// TraceEvent is one event in a shard's history.
type TraceEvent struct {
	// At is the wall-clock time of that node, for display.
	At time.Time `json:"at"`
	// On is the node that recorded the event; zero means this node.
	On view.NodeID `json:"on"`
	// Term is the term that the node followed, or held, at that time.
	Term view.Epoch `json:"term"`
	// By is "region" or "coordinator".
	By     string      `json:"by"`
	Kind   string      `json:"kind"`
	Shard  ShardID     `json:"shard"`
	Node   view.NodeID `json:"node,omitzero"`
	Token  Token       `json:"token"`
	Detail string      `json:"detail,omitempty"`
}

// Ready reports whether every type of the Registry has registered with its coordinator
// once. A type that no node of its role runs counts as registered: those nodes may have an
// older version, and leave only once this node is ready. Once true, the result stays true:
// a type that is added later, or a coordinator that is being replaced, does not take a node
// out of service.
func (s *Sharding) Ready() bool {
	if s.ready.Load() {
		return true
	}
	for _, sh := range s.all() {
		if sh.path != nil && !sh.registered.Load() && !sh.runByNobody() {
			return false
		}
	}
	s.ready.Store(true)
	return true
}

// runByNobody reports whether no node that could coordinate the type runs it.
func (sh *shell) runByNobody() bool {
	why := sh.refused.Load()
	return why != nil && strings.HasPrefix(*why, protocol.SettingType)
}

// Status returns this node's state of all types, sorted by name. It sends no message.
func (s *Sharding) Status() []TypeStatus {
	var out []TypeStatus
	for _, sh := range s.all() {
		if sh.path != nil {
			out = append(out, sh.status())
		} else if sh.s.cfg.Self.HasRole(sh.info.role) {
			out = append(out, TypeStatus{Type: sh.info.name, Role: sh.info.role, Unregistered: true})
		}
	}
	return out
}

func (sh *shell) status() TypeStatus {
	t := TypeStatus{
		Type: sh.info.name, Role: sh.info.role, Hosting: sh.s.hosts(&sh.info),
		Registered: sh.registered.Load(), Term: view.Epoch(sh.term.Load()),
		Coordinator: view.NodeID(sh.elected.Load()),
	}
	if why := sh.refused.Load(); why != nil {
		t.Refused = *why
	}
	t.Coordinating = t.Coordinator == sh.s.cfg.Self.ID
	r := sh.path.base()
	t.Shards = make([]ShardStatus, len(r.routes))
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		t.Shards[i] = ShardStatus{
			Shard: rt.shard, Home: rt.home, Token: rt.token,
			Route: rt.state(sh.s.cfg.Self.ID), Buffered: len(rt.buf),
		}
		rt.mu.Unlock()
		t.Shards[i].Entities = sh.path.population(ShardID(i))
	}
	return t
}

// Frames returns the counters about frames.
func (s *Sharding) Frames() FrameStats {
	parked, windows := s.budgets.used()
	return FrameStats{
		ParkedBytes: parked, WindowBytes: windows,
		Malformed: s.malformed.Load(), UnknownType: s.unknown.Load(),
		AnswersLost: s.unsent.Load(), Overrun: s.overrun.Load(),
	}
}

// Explain returns this node's newest events of a shard, and those that concern all shards,
// oldest first. The coordinator's node has most of them.
func (s *Sharding) Explain(typ string, shard ShardID) []TraceEvent {
	s.mu.Lock()
	sh := s.shells[typ]
	s.mu.Unlock()
	if sh == nil {
		return nil
	}
	return sh.trace.of(shard)
}
