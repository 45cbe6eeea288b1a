package sharding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// Node has the entity types of one process.
type Node struct {
	site
	models   []*Model
	silent   map[gossip.NodeID]bool
	draining draining
}

// Start starts the entity types of a process.
func Start(inv *Invariants, p *process.Process, member *membership.Driver, replicas *replica.Node) *Node {
	n := &Node{site: site{p: p, inv: inv, member: member, on: true}, silent: map[gossip.NodeID]bool{}}
	n.draining.site = &n.site
	for i := range p.Run.Config.Types {
		store := replicas.Store(p.Run.Config.Types[i].Role)
		n.models = append(n.models, startModel(&n.site, i, store, n.draining.onFarewellAck))
	}
	n.planLooks()
	inv.addNode(n)
	return n
}

// StartSenders starts the modelled callers.
func (n *Node) StartSenders() {
	for _, m := range n.models {
		m.senders.keepPosting()
		m.producer.keepOffering()
	}
}

// Stop ends the entity types with their process.
func (n *Node) Stop() {
	n.on = false
	n.inv.removeNode(n)
	for _, m := range n.models {
		m.checks.asks.AskerGone(n.p.ID())
	}
	n.inv.noteAbandoned(n)
}

// ReceiveOrder takes a message between coordinators and regions.
func (n *Node) ReceiveOrder(from gossip.NodeID, msg protocol.Message) {
	for _, m := range n.models {
		if m.spec.Name == msg.Header().Type {
			m.cores.put(func() { m.cores.receiveOrder(from, msg) })
		}
	}
}

// Receive takes a frame of a message or bulk connection.
func (n *Node) Receive(from gossip.NodeID, f Frame) { n.models[f.ofType()].receiveFrame(from, f) }

// ViewChanged takes a newer view.
func (n *Node) ViewChanged(v *gossip.View) {
	old := n.view
	n.view = v
	for _, m := range n.models {
		m.cores.setView(v)
		if c := m.instances.copies; c != nil {
			c.SetView(v)
		}
	}
	if old == nil {
		return
	}
	for i := range old.Members {
		if id := old.Members[i].ID; v.Member(id) == nil {
			n.setSilent(id, false)
			n.onPeerLost(id)
			for _, m := range n.models {
				m.path.Forget(id)
			}
		}
	}
}

// LeaseTurned is called when the lease became valid or invalid.
func (n *Node) LeaseTurned(valid bool) {
	for _, m := range n.models {
		m.cores.put(func() { m.cores.setLease(valid) })
		if valid {
			m.instances.dispatchAll()
		}
	}
}

// AbandonInstances drops all instances. A lease of the new generation is valid only when that
// is done.
func (n *Node) AbandonInstances() {
	n.inv.noteAbandoned(n)
	for _, m := range n.models {
		n.member.HoldLease()
		n.member.Tell(func() {
			m.instances.abandonAll()
			m.cores.put(func() {
				m.cores.stepRegion(region.Abandoned{})
				m.cores.settle()
				n.member.ReleaseLease()
			})
		})
	}
}

// PeerChanged takes the coming and going of connections.
func (n *Node) PeerChanged(id gossip.NodeID, class transport.Class, up bool) {
	switch {
	case class == transport.Control:
		n.setSilent(id, !up)
	case class == transport.Message && up:
		for _, m := range n.models {
			m.path.PeerUp(id)
		}
	case class == transport.Message:
		n.onPeerLost(id)
	}
}

func (n *Node) onPeerLost(id gossip.NodeID) {
	n.draining.onPeerLost(id)
	for _, m := range n.models {
		m.onPeerLost(id)
	}
}

// setSilent reports to the coordinators whether a member is silent.
func (n *Node) setSilent(id gossip.NodeID, silent bool) {
	if n.silent[id] == silent {
		return
	}
	if silent {
		n.silent[id] = true
	} else {
		delete(n.silent, id)
	}
	nodes := sortedIDs(n.silent)
	for _, m := range n.models {
		m.cores.put(func() { m.cores.stepCoordinator(coordinator.Silent{Nodes: nodes}) })
	}
}

// planLooks keeps asking for connections that routes wait for.
func (n *Node) planLooks() {
	n.p.Run.After(50*time.Millisecond, func() {
		if !n.on {
			return
		}
		n.p.Thread.Run(func() {
			for _, m := range n.models {
				m.look()
				m.workers.lookAtPlan()
				m.entities.Look()
				m.cores.wish()
			}
		})
		n.planLooks()
	})
}

// NoteLeaving notes the types that lose their last home, since the process begins to leave.
// Asks that wait for such a home may time out.
func (n *Node) NoteLeaving() {
	for _, m := range n.models {
		if !m.hasHome() {
			m.checks.unhosted = n.p.Run.Now()
		}
	}
}

// Drain calls then when the shards are gone, or patience is; immediately if the run does not
// drain.
func (n *Node) Drain(then func()) { n.draining.startDrain(n.models, then) }

// Describe is the part of the process in a failure report.
func (n *Node) Describe() string {
	var b strings.Builder
	names := &n.p.Run.Names
	for _, m := range n.models {
		fmt.Fprintf(&b, "| %s ", m.spec.Name)
		if coord := m.cores.coord; coord != nil && coord.Term() != 0 {
			fmt.Fprintf(&b, "coordinates in term %s ", names.Token(protocol.Token{Term: coord.Term()}))
		}
		b.WriteString("hosts")
		for shard, i := range m.instances.shards {
			if i != nil {
				fmt.Fprintf(&b, " %d(%s q%d)", shard, names.Token(i.token), i.boxes.Len())
			}
		}
	}
	return b.String()
}

func sortedIDs(set map[gossip.NodeID]bool) []gossip.NodeID {
	ids := make([]gossip.NodeID, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// The facts about a node that Invariants asks for.

func (n *Node) busySince(typ int, shard protocol.ShardID) virtual.Instant {
	if i := n.models[typ].instances.shards[shard]; i != nil {
		return i.busySince
	}
	return virtual.Never
}

func (n *Node) noteNoRoom(typ int, call uint64) {
	if c := n.models[typ].calls.open[call]; c != nil && n.on {
		c.noRoom = true
	}
}

func (n *Node) noteProbed(typ int, shard protocol.ShardID) {
	n.models[typ].senders.probed[shard] = true
}

func (n *Node) checkDeadlines() {
	for _, m := range n.models {
		m.calls.checkDeadlines()
	}
}

func (n *Node) drainedIn(typ int) gossip.Epoch { return n.models[typ].drainedIn }

func (n *Node) hasHandedOver() bool { return n.draining.done }
