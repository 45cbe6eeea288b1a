package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/sharding"
	"github.com/peerage-go/peerage/internal/transport"
)

// node is one process with its layers: one incarnation of a node. It passes frames and events
// between them, as package peerage does, and implements network.Receiver and membership.Owner.
type node struct {
	hosts  *hosts
	p      *process.Process
	member *membership.Driver
	// replicas and types are nil in runs of views only, and once the process has ended.
	replicas *replica.Node
	types    *sharding.Node

	// generation is the highest that the process has met, in all its incarnations.
	generation uint32
	// outranked is set if the process was removed because another cluster continues;
	// yielded is set if its own cluster has yielded.
	outranked, yielded bool
	// least is the generation that a cluster must have reached when it lets this one in,
	// cameFrom the cluster that its former incarnation stood in, when that was outranked, and
	// met the highest generation that it had met by then.
	least    uint32
	cameFrom uint64
	met      uint32
}

// inherit copies the generation and cluster that an incarnation's predecessor recorded.
func (n *node) inherit(former *node) {
	n.generation, n.least, n.cameFrom, n.met = former.generation, former.least, former.cameFrom, former.met
	if v := former.member.View(); former.outranked && v != nil {
		n.least, n.cameFrom, n.met = max(n.least, former.generation+1), v.Cluster, former.generation
	}
}

// startLayers starts the layers above the view core: a replicator for each role that the
// process carries, and each entity type.
func (n *node) startLayers() {
	if n.hosts.viewsOnly {
		return
	}
	n.replicas = n.hosts.storage.Start(n.p, n.member.LeaseValid)
	n.types = sharding.Start(n.hosts.shards, n.p, n.member, n.replicas)
	n.types.StartSenders()
	n.replicas.StartClients()
}

// Receive takes a frame from the network.
func (n *node) Receive(from nodeID, f network.Frame) {
	n.member.Receive(from, f)
	if n.types == nil {
		return
	}
	switch m := f.Msg.(type) {
	case protocol.Message:
		n.types.ReceiveOrder(from, m)
	case replica.Message:
		n.replicas.Receive(from, m)
	case sharding.Frame:
		n.types.Receive(from, m)
	}
}

// PeerEvent takes an event of a connection.
func (n *node) PeerEvent(typ transport.PeerEventType, class transport.Class, id, former nodeID) {
	n.member.PeerEvent(typ, class, id, former)
}

// PeerChanged takes the coming and going of connections to the layers above.
func (n *node) PeerChanged(id nodeID, class transport.Class, up bool) {
	if n.types != nil {
		n.replicas.PeerChanged(id, up)
		n.types.PeerChanged(id, class, up)
	}
}

// GenerationMet keeps a generation that the process has met: in its memory for its next
// incarnation, and in the host's file, if it has one.
func (n *node) GenerationMet(generation uint32) {
	n.generation = max(n.generation, generation)
	n.hosts.walls.note(n.p.Slot, generation)
}

// Proposed passes a proposal to the faults that are aimed at it.
func (n *node) Proposed(base, next *gossip.View) { n.hosts.aims.onProposal(n, base, next) }

// ViewHeld notes on which side of a parted run a cluster was formed, and reports to the checkers
// that a process of another cluster has adopted a view. A view that lists it is not enough: it
// may have joined a third cluster by then.
func (n *node) ViewHeld(v *gossip.View) {
	h := n.hosts
	if !h.run.Config.Apart {
		return
	}
	h.meeting.noteFormed(n.p.Slot, v.Cluster, h.processesInClusters())
	if n.cameFrom != 0 && n.cameFrom != v.Cluster {
		h.run.Hit(coverage.Absorbed)
		h.shards.NoteAbsorbed(v, n.cameFrom, n.met)
		n.cameFrom = 0
	}
}

// processesInClusters lists the processes that stand in clusters.
func (h *hosts) processesInClusters() []resident {
	var all []resident
	for _, n := range h.running() {
		if v := n.member.View(); !n.p.Removed() && v != nil {
			all = append(all, resident{n.p.Slot, v.Cluster})
		}
	}
	return all
}

// ViewChecked passes a view to the faults that are aimed at it.
func (n *node) ViewChecked(former, v *gossip.View) { n.hosts.aims.onCommit(n, former, v) }

// ViewChanged passes a newer view to the layers above.
func (n *node) ViewChanged(v *gossip.View) {
	if n.types != nil {
		n.replicas.ViewChanged(v)
		n.types.ViewChanged(v)
	}
}

// LeaseTurned informs the layers above that the lease became valid or invalid.
func (n *node) LeaseTurned(valid bool) {
	if n.types == nil {
		return
	}
	if valid {
		n.replicas.LeaseRegained()
	}
	n.types.LeaseTurned(valid)
}

// LeaseResumed reports to the checkers that a lease became valid.
func (n *node) LeaseResumed() { n.hosts.shards.NoteResumed(n.p.ID()) }

// AbandonInstances drops all instances.
func (n *node) AbandonInstances() {
	if n.types != nil {
		n.types.AbandonInstances()
	}
}

// observeRepeatedly observes the view core, in runs with requests.
func (n *node) observeRepeatedly() {
	r := n.hosts.run
	if !r.Config.Requests {
		return
	}
	r.After(r.Rand.Request.Duration(10*time.Millisecond, 300*time.Millisecond), func() {
		if n.p.Active() {
			n.p.Thread.Run(func() {
				if n.p.Active() {
					n.member.Observe()
				}
			})
			n.observeRepeatedly()
		}
	})
}

// drain hands over everything that runs here, then calls then.
func (n *node) drain(then func()) {
	if n.types == nil {
		then()
		return
	}
	n.types.Drain(then)
}

// ClusterYields ends the incarnation in order: its cluster has yielded.
func (n *node) ClusterYields() {
	if n.yielded {
		return
	}
	n.yielded = true
	n.hosts.run.Hit(coverage.Yielded)
	n.p.Thread.Run(func() {
		n.drain(func() {
			n.Removed(gossip.Removed{Reason: "its cluster has yielded", Generation: n.member.Generation(), Outranked: true})
		})
	})
}

// Removed ends the incarnation; the next one starts, unless the node left of its own will.
func (n *node) Removed(why gossip.Removed) {
	h, r := n.hosts, n.hosts.run
	if n.p.Removed() {
		return
	}
	n.p.Event("removed", uint64(why.Epoch), func() string { return why.Reason })
	n.member.WithdrawLease()
	n.member.Abandon()
	n.p.Remove()
	n.outranked = why.Outranked
	left := n.member.Leaving()
	if left {
		r.Hit(coverage.Left)
		n.member.SignOff()
	}
	r.After(r.Rand.Fault.Duration(time.Millisecond, 60*time.Millisecond), func() {
		if !n.p.Thread.Alive() {
			return
		}
		n.endProcess()
		n.p.Event("closed", 0, nil)
		if left {
			return
		}
		h.all[n.p.Slot].rejoins = true
		r.After(r.Rand.Fault.Duration(5*time.Millisecond, 800*time.Millisecond), func() { h.restart(n) })
	})
}

const announcePatience = 250 * time.Millisecond

// leaveInOrder takes the node out in order, as Node.Shutdown does.
func (n *node) leaveInOrder() {
	n.member.StartLeaving()
	if n.types != nil {
		n.types.NoteLeaving()
	}
	n.p.Thread.Run(func() {
		n.p.Event("leaves", 0, nil)
		leave := func() { n.drain(func() { n.member.Step(view.Leave{}) }) }
		if !n.hosts.run.Config.Announce {
			leave()
			return
		}
		n.member.Step(view.AnnounceLeave{})
		n.awaitLeaving(announcePatience, leave)
	})
}

// leaveUnadmitted takes a node out that no cluster has admitted.
func (n *node) leaveUnadmitted() {
	n.member.StartLeaving()
	n.p.Thread.Run(func() {
		n.p.Event("leaves before it is admitted", 0, nil)
		n.member.Step(view.Leave{})
	})
}

// awaitLeaving calls then once the process's view shows that it leaves, or patience ends.
func (n *node) awaitLeaving(patience time.Duration, then func()) {
	if m := n.member.View().Member(n.p.ID()); patience <= 0 || m == nil || m.Status == gossip.Leaving {
		then()
		return
	}
	n.p.Later(5*time.Millisecond, func() {
		if !n.p.Removed() {
			n.awaitLeaving(patience-5*time.Millisecond, then)
		}
	})
}

// pause stops the process until resume.
func (n *node) pause() {
	n.p.Thread.Pause()
	n.p.Run.Record.Begin(record.Bar{Kind: record.Pause, Host: n.p.Slot, Text: n.p.Label + " is paused: nothing runs"})
	n.p.Event("paused", 0, nil)
}

// freeze stops the clock of the process until resume, as a hypervisor may that pauses a machine.
func (n *node) freeze() {
	n.p.Clock.Stop(n.hosts.run.Now())
	n.p.Event("frozen", 0, nil)
}

func (n *node) resume() {
	if n.p.Clock.Stopped() {
		n.member.Thaw(n.p.Clock.Restart(n.hosts.run.Now()))
	}
	waiting := n.p.Thread.Waiting()
	if !n.p.Thread.Resume() {
		return
	}
	n.p.Run.Record.End(record.Pause, n.p.Slot, "", "resumed")
	n.p.Event("resumed", uint64(waiting), nil)
	if n.member.LeaseLapsed() {
		n.hosts.run.Hit(coverage.PauseLapsed)
	}
}

// crash ends the process with the loss of its memory; power takes the machine too.
func (n *node) crash(power bool) {
	if !n.p.Thread.Alive() {
		return
	}
	n.p.Event("crashed", run.Number(power), nil)
	n.hosts.net.SetPower(n.p.Slot, !power)
	n.endProcess()
}

// endProcess takes the process away.
func (n *node) endProcess() {
	h := n.hosts
	n.p.Thread.End()
	h.run.Record.EndProcess(n.p.Slot, "the process ended")
	at := &h.all[n.p.Slot]
	at.node = nil
	at.former = append(at.former, n.p.Node)
	h.judge.NoteGone(n.p.ID())
	if n.types != nil {
		n.types.Stop()
		n.replicas.Stop()
		n.replicas, n.types = nil, nil
	}
	n.p.Net.Detach()
}
