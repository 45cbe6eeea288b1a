package sharding

import (
	"strings"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/coordinator"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/region"
)

// settingType stands for a type that is not there at all: that passes, with the next
// node in office, while a setting that differs stays.
const settingType = "type"

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
		if sh.path != nil && !strings.HasPrefix(t.detail, settingType) {
			sh.path.base().differs.Store(&t.detail)
		}
		sh.s.log.Error("sharding: the coordinator does not register this node; give all nodes the same settings",
			"type", sh.info.name, "coordinator", t.node, "difference", t.detail)
	case t.kind == region.TraceRegistered:
		sh.refused.Store(nil)
		if sh.path != nil {
			sh.path.base().differs.Store(nil)
		}
	}
}

// greet tells the members outside the type's role what a coordinator goes by: one
// that coordinates the type for another role refuses it, and says so. The two would
// never meet otherwise, and there would be two of each entity.
func (sh *shell) greet(v *view.View) {
	if sh.office() == 0 {
		sh.greeted = nil
		return
	}
	if sh.greeted == nil {
		sh.greeted = map[view.NodeID]bool{}
	}
	for i := range v.Members {
		m := &v.Members[i]
		if m.HasRole(sh.info.role) || sh.greeted[m.ID] {
			continue
		}
		sh.greeted[m.ID] = true
		sh.send(m.ID, &protocol.Register{
			Head:     protocol.Head{Type: sh.info.name, View: v.Epoch},
			Settings: protocol.Settings{Shards: sh.info.shards, Role: sh.info.role, ShardOf: sh.info.print, Keeps: sh.info.keeps},
		})
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
		Conflict: protocol.Conflict{Setting: settingType, Here: "registered", There: "not, and it is that node's turn to coordinate it"},
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
