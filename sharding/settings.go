package sharding

import (
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/transport"
)

// noteSettings logs what the cores found out about settings that differ, and
// keeps why this node's region is not registered, for Status.
func (sh *shell) noteSettings(t *traceLine) {
	switch {
	case t.kind == coordinator.TraceRefused:
		sh.s.log.Error("sharding: region refused, its settings differ; give all nodes the same",
			"type", sh.info.name, "node", t.node, "difference", t.detail)
	case t.kind == coordinator.TraceMessages:
		sh.warnMessages(t)
	case t.kind == region.TraceRefused:
		sh.registered.Store(false)
		sh.refused.Store(&t.detail)
		if sh.path == nil {
			return
		}
		if strings.HasPrefix(t.detail, protocol.SettingType) {
			// That passes, with the next node that comes, while a setting that differs stays.
			sh.s.log.Warn("sharding: no node of the type's role runs it", "type", sh.info.name, "role", sh.info.role)
			return
		}
		sh.path.base().SetDifference(&t.detail)
		sh.s.log.Error("sharding: the coordinator does not register this node; give all nodes the same settings",
			"type", sh.info.name, "coordinator", t.node, "difference", t.detail)
	case t.kind == region.TraceRegistered:
		sh.refused.Store(nil)
		if sh.path != nil {
			sh.path.base().SetDifference(nil)
		}
	}
}

// warnMessages counts a node whose messages have another shape than this one's, and logs the
// first of each term.
func (sh *shell) warnMessages(t *traceLine) {
	if sh.path == nil {
		return
	}
	sh.path.base().counters.shapes.Add(1)
	if sh.messagesWarned == t.term {
		return
	}
	sh.messagesWarned = t.term
	sh.s.log.Warn("sharding: message types differ between nodes; a field that only one of them has arrives empty at the other; "+
		"right during a rolling update that adds fields, else run one version on all nodes",
		"type", sh.info.name, "node", t.node, "coordinator", sh.s.cfg.Self.ID, "differ", t.detail)
}

// greet sends a coordinator's settings to the members outside the type's role. A member that
// coordinates the type for another role refuses them with an answer. Otherwise the two would
// never meet, and each entity would have two instances.
func (sh *shell) greet() {
	v := sh.view.Load()
	if sh.office() == 0 {
		sh.greeted, sh.greetedIn = nil, 0
		return
	}
	if sh.greetedIn == v.Epoch {
		return
	}
	sh.greetedIn = v.Epoch
	before := sh.greeted
	// Of those that have left nothing is kept.
	sh.greeted = map[gossip.NodeID]bool{}
	for i := range v.Members {
		m := &v.Members[i]
		if m.HasRole(sh.info.role) {
			continue
		}
		sh.greeted[m.ID] = true
		if before[m.ID] {
			continue
		}
		sh.send(m.ID, &protocol.Register{
			Head:     protocol.Head{Type: sh.info.name, View: v.Epoch},
			Settings: protocol.Settings{Shards: sh.info.shards, Role: sh.info.role, ShardOf: sh.info.print, Keeps: sh.info.keeps},
		})
	}
}

// declines returns the answer to a message for a coordinator that this node does not
// have for the sender's role, nil if it is no such message. A nil shell is that of a
// type that this node has never met.
func (sh *shell) declines(m protocol.Message) *protocol.Declined {
	r, is := m.(*protocol.Register)
	if !is || sh != nil && sh.coord != nil && sh.info.role == r.Settings.Role {
		return nil
	}
	return &protocol.Declined{Head: protocol.Head{Type: r.Type, View: r.View}, Missing: true}
}

// decline answers a node that takes this one, of the type's role, for its coordinator:
// the next one is to do it (protocol.Elect). That a type is not registered on a node of
// its role is logged once.
func (s *service) decline(from gossip.NodeID, m protocol.Message) {
	if d := s.promise(from, m); d != nil {
		// If it is lost, it is sent again when the region registers again.
		_ = s.cfg.Links.Send(from, transport.Control, transport.KindCoordinator, protocol.Append(nil, d))
	}
}

// promise returns what decline answers, nil for nothing, and keeps it in mind if the
// other can build on it (protocol.Binds): the type may be registered later.
func (s *service) promise(from gossip.NodeID, m protocol.Message) *protocol.Declined {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shells[m.Header().Type]
	d := sh.declines(m)
	if d == nil || s.closed || s.view == nil {
		return nil
	}
	asked := m.(*protocol.Register)
	role := asked.Settings.Role
	if !s.cfg.Self.HasRole(role) || sh == nil && len(s.shells) >= typesMax {
		return nil
	}
	if sh == nil {
		s.addForeign(d.Type, role)
	}
	// Of the view that we hold: in a later one we may be in office.
	d.View = s.view.Epoch
	if d.Unbound = !protocol.Binds(s.view, from, asked); !d.Unbound {
		s.declined[d.Type] = d.View
	}
	return d
}

// addForeign makes the shell of a type that this node does not run; called with
// the mutex.
func (s *service) addForeign(typ, role string) *shell {
	s.log.Warn("sharding: entity type is not registered on this node of its role; register it on all of them, or give it another role",
		"type", typ, "role", role)
	sh := s.newShell(typeInfo{name: typ, role: role, shards: protocol.ShardsMax, proxy: true}, nil)
	s.shells[typ] = sh
	s.begin(sh)
	return sh
}
