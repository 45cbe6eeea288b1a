package region

import (
	"cmp"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Core is one entity type on one node. It is not safe for concurrent use.
//
// Core admits events and messages. The work is done by machines with a state of their own:
//
//	link    which node coordinates the type, and whether it has registered this region
//	routes  the shards as destinations: homes, markers, requests for homes
//	hosts   the shards as tenants: starts, stops, promises
//	states  the states that wait here for the next home of their shard
//	drain   the orderly end of hosting
//	outbox  answers of the step
type Core struct {
	env
	// held are messages that came before our view or lease allowed them.
	held []Received

	link   link
	routes routeTable
	hosts  hostTable
	states stateTable
	drain  drainState
	outbox outbox
}

// New returns a Core that has seen no event yet. Floors are the node's for this
// type: they outlive the Core. All shards that an earlier Core hosted must have been
// stopped by the time another Core is made with its Floors.
func New(cfg Config, floors *Floors) *Core {
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&cfg.Resend, 200 * time.Millisecond}, {&cfg.Retry, 100 * time.Millisecond}, {&cfg.RetryMax, time.Second},
	} {
		*d.at = cmp.Or(*d.at, d.def)
	}
	cfg.Shards = min(max(cfg.Shards, 1), protocol.ShardsMax)
	floors.inherit()
	c := &Core{env: env{cfg: cfg, floors: floors}}
	c.machines = c
	c.link.env, c.states.env = &c.env, &c.env
	c.link.election.Role = cfg.Role
	c.drain.env, c.drain.link = &c.env, &c.link
	c.outbox.env, c.outbox.link = &c.env, &c.link
	c.routes = routeTable{env: &c.env, link: &c.link, states: &c.states, outbox: &c.outbox, list: newShardTable[route](cfg.Shards)}
	c.hosts = hostTable{env: &c.env, link: &c.link, routes: &c.routes, states: &c.states, drain: &c.drain, outbox: &c.outbox, list: newHostList(cfg.Shards)}
	return c
}

// Step handles one event and appends what is to be done to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.now, c.out = now, out
	switch ev := ev.(type) {
	case Tick:
		c.stepTick()
	case ViewChanged:
		c.viewChanged(ev.View)
	case LeaseChanged:
		c.lease = ev.Valid
		c.replay()
	case Abandoned:
		c.hosts.abandoned()
	case Received:
		c.onReceived(ev)
	case NeedHome:
		c.routes.needHome(ev.Shards)
	case Misrouted:
		c.routes.misrouted(ev)
	case ShardStarted:
		c.hosts.shardStarted(ev.Shards)
	case ShardStopped:
		c.hosts.shardStopped(ev.Shards)
	case StateHeld:
		c.states.stateHeld(protocol.Held{Shard: ev.Shard, Token: ev.Token, From: ev.From, To: ev.At, Term: ev.Term, Away: ev.At != 0})
	case MarkerAcked:
		c.routes.markerAcked(ev)
	case Drain:
		c.drain.beginDrain()
	}
	c.finishDrain()
	c.outbox.flushAnswers()
	c.out = nil
}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant {
	d := clock.Never
	if c.link.node == 0 {
		return d
	}
	if c.link.needsAnswer() {
		d = clock.Min(d, c.link.retry)
	}
	if c.awaitsAnswers() {
		d = clock.Min(d, c.nextResend)
	}
	return d
}

func (c *Core) isWaiting() bool {
	return c.routes.wanted > 0 || c.routes.marked > 0 || len(c.floors.unconfirmed) > 0 || c.drain.asking
}

func (c *Core) stepTick() {
	if c.link.node == 0 {
		return
	}
	if c.link.needsAnswer() && !c.now.Before(c.link.retry) {
		c.link.askAgain()
	}
	if c.awaitsAnswers() && !c.now.Before(c.nextResend) {
		c.nextResend = c.now.Add(c.cfg.Resend)
		c.routes.repeatOverdue()
		c.routes.resendMarkers()
		c.hosts.reportStopped()
		c.drain.askDrain()
	}
}
