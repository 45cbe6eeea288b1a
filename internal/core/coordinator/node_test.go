package coordinator_test

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

// node is the shell of both cores on one node, and what it hosts.
type node struct {
	w     *world
	id    gossip.NodeID
	name  string
	roles []string
	alive bool
	// version is the application's.
	version string
	// joined is the epoch of the view in which it joined.
	joined gossip.Epoch

	view  *gossip.View
	lease bool

	coord  *coordinator.Core
	reg    *region.Core
	floors *region.Floors
	rc     region.Config
	cTick  clock.Instant
	rTick  clock.Instant

	store   replica
	ops     map[uint64]*op
	tenants map[protocol.ShardID]*tenant
	lanes   map[gossip.NodeID]*lane
	routes  []*pipe
	// draining: asked to; drained: done.
	draining, drained bool
	yields            []gossip.NodeID
}

// tenant is a hosted shard.
type tenant struct {
	token             protocol.Token
	running, stopping bool
	// early messages came before the shard had started.
	early []message
}

func newNode(w *world, id gossip.NodeID, host bool) *node {
	n := &node{
		w: w, id: id, name: fmt.Sprintf("n%d", id), alive: true, floors: &region.Floors{},
		ops: map[uint64]*op{}, tenants: map[protocol.ShardID]*tenant{}, lanes: map[gossip.NodeID]*lane{},
	}
	if host {
		n.roles = []string{"backend"}
		cfg := w.plan.coordinator
		cfg.Self, cfg.Type, cfg.Role, cfg.Shards = id, typeName, "backend", w.plan.shards
		cfg.Strategy, cfg.MinMembers = w.plan.strategy, w.plan.minMembers
		n.coord = coordinator.New(cfg)
	}
	n.rc = region.Config{
		Self: id, Type: typeName, Role: "backend", Shards: w.plan.shards, Hosts: host, Capacity: uint32(id % 3),
		Resend: 20 * time.Millisecond, Retry: 10 * time.Millisecond, RetryMax: 80 * time.Millisecond,
	}
	n.reg = region.New(n.rc, n.floors)
	for range w.plan.shards {
		n.routes = append(n.routes, &pipe{})
	}
	return n
}

func (n *node) member(s gossip.Status) gossip.Member {
	return gossip.Member{Node: gossip.Node{ID: n.id, Name: n.name, Zone: n.w.plan.zones[n.name], Roles: n.roles, AppVersion: n.version}, Joined: n.joined, Status: s}
}

// learn brings a committed view, and with it a lease.
func (n *node) learn(v *gossip.View) {
	if !n.alive || n.view != nil && v.Epoch <= n.view.Epoch {
		return
	}
	n.w.logf("%d learns view %v", n.id, v.Epoch)
	n.view = v
	n.dropLanes(v)
	n.stepRegion(region.ViewChanged{View: v})
	if n.w.plan.declines > 0 {
		n.stepCoordinator(coordinator.Standing{Refused: n.w.chance(n.w.plan.declines)})
	}
	n.stepCoordinator(coordinator.ViewChanged{View: v})
	if m := v.Member(n.id); m != nil && m.Status.Votes() && !n.lease {
		n.setLease(true)
	}
}

func (n *node) setLease(valid bool) {
	if !n.alive {
		return
	}
	n.w.logf("%d lease %v", n.id, valid)
	n.lease = valid
	n.stepRegion(region.LeaseChanged{Valid: valid})
	n.stepCoordinator(coordinator.LeaseChanged{Valid: valid})
}

// leave ends the incarnation: all that runs is dropped.
func (n *node) leave(why string) {
	n.w.logf("%d is gone: %s", n.id, why)
	n.alive = false
	n.tenants = nil
}

// abandon is what the end of a lease in another generation does.
func (n *node) abandon() {
	n.w.logf("%d abandons", n.id)
	n.stepRegion(region.Abandoned{})
}

// restartRegion ends the region inside the living process and makes another.
func (n *node) restartRegion() {
	if !n.alive {
		return
	}
	n.w.logf("%d restarts its region", n.id)
	n.tenants = map[protocol.ShardID]*tenant{}
	for _, p := range n.routes {
		n.w.check.drop(p.buffer...)
		*p = pipe{sent: p.sent, left: p.sent}
	}
	n.reg, n.rTick = region.New(n.rc, n.floors), 0
	if n.view != nil {
		n.stepRegion(region.ViewChanged{View: n.view})
		n.stepRegion(region.LeaseChanged{Valid: n.lease})
	}
}

func (n *node) receive(from gossip.NodeID, m protocol.Message) {
	if protocol.ToCoordinator(m) {
		n.stepCoordinator(coordinator.Received{From: from, Msg: m})
	} else {
		n.stepRegion(region.Received{From: from, Msg: m})
	}
}

func (n *node) stepCoordinator(ev coordinator.Event) {
	if !n.alive || n.coord == nil {
		return
	}
	var out coordinator.Effects
	n.coord.Step(n.w.now, ev, &out)
	for _, t := range out.Trace {
		n.w.logf("%d coordinator: %s shard %v node %d token %v %s", n.id, t.Kind, t.Shard, t.Node, t.Token, t.Detail)
		n.w.check.trace(n, t.Kind)
	}
	for _, e := range out.Do {
		switch e := e.(type) {
		case coordinator.Send:
			n.w.check.order(n, e)
			n.w.send(n.id, e.To, e.Msg)
		case coordinator.Write:
			n.startWrite(e)
		case coordinator.Read:
			n.startRead(e)
		case coordinator.Yield:
			n.yields = append(n.yields, e.Subject)
			n.w.yield(n.id, e.Subject)
		}
	}
	if d := n.coord.Deadline(); d != n.cTick && d != clock.Never {
		n.cTick = d
		n.w.at(max(0, d.Sub(n.w.now)), func() {
			if n.alive && n.cTick == d {
				n.cTick = 0
				n.stepCoordinator(coordinator.Tick{})
			}
		})
	}
}

func (n *node) stepRegion(ev region.Event) {
	if !n.alive {
		return
	}
	var out region.Effects
	n.reg.Step(n.w.now, ev, &out)
	for _, t := range out.Trace {
		n.w.logf("%d region: %s shard %v node %d token %v %s", n.id, t.Kind, t.Shard, t.Node, t.Token, t.Detail)
		n.w.check.trace(n, t.Kind)
	}
	for _, e := range out.Do {
		n.isEffect(e)
	}
	reg := n.reg
	if d := reg.Deadline(); d != n.rTick && d != clock.Never {
		n.rTick = d
		n.w.at(max(0, d.Sub(n.w.now)), func() {
			if n.alive && n.rTick == d && n.reg == reg {
				n.rTick = 0
				n.stepRegion(region.Tick{})
			}
		})
	}
}

func (n *node) isEffect(e region.Effect) {
	switch e := e.(type) {
	case region.Send:
		n.w.send(n.id, e.To, e.Msg)
	case region.Standing:
		n.stepCoordinator(coordinator.Standing(e))
	case region.CloseRoute:
		n.closePipe(e)
	case region.SendMarker:
		n.transmit(e.Owner, frame{marker: true, shard: e.Shard, token: e.Token})
	case region.OpenRoute:
		n.openPipe(e)
	case region.StartShard:
		n.start(e)
	case region.StopShard:
		n.stop(e)
	case region.AbandonAll:
		n.tenants = map[protocol.ShardID]*tenant{}
	case region.Drained:
		n.drained = true
		n.w.logf("%d is drained", n.id)
	}
}

func (n *node) start(e region.StartShard) {
	n.w.check.start(n, e)
	t := &tenant{token: e.Token}
	n.tenants[e.Shard] = t
	n.w.at(n.w.jitter(n.w.plan.startDelay), func() {
		if n.alive && n.tenants[e.Shard] == t && !t.stopping {
			t.running = true
			t.work(n)
			n.stepRegion(region.ShardStarted{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
		}
	})
}

func (n *node) stop(e region.StopShard) {
	t := n.tenants[e.Shard]
	if t == nil || t.token != e.Token {
		n.w.check.fail("%d is told to stop shard %v under %v, which is not here", n.id, e.Shard, e.Token)
		return
	}
	if !n.lease {
		n.w.check.fail("%d is told to run the stop handler of shard %v without a lease", n.id, e.Shard)
	}
	t.stopping = true
	d := n.w.jitter(n.w.plan.stopDelay)
	if n.w.chance(n.w.plan.slowStop) {
		d = 2 * time.Second
	}
	n.w.at(d, func() {
		if n.alive && n.tenants[e.Shard] == t {
			delete(n.tenants, e.Shard)
			n.stepRegion(region.ShardStopped{Shards: []protocol.ShardToken{{Shard: e.Shard, Token: e.Token}}})
		}
	})
}

// startDrain relieves the node, by its own request or as a leaving member of the
// view, and ends it when that is done.
func (n *node) startDrain(leaving bool) {
	if !n.alive {
		return
	}
	if leaving && n.w.cur.Member(n.id) != nil && n.w.cur.Member(n.id).Status == gossip.Up {
		n.w.status(n.id, gossip.Leaving)
	}
	n.stepRegion(region.Drain{})
	n.awaitDrained(0)
}

func (n *node) awaitDrained(tries int) {
	n.w.at(10*time.Millisecond, func() {
		switch {
		case !n.alive:
		case n.drained || tries > 300:
			if !n.drained && n.w.check.marks["heal"] > 0 {
				n.w.check.fail("L1: %d is not drained", n.id)
			}
			n.w.logf("%d leaves", n.id)
			n.leave("left")
			n.w.bury(n.id)
		default:
			n.awaitDrained(tries + 1)
		}
	})
}

// drain asks for relief and stays in the view.
func (n *node) drain() {
	if n.alive {
		n.draining = true
		n.stepRegion(region.Drain{})
	}
}
