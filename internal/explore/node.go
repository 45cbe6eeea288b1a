package main

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/sharding/strategy"
)

const (
	typeName = "counter"
	role     = "backend"
)

func newNode(id gossip.NodeID, p *plan) *node {
	cc := coordinator.Config{
		Self: id, Type: typeName, Role: role, Shards: shards, Strategy: p.strategy,
		Resend: resend, BeginTimeout: 4 * resend, StopTimeout: stopTimeout, Rebalance: 10 * resend, RemoveAfter: 100 * resend, RetryWrite: resend,
	}
	if cc.Strategy == nil {
		cc.Strategy = strategy.LeastShards{RelativeLimit: 0.5}
	}
	rc := region.Config{Self: id, Type: typeName, Role: role, Shards: shards, Hosts: true, Resend: resend, Retry: resend, RetryMax: 4 * resend}
	return &node{
		id: id, coord: coordinator.New(cc), reg: region.New(rc, &region.Floors{}),
		replica: replica{records: map[protocol.ShardID]protocol.Record{}}, tenants: map[protocol.ShardID]*tenant{},
		held: map[stateOf]bool{}, transfers: map[protocol.ShardID]*transfer{}, stoppedFor: map[protocol.ShardID]protocol.Token{},
	}
}

func (n *node) memberEntry(s gossip.Status) gossip.Member {
	return gossip.Member{Node: gossip.Node{ID: n.id, Name: nameOf(n.id), Roles: []string{role}}, Joined: 1, Status: s}
}

func nameOf(id gossip.NodeID) string { return fmt.Sprintf("n%d", id) }

// deadline returns when the node next acts by itself.
func (n *node) deadline() clock.Instant {
	d := clock.Min(n.coord.Deadline(), n.reg.Deadline())
	for _, t := range n.transfers { // order-free: the least counts
		d = clock.Min(d, t.next)
	}
	return d
}

// fire runs the due timers of a node.
func (w *world) fire(n *node) {
	if !w.now.Before(n.coord.Deadline()) {
		w.stepCoordinator(n, coordinator.Tick{})
	}
	if !w.now.Before(n.reg.Deadline()) {
		w.stepRegion(n, region.Tick{})
	}
	for s := range protocol.ShardID(shards) {
		if t := n.transfers[s]; t != nil && !w.now.Before(t.next) {
			w.advanceTransfer(n, t)
		}
	}
}

func (w *world) stepCoordinator(n *node, ev coordinator.Event) {
	var out coordinator.Effects
	n.coord.Step(w.now, ev, &out)
	for _, t := range out.Trace {
		w.logLine("%d coordinator: %s shard %v node %d token %v %s", n.id, t.Kind, t.Shard, t.Node, t.Token, t.Detail)
	}
	checkOffice(w, n)
	for _, e := range out.Do {
		switch e := e.(type) {
		case coordinator.Send:
			checkOrder(w, n, e)
			w.push(control, n, e.To, e.Msg)
		case coordinator.Write:
			w.push(control, n, n.id, &operation{id: e.ID, term: e.Term, records: e.Records, write: true})
		case coordinator.Read:
			w.push(control, n, n.id, &operation{id: e.ID, term: e.Term})
		}
	}
}

func (w *world) stepRegion(n *node, ev region.Event) {
	var out region.Effects
	n.reg.Step(w.now, ev, &out)
	for _, t := range out.Trace {
		w.logLine("%d region: %s shard %v node %d token %v %s", n.id, t.Kind, t.Shard, t.Node, t.Token, t.Detail)
	}
	for _, e := range out.Do {
		w.performEffect(n, e)
	}
}

// performEffect carries out an effect of a region.
func (w *world) performEffect(n *node, e region.Effect) {
	switch e := e.(type) {
	case region.Send:
		w.push(control, n, e.To, e.Msg)
	case region.Standing:
		w.stepCoordinator(n, coordinator.Standing(e))
	case region.CloseRoute:
		w.closeRoute(n, e)
	case region.SendMarker:
		w.push(data, n, e.Owner, &marker{protocol.ShardToken{Shard: e.Shard, Token: e.Token}})
	case region.StartShard:
		w.startShard(n, e)
	case region.StopShard:
		w.stopShard(n, e)
	case region.AbandonAll:
		clear(n.tenants)
		clear(n.transfers)
	case region.DropState:
		delete(n.held, stateOf{e.Shard, e.Token, e.From})
	case region.Drained:
		n.drained = true
	}
}

// closeRoute closes a route. Its last message may still be on the connection, in front of the
// marker: a trail stands for it.
func (w *world) closeRoute(n *node, e region.CloseRoute) {
	if h, _ := n.reg.Route(e.Shard); h.Node != 0 {
		w.push(data, n, h.Node, &trail{protocol.ShardToken{Shard: e.Shard, Token: h.Token}})
	}
	if e.Marker != nil {
		w.push(data, n, e.Marker.Owner, &marker{protocol.ShardToken{Shard: e.Shard, Token: e.Marker.Token}})
	}
}

func (w *world) startShard(n *node, e region.StartShard) {
	checkStart(w, n, e)
	n.tenants[e.Shard] = &tenant{token: e.Token}
	w.push(control, n, n.id, &started{protocol.ShardToken{Shard: e.Shard, Token: e.Token}})
}

// onStarted ends the start of a shard.
func (w *world) onStarted(n *node, st protocol.ShardToken) {
	t := n.tenants[st.Shard]
	if t == nil || t.token != st.Token || t.stopping {
		return
	}
	t.running = true
	w.stepRegion(n, region.ShardStarted{Shards: []protocol.ShardToken{st}})
}

func (w *world) stopShard(n *node, e region.StopShard) {
	checkStop(w, n, e)
	t := n.tenants[e.Shard]
	if t == nil || t.token != e.Token {
		// It has stopped before, and its state goes to another home.
		w.push(control, n, n.id, &stopped{e})
		return
	}
	t.stopping, t.stop = true, e
	w.push(control, n, n.id, &stopped{e})
}

// onStopped ends the stop of a shard: its state is on its way, or stays here.
func (w *world) onStopped(n *node, e region.StopShard) {
	has := n.held[stateOf{e.Shard, e.Token, n.id}]
	if t := n.tenants[e.Shard]; t != nil && t.token == e.Token {
		delete(n.tenants, e.Shard)
		has = true
	}
	t := &transfer{order: e, end: w.now.Add(stopTimeout)}
	switch {
	case e.To == 0 || !has:
		w.stepRegion(n, region.ShardStopped{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
	case e.To == n.id:
		w.endTransfer(n, t)
	default:
		n.transfers[e.Shard] = t
		w.advanceTransfer(n, t)
	}
}

// advanceTransfer sends the state of a transfer, or ends the transfer: the new home has left, or its time
// is over.
func (w *world) advanceTransfer(n *node, t *transfer) {
	e := t.order
	if t.next != 0 && n.view.Member(e.To) == nil || !w.now.Before(t.end) {
		w.endTransfer(n, t)
		return
	}
	t.next = w.now.Add(resend)
	w.push(bulk, n, e.To, &stateFrame{protocol.ShardToken{Shard: e.Shard, Token: e.Token}, e.Term})
}

// endTransfer reports that the shard has stopped, and that its state is kept here too.
func (w *world) endTransfer(n *node, t *transfer) {
	e := t.order
	delete(n.transfers, e.Shard)
	n.held[stateOf{e.Shard, e.Token, n.id}] = true
	w.stepRegion(n, region.StateHeld{Shard: e.Shard, Token: e.Token, From: n.id, Term: e.Term})
	w.stepRegion(n, region.ShardStopped{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
}

// deliver hands a message to a node.
func (w *world) deliver(n *node, from gossip.NodeID, msg any) {
	switch m := msg.(type) {
	case protocol.Message:
		if protocol.ToCoordinator(m) {
			w.stepCoordinator(n, coordinator.Received{From: from, Msg: m})
		} else {
			w.stepRegion(n, region.Received{From: from, Msg: m})
		}
	case *operation:
		w.operate(n, m, false)
	case *operated:
		w.finishOperation(n, m)
	case *started:
		w.onStarted(n, m.st)
	case *stopped:
		w.onStopped(n, m.order)
	case *trail:
		checkTrail(w, n, from, m.st)
	case *marker:
		w.push(data, n, from, &markerAck{m.st})
	case *markerAck:
		w.stepRegion(n, region.MarkerAcked{From: from, Shards: []protocol.ShardToken{m.st}})
	case *stateFrame:
		n.held[stateOf{m.st.Shard, m.st.Token, from}] = true
		w.stepRegion(n, region.StateHeld{Shard: m.st.Shard, Token: m.st.Token, From: from, Term: m.term})
		w.push(bulk, n, from, &stateAck{m.st})
	case *stateAck:
		if t := n.transfers[m.st.Shard]; t != nil && t.order.Token == m.st.Token && t.order.To == from {
			w.endTransfer(n, t)
		}
	}
}

// setLease changes a node's lease. One that returns in another generation ends all instances
// first.
func (w *world) setLease(n *node, valid bool) {
	if valid && n.lapsedIn != 0 && n.lapsedIn != n.view.Epoch.Generation() {
		w.stepRegion(n, region.Abandoned{})
	}
	n.lease, n.lapsedIn = valid, 0
	if !valid {
		n.lapsedIn = n.view.Epoch.Generation()
	}
	w.stepRegion(n, region.LeaseChanged{Valid: valid})
	w.stepCoordinator(n, coordinator.LeaseChanged{Valid: valid})
}

// learn brings a node the newest view, and its first lease.
func (w *world) learn(n *node) {
	v := w.cluster.newest
	n.view, n.lagging = v, false
	w.stepRegion(n, region.ViewChanged{View: v})
	w.stepCoordinator(n, coordinator.ViewChanged{View: v})
	if m := v.Member(n.id); m.Status.Votes() && !n.lease && n.lapsedIn == 0 {
		w.setLease(n, true)
	}
}

// endLife ends an incarnation.
func (n *node) endLife() {
	n.alive, n.lease = false, false
	clear(n.tenants)
	clear(n.transfers)
}

// hasEffect reports whether a shard has an effect on a node.
func (n *node) hasEffect(s protocol.ShardID) bool {
	t := n.tenants[s]
	return n.alive && n.lease && t != nil && t.running
}

func without(ids []gossip.Member, gone ...gossip.NodeID) []gossip.Member {
	return slices.DeleteFunc(slices.Clone(ids), func(m gossip.Member) bool { return slices.Contains(gone, m.ID) })
}
