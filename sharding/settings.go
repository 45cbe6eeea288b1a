package sharding

import (
	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/coordinator"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/region"
)

// noteSettings logs what the cores found out about settings that differ, and
// keeps why this node's region is not registered, for Status.
func (sh *shell) noteSettings(t *traceLine) {
	switch {
	case t.kind == coordinator.TraceRefused && t.coordinator:
		sh.s.log.Error("sharding: region refused, its settings differ; give all nodes the same",
			"type", sh.info.name, "node", t.node, "difference", t.detail)
	case t.kind == region.TraceRefused:
		sh.registered.Store(false)
		sh.refused.Store(&t.detail)
		sh.s.log.Error("sharding: the coordinator does not register this node; give all nodes the same settings",
			"type", sh.info.name, "coordinator", t.node, "difference", t.detail)
	case t.kind == region.TraceRegistered:
		sh.refused.Store(nil)
	}
}

// unregistered makes it visible that a type is not registered on a node of its
// role: nobody coordinates it while that node is the most senior one of the role.
// Both sides log it.
func (s *Sharding) unregistered(from view.NodeID, m protocol.Message) {
	r, is := m.(*protocol.Register)
	if !is || !s.cfg.Self.HasRole(r.Settings.Role) {
		return
	}
	s.mu.Lock()
	sh := s.shells[r.Type]
	if s.closed || s.view == nil || sh != nil && sh.path != nil || protocol.Elect(s.view, r.Settings.Role) != s.cfg.Self.ID {
		s.mu.Unlock()
		return
	}
	if sh == nil && len(s.shells) < typesMax {
		s.addForeign(r.Type, r.Settings.Role)
	}
	s.mu.Unlock()
	answer := &protocol.RegisterRefused{
		Head:     protocol.Head{Type: r.Type},
		Conflict: protocol.Conflict{Setting: "type", Here: "registered", There: "not, and it is that node's turn to coordinate it"},
	}
	// Lost, it is said again when the region registers again.
	_ = s.cfg.Links.Send(from, transport.Control, transport.KindCoordinator, protocol.Append(nil, answer))
}

// addForeign makes the shell of a type that this node does not run; called with
// the mutex.
func (s *Sharding) addForeign(typ, role string) *shell {
	s.log.Warn("sharding: entity type is not registered on this node of its role; register it on all of them, or give it another role",
		"type", typ, "role", role)
	sh := s.newShell(typeInfo{name: typ, role: role, shards: protocol.ShardsMax, proxy: true}, nil)
	s.shells[typ] = sh
	s.begin(sh)
	return sh
}
