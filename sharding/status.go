package sharding

import (
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// TypeStatus is what a node knows about one type.
type TypeStatus struct {
	Type    string
	Role    string
	Hosting bool
	// Registered is set once a coordinator has acknowledged this node's region.
	Registered bool
	// Refused says why the coordinator does not register this node: a setting that
	// must be equal on all nodes, and the two values; or that no node of the role runs
	// the type. "" if it does.
	Refused string
	// Unregistered: this node should know the type, by its role, and does not. All
	// below is zero then.
	Unregistered bool
	// Coordinator is the node whose office it is in the present view, as far as this one
	// knows.
	Coordinator  view.NodeID
	Coordinating bool
	// Term is that of the newest coordinator heard of.
	Term   view.Epoch
	Shards []ShardStatus
}

// ShardStatus is one shard as this node sees it.
type ShardStatus struct {
	Shard ShardID
	// Home is zero while it is unknown here, or was never asked for.
	Home  view.NodeID
	Token Token
	// Route is "unknown", "closed", "suspended", "local" or "remote".
	Route string
	// Entities live here, Buffered messages wait here.
	Entities int
	Buffered int
}

// TraceEvent is one line of a shard's history.
type TraceEvent struct {
	// At is the time there, for people.
	At time.Time `json:"at"`
	// On is the node that saw it; zero is this one.
	On view.NodeID `json:"on"`
	// Term is the one that the node obeyed, or held office in, at the time.
	Term view.Epoch `json:"term"`
	// By is "region" or "coordinator".
	By     string      `json:"by"`
	Kind   string      `json:"kind"`
	Shard  ShardID     `json:"shard"`
	Node   view.NodeID `json:"node,omitzero"`
	Token  Token       `json:"token"`
	Detail string      `json:"detail,omitempty"`
}

// Ready reports whether every registered type has met its coordinator, or has been
// told that no node of its role runs it: those may be of an older version, and go only
// when this one is ready. Once true it stays so: a type that
// is added later, or a coordinator that is being replaced, does not take a node out
// of service.
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

// Status returns what this node knows about all types, sorted by name. It asks
// no other node.
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

// Frames returns what was counted about frames.
func (s *Sharding) Frames() FrameStats {
	parked, windows := s.budgets.used()
	return FrameStats{
		ParkedBytes: parked, WindowBytes: windows,
		Malformed: s.malformed.Load(), UnknownType: s.unknown.Load(),
		AnswersLost: s.unsent.Load(), Overrun: s.overrun.Load(),
	}
}

// Explain returns the newest events of a shard on this node, oldest first, with
// those that concern all shards: why it is where it is. The coordinator's node
// knows most.
func (s *Sharding) Explain(typ string, shard ShardID) []TraceEvent {
	s.mu.Lock()
	sh := s.shells[typ]
	s.mu.Unlock()
	if sh == nil {
		return nil
	}
	return sh.trace.of(shard)
}
