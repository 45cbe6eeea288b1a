package sharding

import (
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
)

// TraceEvent is one event in a shard's history.
type TraceEvent struct {
	// At is the wall-clock time of that node, for display.
	At time.Time `json:"at"`
	// On is the node that recorded the event; zero means this node.
	On gossip.NodeID `json:"on"`
	// Term is the term that the node followed, or held, at that time.
	Term gossip.Epoch `json:"term"`
	// By is "region" or "coordinator".
	By     string        `json:"by"`
	Kind   string        `json:"kind"`
	Shard  ShardID       `json:"shard"`
	Node   gossip.NodeID `json:"node,omitzero"`
	Token  Token         `json:"token"`
	Detail string        `json:"detail,omitempty"`
}

// Ready reports whether every type of the Registry has registered with its coordinator
// once. A type that no node of its role runs counts as registered: those nodes may have an
// older version, and leave only once this node is ready. Once true, the result stays true:
// a type that is added later, or a coordinator that is being replaced, does not take a node
// out of service.
func (s *service) Ready() bool {
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
func (s *service) Status() []placement.TypeStatus {
	var out []placement.TypeStatus
	for _, sh := range s.all() {
		if sh.path != nil {
			out = append(out, sh.status())
		} else if sh.s.cfg.Self.HasRole(sh.info.role) {
			out = append(out, placement.TypeStatus{Type: sh.info.name, Role: sh.info.role, Unregistered: true})
		}
	}
	return out
}

func (sh *shell) status() placement.TypeStatus {
	t := placement.TypeStatus{
		Type: sh.info.name, Role: sh.info.role, Hosting: sh.s.hosts(&sh.info),
		Registered: sh.registered.Load(), Term: gossip.Epoch(sh.term.Load()),
		Coordinator: gossip.NodeID(sh.elected.Load()),
	}
	if why := sh.refused.Load(); why != nil {
		t.Refused = *why
	}
	t.Coordinating = t.Coordinator == sh.s.cfg.Self.ID
	r := sh.path.base()
	t.Shards = make([]placement.ShardStatus, r.shards)
	for shard := range ShardID(r.shards) {
		at := r.Status(shard)
		t.Shards[shard] = placement.ShardStatus{
			Shard: shard, Home: at.Home, Token: at.Token, Route: at.State, Buffered: at.Buffered,
			Entities: sh.path.population(shard),
		}
	}
	return t
}

// Frames returns the counters about frames.
func (s *service) Frames() figures.Frames {
	parked, windows := s.budgets.Used()
	return figures.Frames{
		ParkedBytes: parked, WindowBytes: windows,
		Malformed: s.malformed.Load(), UnknownType: s.unknown.Load(),
		AnswersLost: s.unsent.Load(), Overrun: s.overrun.Load(),
	}
}

// Explain returns this node's newest events of a shard, and those that concern all shards,
// oldest first. The coordinator's node has most of them.
func (s *service) Explain(typ string, shard ShardID) []TraceEvent {
	s.mu.Lock()
	sh := s.shells[typ]
	s.mu.Unlock()
	if sh == nil {
		return nil
	}
	return sh.trace.of(shard)
}
