package placement

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
)

// greetings are the members outside the role that have been sent a coordinator's settings, in
// this term of office.
type greetings struct {
	// sent are the members of view epoch.
	sent  map[gossip.NodeID]bool
	epoch gossip.Epoch
}

// dueIn returns the members of a view outside a role that have not been greeted, and counts
// them as greeted. Members that have left are forgotten.
func (g *greetings) dueIn(v *gossip.View, role string) (due []gossip.NodeID) {
	if g.epoch == v.Epoch {
		return nil
	}
	before := g.sent
	g.sent, g.epoch = map[gossip.NodeID]bool{}, v.Epoch
	for i := range v.Members {
		m := &v.Members[i]
		if m.HasRole(role) {
			continue
		}
		g.sent[m.ID] = true
		if !before[m.ID] {
			due = append(due, m.ID)
		}
	}
	return due
}

// greetOutsiders sends a coordinator's settings to the members outside the type's role. A
// member that coordinates the type for another role refuses them with an answer. Otherwise the
// two would never meet, and each entity would have two instances.
func (d *TypeDriver) greetOutsiders() {
	if d.OfficeTerm() == 0 {
		d.greetings = greetings{}
		return
	}
	v := d.view.Load()
	for _, id := range d.greetings.dueIn(v, d.typ.Role) {
		d.sendMessage(id, &protocol.Register{
			Head:     protocol.Head{Type: d.typ.Name, View: v.Epoch},
			Settings: protocol.Settings{Shards: d.typ.Shards, Role: d.typ.Role, ShardOf: d.typ.ShardOf, Keeps: d.typ.Keeps},
		})
	}
}

// lacksCoordinator returns m as Register if it is for a coordinator that this node does not
// have for the sender's role, else nil. A nil driver is that of a type that this node has
// never met.
func (d *TypeDriver) lacksCoordinator(m protocol.Message) *protocol.Register {
	r, is := m.(*protocol.Register)
	if !is || d != nil && d.coordinator != nil && d.typ.Role == r.Settings.Role {
		return nil
	}
	return r
}

// declineRegister answers a node that takes this one, of the type's role, for its coordinator:
// the next one is to do it (protocol.Elect). That a type is not registered on a node of
// its role is logged once.
func (ds *Drivers) declineRegister(from gossip.NodeID, m protocol.Message) {
	if r := ds.bindDecline(from, m); r != nil {
		// If it is lost, it is sent again when the region registers again.
		_ = ds.cfg.Links.Send(from, transport.Control, transport.KindCoordinator, protocol.Append(nil, r))
	}
}

// bindDecline returns the reply of declineRegister, nil for none. It records the reply if the
// receiver can build on it: the type may be registered later.
func (ds *Drivers) bindDecline(from gossip.NodeID, m protocol.Message) *protocol.Declined {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.byType[m.Header().Type]
	asked := d.lacksCoordinator(m)
	if asked == nil || ds.closed || ds.view == nil {
		return nil
	}
	role := asked.Settings.Role
	if !ds.cfg.Self.HasRole(role) || d == nil && len(ds.byType) >= typesMax {
		return nil
	}
	if d == nil {
		ds.addForeign(asked.Type, role)
	}
	reply := protocol.DeclineMissing(ds.view, from, asked)
	if !reply.Unbound {
		ds.declined[reply.Type] = reply.View
	}
	return reply
}
