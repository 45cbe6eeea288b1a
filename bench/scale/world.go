package main

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// world is a cluster of view cores in virtual time: those of production, driven and checked by the
// simulator's driver and judge, over the simulator's network. Nothing fails but what plays asks
// for. Discovery is not played: a node without a view is given contact points at intervals.
type world struct {
	run   *run.Run
	net   *network.Network
	judge *membership.Judge
	// slots has the living process of each host, nil if there is none.
	slots []*node
	lives []int
	ids   uint64
	// shards is the number of shards of each entity type, stores have the records of the types.
	shards int
	stores []*store
	// costs are those of the cores of types so far.
	costs stepCosts
	// asker is the host whose processes ask for all shards once asking is set.
	asker  int
	asking bool
	// ended counts the bytes of the present scene that processes sent which have ended.
	ended uint64
}

// The network of a world: one data centre.
const (
	latencyMax = 500 * time.Microsecond
	spikeMax   = 2 * time.Millisecond
	// contactEvery is how often a node without a view is given contact points, contactsMost how
	// many of the lowest hosts with a view these are.
	contactEvery = 200 * time.Millisecond
	contactsMost = 3
	// restartAfter is the pause between two incarnations of a process, as of package peerage.
	restartAfter = 200 * time.Millisecond
)

// newWorld returns a world of hosts without processes, with the settings of production for
// o.nodes members.
func newWorld(hosts int, o options) *world {
	r := run.New(&seed.Options{Seed: o.seed, Nodes: hosts})
	scale := time.Duration(max(o.nodes, 200)) * 1000 / 200
	r.Config = seed.Config{
		Nodes: hosts, Ping: 100 * time.Millisecond * scale / 1000, Lease: time.Second * scale / 1000, RemoveAfter: 2 * time.Second * scale / 1000,
		DriftPPM: 1000, Evidence: gossip.EvidenceFull, SealPercent: 100, LatencyMax: latencyMax, Spike: spikeMax, QueueFramesMax: 1 << 16,
	}
	w := &world{run: r, slots: make([]*node, hosts), lives: make([]int, hosts), shards: o.shards, asker: o.nodes - 1}
	for range o.types {
		w.stores = append(w.stores, newStore())
	}
	r.Trace = trace.New(nil, 0)
	w.net = network.New(r, func(int, int) bool { return false })
	w.judge = membership.NewJudge(r, func() {})
	return w
}

// startProcess starts a process on a host. If form is set, it forms a cluster of one.
func (w *world) startProcess(slot int, form bool) {
	w.ids++
	id := gossip.NodeID(w.run.Rand.Setup.Uint64()>>16<<16 | w.ids)
	name := trace.Label(slot, w.lives[slot])
	n := &node{w: w, silent: map[gossip.NodeID]bool{}, p: &process.Process{
		Run: w.run, Slot: slot, Label: name, Number: uint64(id), Incarnation: 1,
		Node:   gossip.Node{ID: id, Name: trace.Label(slot, 0), Addr: "10.0.0." + trace.Label(slot, 0) + ":7000"},
		Thread: virtual.NewThread(&w.run.Time), Clock: process.DrawClock(w.run),
	}}
	w.lives[slot]++
	w.slots[slot] = n
	w.run.Names.Add(id, name)
	n.p.Net = w.net.Attach(network.Identity{Slot: slot, Node: id, Label: name, Process: uint64(id), Incarnation: 1}, n.p.Thread, n)
	n.member = membership.Start(w.judge, n.p, n, 0)
	n.startTypes()
	if w.asking && slot == w.asker {
		n.askForTypes()
	}
	if form {
		n.member.Step(view.Form{Generation: virtual.WallAtStart, Secret: [2]uint64{1, 1}})
		return
	}
	n.seekCluster()
}

// endProcess ends the process of a host without a warning, as SIGKILL does.
func (w *world) endProcess(slot int) {
	n := w.slots[slot]
	if n == nil {
		return
	}
	w.slots[slot] = nil
	w.ended += n.bytesSent() - n.bytesBefore
	n.p.Thread.End()
	w.judge.NoteGone(n.p.ID())
	n.p.Net.Detach()
}

// living lists the hosts with a process.
func (w *world) living() (slots []int) {
	for i, n := range w.slots {
		if n != nil {
			slots = append(slots, i)
		}
	}
	return slots
}

// leader returns the host of the leader of the newest view, -1 if none of the living leads.
func (w *world) leader() int {
	for i, n := range w.slots {
		if n != nil && n.member.Lease().Leader && n.member.LeaseValid() {
			return i
		}
	}
	return -1
}

// agree reports whether the processes of the hosts hold the newest view with valid leases, and it
// has them and no other members, all of them up.
func (w *world) agree(slots []int) bool {
	v := w.judge.Newest()
	if v == nil || len(v.Members) != len(slots) {
		return false
	}
	for _, i := range slots {
		n := w.slots[i]
		if n == nil || n.member.View() == nil || n.member.View().Epoch != v.Epoch || !n.member.LeaseValid() {
			return false
		}
		if m := v.Member(n.p.ID()); m == nil || m.Status != gossip.Up {
			return false
		}
	}
	return true
}

// node is one process of a world.
type node struct {
	w      *world
	p      *process.Process
	member *membership.Driver
	types  []*entityType
	// silent are the members that do not respond.
	silent map[gossip.NodeID]bool
	// bytesBefore is what it had sent when the present scene began.
	bytesBefore uint64
}

func (n *node) bytesSent() uint64 {
	_, bytes := n.p.Net.Sent()
	return bytes
}

// seekCluster gives contact points to the node until it has a view.
func (n *node) seekCluster() {
	n.p.Later(n.w.run.Rand.Contact.Duration(0, contactEvery), func() {
		if n.p.Removed() || n.member.View() != nil {
			return
		}
		var known []gossip.Node
		for _, o := range n.w.slots {
			if o != nil && o.member != nil && o.member.View() != nil && len(known) < contactsMost {
				known = append(known, o.p.Node)
			}
		}
		if len(known) > 0 {
			n.member.Step(view.Contacts{Nodes: known})
		}
		n.p.Later(contactEvery, n.seekCluster)
	})
}

// Receive takes a frame from the network.
func (n *node) Receive(from gossip.NodeID, f network.Frame) {
	n.member.Receive(from, f)
	switch m := f.Msg.(type) {
	case protocol.Message:
		for _, t := range n.types {
			if t.name == m.Header().Type {
				t.putEvent(orderFrom{from, m})
			}
		}
	case marker:
		n.onMarker(from, m)
	}
}

// PeerEvent takes an event of a connection.
func (n *node) PeerEvent(typ transport.PeerEventType, class transport.Class, id, former gossip.NodeID) {
	n.member.PeerEvent(typ, class, id, former)
}

// LookAround shows the view of a node that has lost its quorum to another one of its cluster, which
// answers with its own if that is newer, and ends the incarnation when it has been out for long.
func (n *node) LookAround() {
	w := n.w
	o, ours := w.slots[w.run.Rand.Contact.IntN(len(w.slots))], n.member.View()
	if o == nil || o == n || ours == nil || n.member.LeaseValid() || w.net.Blocked(n.p.Slot, o.p.Slot) != network.Open || !o.member.LeaseValid() {
		return
	}
	if theirs := o.member.View(); theirs.Epoch > ours.Epoch {
		o.member.Send(view.Send{To: n.p.ID(), Msg: &view.Decided{View: view.Whole(theirs)}})
	}
}

// Removed ends the incarnation, and starts the next one on the same host.
func (n *node) Removed(gossip.Removed) {
	if n.p.Removed() {
		return
	}
	w, slot := n.w, n.p.Slot
	n.member.WithdrawLease()
	n.p.Remove()
	if n.member.Leaving() {
		n.member.SignOff()
	}
	w.run.After(restartAfter, func() {
		if w.slots[slot] != n {
			return
		}
		w.endProcess(slot)
		w.startProcess(slot, false)
	})
}

// ClusterYields ends the incarnation: its cluster has yielded to another.
func (n *node) ClusterYields() { n.Removed(gossip.Removed{Reason: "its cluster has yielded"}) }

// ViewChanged gives a newer view to the entity types. Members that are gone are no longer silent.
func (n *node) ViewChanged(v *gossip.View) {
	n.putAll(v)
	var gone []gossip.NodeID
	for id := range n.silent {
		if v.Member(id) == nil {
			gone = append(gone, id)
		}
	}
	n.setSilent(false, gone...)
}

// LeaseTurned reports to the entity types whether the lease is valid.
func (n *node) LeaseTurned(valid bool) { n.putAll(leaseIs(valid)) }

// AbandonInstances drops all shards. A lease of the new generation is valid only when that is done.
func (n *node) AbandonInstances() {
	if len(n.types) == 0 {
		return
	}
	n.member.HoldLease()
	n.member.Tell(func() {
		n.putAll(region.Abandoned{})
		n.member.ReleaseLease()
	})
}

// PeerChanged reports to the entity types whether a member responds.
func (n *node) PeerChanged(id gossip.NodeID, class transport.Class, up bool) {
	if class == transport.Control && len(n.types) > 0 {
		n.setSilent(!up, id)
	}
}

// Nothing else of the layers above the views is played.

func (n *node) GenerationMet(uint32)          {}
func (n *node) Proposed(_, _ *gossip.View)    {}
func (n *node) ViewHeld(*gossip.View)         {}
func (n *node) ViewChecked(_, _ *gossip.View) {}
func (n *node) LeaseResumed()                 {}
