package main

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// entityType is one entity type on one node: the region and coordinator cores of production, driven
// as TypeDriver of internal/placement does. Shards start and stop without delay, since they have no
// entities, and no messages are sent to them.
type entityType struct {
	n      *node
	number int
	name   string
	region *region.Core
	office *coordinator.Core
	timer  *virtual.Timer

	regionEffects      region.Effects
	coordinatorEffects coordinator.Effects
	// events wait for the cores; loopback are the messages between the cores of this node.
	events   []any
	stepping bool
	loopback []protocol.Message

	// hosted are the shards that run here.
	hosted map[protocol.ShardID]protocol.Token
	// asks is set while the application of this node wants the homes of all shards.
	asks bool
	// drained is called when Drain has ended.
	drained func()
}

// orderFrom is a message of a coordinator or region of another node; leaseIs reports the lease.
type orderFrom struct {
	from gossip.NodeID
	msg  protocol.Message
}
type leaseIs bool

// marker follows the messages to a shard on the connection to its home, which sends it back.
type marker struct {
	number int
	shard  protocol.ShardToken
	acked  bool
}

// startTypes starts the entity types of a node.
func (n *node) startTypes() {
	w := n.w
	for i := range w.stores {
		name := "type-" + strconv.Itoa(i)
		t := &entityType{n: n, number: i, name: name, hosted: map[protocol.ShardID]protocol.Token{}}
		t.region = region.New(region.Config{Self: n.p.ID(), Type: name, Shards: w.shards, Hosts: true}, &region.Floors{})
		t.office = coordinator.New(coordinator.Config{Self: n.p.ID(), Type: name, Shards: w.shards, RemoveAfter: w.run.Config.RemoveAfter})
		t.timer = n.p.NewTimer(func() { t.putEvent(nil) })
		n.types = append(n.types, t)
		t.putEvent(leaseIs(n.member.LeaseValid()))
	}
}

// putEvent gives an event to the cores. Those that follow from it are handled before putEvent returns; nil only
// looks at the time.
func (t *entityType) putEvent(ev any) {
	t.events = append(t.events, ev)
	if t.stepping || !t.n.p.Active() {
		return
	}
	t.stepping = true
	for len(t.events) > 0 {
		ev := t.events[0]
		t.events = t.events[1:]
		t.handleEvent(ev)
		t.stepOnTime()
	}
	t.stepping = false
	t.timer.Set(clock.Min(t.region.Deadline(), t.office.Deadline()))
}

func (t *entityType) handleEvent(ev any) {
	switch ev := ev.(type) {
	case *gossip.View:
		t.stepRegion(region.ViewChanged{View: ev})
		t.stepCoordinator(coordinator.ViewChanged{View: ev})
	case leaseIs:
		t.stepRegion(region.LeaseChanged{Valid: bool(ev)})
		t.stepCoordinator(coordinator.LeaseChanged{Valid: bool(ev)})
	case orderFrom:
		t.dispatchMessage(ev.from, ev.msg)
	case region.Event:
		t.stepRegion(ev)
	case coordinator.Event:
		t.stepCoordinator(ev)
	}
	t.deliverLoopback()
}

// stepOnTime steps the cores whose deadline has passed.
func (t *entityType) stepOnTime() {
	now := t.n.p.Now()
	if now >= t.region.Deadline() {
		t.stepRegion(region.Tick{})
	}
	if now >= t.office.Deadline() {
		t.stepCoordinator(coordinator.Tick{})
	}
	t.deliverLoopback()
}

func (t *entityType) deliverLoopback() {
	for len(t.loopback) > 0 {
		m := t.loopback[0]
		t.loopback = t.loopback[1:]
		t.dispatchMessage(t.n.p.ID(), m)
	}
}

func (t *entityType) dispatchMessage(from gossip.NodeID, m protocol.Message) {
	if protocol.ToCoordinator(m) {
		t.stepCoordinator(coordinator.Received{From: from, Msg: m})
		return
	}
	t.stepRegion(region.Received{From: from, Msg: m})
}

func (t *entityType) sendMessage(to gossip.NodeID, m protocol.Message) {
	if to == t.n.p.ID() {
		t.loopback = append(t.loopback, m)
		return
	}
	t.n.p.Net.SendUnordered(to, transport.Control, network.Frame{Kind: transport.KindCoordinator, Msg: m})
}

func (t *entityType) stepRegion(ev region.Event) {
	began := time.Now()
	t.region.Step(t.n.p.Now(), ev, &t.regionEffects)
	t.n.w.costs.regions += time.Since(began)
	for _, e := range t.regionEffects.Do {
		t.doRegion(e)
	}
	t.regionEffects.Reset()
}

func (t *entityType) doRegion(e region.Effect) {
	switch e := e.(type) {
	case region.Send:
		t.sendMessage(e.To, e.Msg)
	case region.Standing:
		t.stepCoordinator(coordinator.Standing(e))
	case region.StartShard:
		t.hosted[e.Shard] = e.Token
		t.putEvent(region.ShardStarted{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
	case region.StopShard:
		delete(t.hosted, e.Shard)
		t.putEvent(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
	case region.AbandonAll:
		clear(t.hosted)
	case region.CloseRoute:
		t.closeRoute(e)
	case region.SendMarker:
		t.sendMarker(e.Shard, e.Marker)
	case region.Drained:
		if t.drained != nil {
			t.drained()
		}
	}
}

// closeRoute sends the marker of a route that closes. An application that asks wants its home again.
func (t *entityType) closeRoute(e region.CloseRoute) {
	if e.Marker != nil {
		t.sendMarker(e.Shard, *e.Marker)
	}
	if t.asks {
		t.putEvent(region.NeedHome{Shards: []protocol.ShardID{e.Shard}})
	}
}

func (t *entityType) sendMarker(shard protocol.ShardID, m region.Marker) {
	st := protocol.ShardToken{Shard: shard, Token: m.Token}
	if m.Owner == t.n.p.ID() {
		t.putEvent(region.MarkerAcked{From: m.Owner, Shards: []protocol.ShardToken{st}})
		return
	}
	t.n.sendMarker(m.Owner, marker{number: t.number, shard: st})
}

func (n *node) sendMarker(to gossip.NodeID, m marker) {
	_ = n.p.Net.Send(to, transport.Message, network.Frame{Kind: transport.KindEntity, Msg: m})
}

// onMarker answers a marker, or takes the answer.
func (n *node) onMarker(from gossip.NodeID, m marker) {
	if !m.acked {
		m.acked = true
		n.sendMarker(from, m)
		return
	}
	n.types[m.number].putEvent(region.MarkerAcked{From: from, Shards: []protocol.ShardToken{m.shard}})
}

func (t *entityType) stepCoordinator(ev coordinator.Event) {
	began := time.Now()
	t.office.Step(t.n.p.Now(), ev, &t.coordinatorEffects)
	t.n.w.costs.coordinators += time.Since(began)
	for _, e := range t.coordinatorEffects.Do {
		switch e := e.(type) {
		case coordinator.Send:
			t.sendMessage(e.To, e.Msg)
		case coordinator.Write:
			t.useStore(func(s *store) coordinator.Event { return s.writeRecords(e) })
		case coordinator.Read:
			t.useStore(func(s *store) coordinator.Event { return s.readRecords(e) })
		case coordinator.Yield:
			t.n.p.Later(0, func() { t.n.member.Step(view.Yield{Subject: e.Subject, Reporter: t.n.p.ID()}) })
		}
	}
	t.coordinatorEffects.Reset()
}

// askAll has the application of the node want the homes of all shards of the type, one by one.
func (t *entityType) askAll() {
	t.asks = true
	for shard := range t.n.w.shards {
		t.putEvent(region.NeedHome{Shards: []protocol.ShardID{protocol.ShardID(shard)}})
	}
}

// askForTypes has the application of the node want all shards of all types.
func (n *node) askForTypes() {
	for _, t := range n.types {
		t.askAll()
	}
}

// drainTypes hands over all shards of the node, then calls then.
func (n *node) drainTypes(then func()) {
	left := len(n.types)
	if left == 0 {
		then()
	}
	for _, t := range n.types {
		t.drained = func() {
			t.drained = nil
			if left--; left == 0 {
				n.p.Later(0, then)
			}
		}
		t.putEvent(region.Drain{})
	}
}

// setSilent reports to the coordinators whether a member does not respond.
func (n *node) setSilent(silent bool, ids ...gossip.NodeID) {
	changed := false
	for _, id := range ids {
		if n.silent[id] == silent {
			continue
		}
		changed = true
		if delete(n.silent, id); silent {
			n.silent[id] = true
		}
	}
	if changed {
		n.putAll(coordinator.Silent{Nodes: slices.Sorted(maps.Keys(n.silent))})
	}
}

// putAll gives an event to all types.
func (n *node) putAll(ev any) {
	for _, t := range n.types {
		t.putEvent(ev)
	}
}
