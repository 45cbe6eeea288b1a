package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// cores drives the region core of a type and, if the process carries the type's role, the
// coordinator core, as the shells in internal/placement do.
type cores struct {
	m *base
	// records is the coordinator's store, nil if the process does not carry the role.
	records *records
	// perform carries out an effect of the region core on the rest of the type; onRegister
	// is called when a process runs the type from now on.
	perform    func(region.Effect)
	onRegister func()
	// foreign: the process does not run the type. declinedIn is the view in which it has
	// promised not to coordinate it, before it ran it.
	foreign    bool
	declinedIn gossip.Epoch

	floors *region.Floors
	// regionView is the epoch of the view that the region holds.
	regionView gossip.Epoch
	region     *region.Core
	regFx      region.Effects
	regTimer   *virtual.Timer
	// coord is nil where the process does not carry the role, or run the type.
	coord    *coordinator.Core
	cooFx    coordinator.Effects
	cooTimer *virtual.Timer
	// local are the messages between the cores of this process.
	local []protocol.Message
	inbox inbox
	// steps counts those of the cores.
	steps int
}

// stopTimeout is the time that an owner has to stop a shard.
const stopTimeout = 2 * time.Second

// startCores makes the cores, starts the timers, and gives the cores the lease.
func (c *cores) startCores() {
	c.foreign, c.floors = c.m.spec.Absent>>c.m.p.Slot&1 == 1, &region.Floors{}
	c.create()
	c.regTimer = c.m.p.NewTimer(c.onTimer)
	c.cooTimer = c.m.p.NewTimer(c.onTimer)
	c.put(func() { c.setLease(c.m.site.member.LeaseReported()) })
	c.armTimers()
	c.registerLate()
}

// create makes the cores of the type, as the process runs it now.
func (c *cores) create() {
	m := c.m
	s := &m.run.Config
	role, hosts := s.Roles[m.spec.Role], !c.foreign && s.Hosts(m.p.Slot, m.spec)
	c.regionView = 0
	c.region = region.New(region.Config{
		Self: m.p.Node.ID, Type: m.spec.Name, Role: role, Shards: m.spec.Shards, Hosts: hosts, Foreign: c.foreign,
	}, c.floors)
	if c.records == nil || c.foreign {
		return
	}
	declinedIn := c.declinedIn
	c.coord = coordinator.New(coordinator.Config{
		Self: m.p.Node.ID, Type: m.spec.Name, Role: role, Shards: m.spec.Shards, MinMembers: s.MinMembers, RemoveAfter: s.RemoveAfter,
		StopTimeout: stopTimeout, BeginTimeout: s.BeginTimeout, Rebalance: s.Rebalance,
		Strategy: strategyOf(m.spec), Reluctant: !hosts, DeclinedIn: declinedIn, Collects: m.spec.Replicas > 0,
	})
}

// put hands an event to the shell's goroutine.
func (c *cores) put(do func()) {
	c.inbox.putWork(func() {
		do()
		c.settle()
		c.armTimers()
	})
}

func (c *cores) armTimers() {
	c.regTimer.Set(c.region.Deadline())
	if c.coord != nil {
		c.cooTimer.Set(c.coord.Deadline())
	}
}

func (c *cores) onTimer() {
	if !c.m.site.on {
		return
	}
	now := c.m.p.Now()
	if now >= c.region.Deadline() {
		c.stepRegion(region.Tick{})
	}
	if c.coord != nil && now >= c.coord.Deadline() {
		c.stepCoordinator(coordinator.Tick{})
	}
	c.settle()
	c.armTimers()
}

// settle delivers the messages between the cores of this process.
func (c *cores) settle() {
	for len(c.local) > 0 {
		m := c.local[0]
		c.local = c.local[1:]
		c.receiveOrder(c.m.p.Node.ID, m)
	}
}

func (c *cores) receiveOrder(from gossip.NodeID, m protocol.Message) {
	if d := c.decline(from, m); d != nil {
		c.send(from, d)
		return
	}
	if protocol.ToCoordinator(m) {
		c.stepCoordinator(coordinator.Received{From: from, Msg: m})
		return
	}
	c.stepRegion(region.Received{From: from, Msg: m})
}

func (c *cores) stepRegion(ev region.Event) {
	m := c.m
	floor := c.floors.Term()
	if v, is := ev.(region.ViewChanged); is && v.View != nil {
		c.regionView = v.View.Epoch
	}
	c.region.Step(m.p.Now(), ev, &c.regFx)
	c.checkTerm(ev, floor)
	c.checkCore(c.region.Check)
	for _, t := range c.regFx.Trace {
		c.trace(t.Kind, t.Shard, t.HasShard, t.Node, t.Token, t.Detail)
	}
	for _, e := range c.regFx.Do {
		switch e := e.(type) {
		case region.Send:
			c.send(e.To, e.Msg)
		case region.Standing:
			c.stepCoordinator(coordinator.Standing(e))
		default:
			c.perform(e)
		}
	}
	c.regFx.Reset()
}

// checkedShards is the number of shards up to which the cores are checked after each step. A
// check reads all shards, so with more of them it follows only some of the steps.
const checkedShards = 64

// checkCore has a core check its state.
func (c *cores) checkCore(check func() error) {
	if c.steps++; c.steps%(1+c.m.spec.Shards/checkedShards) != 0 {
		return
	}
	if err := check(); err != nil {
		c.m.run.Fail("core", "%s: %v", c.m.p.Label, err)
	}
}

func (c *cores) stepCoordinator(ev coordinator.Event) {
	if c.coord == nil {
		return
	}
	m := c.m
	c.coord.Step(m.p.Now(), ev, &c.cooFx)
	c.checkCore(c.coord.Check)
	for _, t := range c.cooFx.Trace {
		c.trace(t.Kind, t.Shard, t.HasShard, t.Node, t.Token, t.Detail)
	}
	for _, e := range c.cooFx.Do {
		c.performCoordinator(e)
	}
	c.cooFx.Reset()
}

func (c *cores) performCoordinator(e coordinator.Effect) {
	m := c.m
	soon := func(do func()) { m.p.Later(m.run.Rand.Net.Duration(0, time.Millisecond/4), do) }
	switch e := e.(type) {
	case coordinator.Send:
		m.checks.checkOrder(m.p.Label, e.Msg)
		c.send(e.To, e.Msg)
	case coordinator.Write:
		soon(func() { c.records.writeRecords(e) })
	case coordinator.Read:
		soon(func() { c.records.readRecords(e) })
	case coordinator.Yield:
		m.p.Later(0, func() { m.site.member.Step(view.Yield{Subject: e.Subject, Reporter: m.p.Node.ID}) })
	}
}

// checkTerm checks that orders below the term floor start and stop nothing (G2).
func (c *cores) checkTerm(ev region.Event, floor gossip.Epoch) {
	r, ok := ev.(region.Received)
	if !ok || r.Msg.Header().Term >= floor {
		return
	}
	for _, e := range c.regFx.Do {
		switch e.(type) {
		case region.StartShard, region.StopShard:
			c.m.run.Fail("S7", "%s obeys an order of term %v, its floor is %v", c.m.p.Label, r.Msg.Header().Term, floor)
		}
	}
}

func (c *cores) send(to gossip.NodeID, m protocol.Message) {
	p, names := c.m.p, &c.m.run.Names
	p.Event("order", uint64(to), func() string { return names.Name(to) + " " + names.Order(m) })
	if to == p.ID() {
		c.local = append(c.local, m)
		return
	}
	p.Net.SendUnordered(to, transport.Control, network.Frame{Kind: transport.KindCoordinator, Msg: m})
}

// trace records a trace event of a core.
func (c *cores) trace(kind string, shard protocol.ShardID, has bool, node gossip.NodeID, token protocol.Token, detail string) {
	m, names := c.m, &c.m.run.Names
	if mark, rare := rareEvents[kind]; rare {
		m.run.Hit(mark)
	}
	if kind == coordinator.TraceOffice {
		m.checks.checkTermHolder(m, token.Term)
	}
	if kind == coordinator.TraceYield {
		m.site.inv.noteReport(m.p.Node.ID, node)
	}
	m.site.inv.world.CoreTraced(m.p, kind, node)
	m.p.Event(kind, uint64(shard)<<32^uint64(node)^token.Seq, func() string {
		s := ""
		if has {
			s = "shard " + shard.String() + " "
		}
		if node != 0 {
			s += names.Name(node) + " "
		}
		return s + names.Token(token) + " " + detail
	})
}

func (c *cores) setLease(valid bool) {
	c.stepRegion(region.LeaseChanged{Valid: valid})
	c.stepCoordinator(coordinator.LeaseChanged{Valid: valid})
}

// setView gives the cores a newer view. Before it, the coordinator core receives
// a drawn answer to whether the last coordinator has refused this process.
func (c *cores) setView(v *gossip.View) {
	r := c.m.run
	refused := r.Rand.Decline.Chance(r.Config.Refusals)
	c.put(func() {
		c.stepRegion(region.ViewChanged{View: v})
		if r.Config.Refusals > 0 {
			c.stepCoordinator(coordinator.Standing{Refused: refused})
		}
		c.stepCoordinator(coordinator.ViewChanged{View: v})
	})
}

// wish has the application name homes for some shards, or an operator ask for a look at the
// balance, in runs with requests: the coordinator, if this process has it, moves shards.
func (c *cores) wish() {
	m, r := c.m, c.m.run
	if !r.Config.Requests || r.Calm || c.coord == nil || !r.Rand.Request.Chance(4) {
		return
	}
	c.put(func() {
		if r.Rand.Request.Coin() {
			c.stepCoordinator(coordinator.Rebalance{})
			return
		}
		names := map[protocol.ShardID]string{}
		for range r.Rand.Request.Between(0, 3) {
			shard, slot := r.Rand.Request.IntN(m.spec.Shards), r.Rand.Request.IntN(r.Config.Nodes)
			names[protocol.ShardID(shard)] = trace.Label(slot, 0)
		}
		r.Hit(coverage.Wished)
		c.stepCoordinator(coordinator.Wanted{Names: names})
	})
}

// putRegion gives the region core an event, as another goroutine does.
func (c *cores) putRegion(ev region.Event) { c.put(func() { c.stepRegion(ev) }) }

// rareEvents are the rare states among the trace events of the cores.
var rareEvents = map[string]coverage.Mark{
	coordinator.TraceMove:         coverage.Move,
	coordinator.TraceCancel:       coverage.MoveCancelled,
	coordinator.TraceClaim:        coverage.Claim,
	coordinator.TraceStillServed:  coverage.StillServed,
	coordinator.TraceWriteUnknown: coverage.WriteUnknown,
	coordinator.TraceYield:        coverage.Yield,
	region.TraceStaleTerm:         coverage.StaleTerm,
	region.TraceStaleToken:        coverage.StaleToken,
	region.TraceHeld:              coverage.Held,
	region.TraceDeclined:          coverage.Declined,
}
