package sim

import (
	"strconv"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/sharding"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

type nodeID = gossip.NodeID

// hosts are the machines of a run, and the processes on them.
type hosts struct {
	run     *run.Run
	net     *network.Network
	judge   *membership.Judge
	storage *replica.Storage
	shards  *sharding.Invariants
	walls   *walls
	meeting *meeting
	// viewsOnly leaves replicators and entity types out.
	viewsOnly bool
	aims      aims
	// onStart is called when the membership of a process has started.
	onStart func(*node)

	all  []host
	byID map[nodeID]*node
	ids  uint64
}

// aims are the moments at which faults are aimed.
type aims interface {
	// onProposal is called when a leader proposes a view, onCommit when a process holds a view.
	onProposal(from *node, base, next *gossip.View)
	onCommit(at *node, former, v *gossip.View)
}

// host is a machine: it keeps its address while processes come and go.
type host struct {
	node *node
	// expected hosts must all answer before a cluster is formed. A host is expected from
	// its first start, which for most is the beginning of the run.
	expected bool
	// stay keeps the host empty: its process is not started again.
	stay bool
	// lives counts the processes that ran here.
	lives int
	// rejoins: the process that was removed here is about to start its next incarnation.
	rejoins bool
	// former are the nodes that ran here before.
	former []gossip.Node
}

// running lists the processes that live.
func (h *hosts) running() []*node {
	var all []*node
	for i := range h.all {
		if n := h.all[i].node; n != nil {
			all = append(all, n)
		}
	}
	return all
}

// everySlot returns the set of all hosts.
func (h *hosts) everySlot() map[int]bool {
	q := map[int]bool{}
	for i := range h.all {
		q[i] = true
	}
	return q
}

// LabelAt returns the name of the process on a host, "" if there is none.
func (h *hosts) LabelAt(slot int) string {
	if n := h.all[slot].node; n != nil {
		return n.p.Label
	}
	return ""
}

// startNew brings a new process up on a host.
func (h *hosts) startNew(slot int) { h.startNext(slot, nil) }

// startNext brings up the next incarnation of the process that former was of, or a new
// process if former is nil.
func (h *hosts) startNext(slot int, former *node) {
	at := &h.all[slot]
	at.expected = true
	h.ids++
	id := nodeID(h.run.Rand.Setup.Uint64()>>16<<16 | h.ids)
	name := trace.Label(slot, 0)
	p := &process.Process{
		Run: h.run, Slot: slot, Label: trace.Label(slot, at.lives), Number: uint64(id), Incarnation: 1,
		Node:   gossip.Node{ID: id, Name: name, Addr: "10.0.0." + name + ":7000", Roles: h.run.Config.RolesOf(slot)},
		Thread: virtual.NewThread(&h.run.Time), Clock: process.DrawClock(h.run),
	}
	n := &node{hosts: h, p: p}
	if h.run.Config.Versions {
		p.Node.AppVersion = strconv.Itoa(h.run.Rand.Request.Between(1, 2))
		h.run.Hit(coverage.MixedReleases)
	}
	h.walls.jump(slot)
	if former != nil {
		p.Number, p.Incarnation = former.p.Number, former.p.Incarnation+1
		n.inherit(former)
	}
	p.Net = h.net.Attach(network.Identity{Slot: slot, Node: id, Label: p.Label, Process: p.Number, Incarnation: p.Incarnation}, p.Thread, n)
	at.lives++
	at.node = n
	h.byID[id] = n
	h.run.Names.Add(id, p.Label)
	h.run.Record.Begin(record.Bar{Kind: record.Life, Host: slot, Name: p.Label, Text: "process " + p.Label})
	p.Event("started", uint64(id), nil)
	n.member = membership.Start(h.judge, p, n, n.least)
	h.onStart(n)
	n.startLayers()
	n.observeRepeatedly()
}

// restart starts the next incarnation of a process that was removed, unless its host is down.
func (h *hosts) restart(former *node) {
	slot := former.p.Slot
	h.all[slot].rejoins = false
	if other := h.drawVacant(slot); other >= 0 {
		h.run.Hit(coverage.Rehosted)
		h.startNext(other, former)
		return
	}
	if h.all[slot].node == nil && !h.net.PoweredOff(slot) && !h.all[slot].stay {
		h.run.Hit(coverage.Rejoined)
		h.startNext(slot, former)
	}
}

// drawVacant draws, in runs that reuse addresses, one of the other hosts whose processes have
// ended: the next incarnation of a process may start there. It returns -1 if none is drawn.
func (h *hosts) drawVacant(slot int) int {
	if !h.run.Config.Reuse || h.run.Calm {
		return -1
	}
	for _, i := range h.run.Rand.Rate.Perm(len(h.all)) {
		if at := &h.all[i]; i != slot && at.node == nil && at.lives > 0 && !at.stay && !h.net.PoweredOff(i) {
			return i
		}
	}
	return -1
}

// startDown starts a process on each host that has none, and where none is about to start.
func (h *hosts) startDown() {
	for i := range h.all {
		if at := &h.all[i]; at.node == nil && !(h.run.Config.Apart && at.rejoins) {
			h.startNew(i)
		}
	}
}

// keepEmpty keeps hosts without a process as they are.
func (h *hosts) keepEmpty() {
	for i := range h.all {
		h.all[i].stay = true
	}
}
