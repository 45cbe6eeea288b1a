package coordinator

import (
	"cmp"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Core is the coordinator of one entity type on one node. It is not safe for
// concurrent use. Make it once per type and incarnation of the node: its tokens
// are unique because it never forgets what it gave out.
//
// Core admits events, and decides when a term begins and ends. The work of a term is done by
// machines with a state of their own:
//
//	election  whether this node coordinates, by views and declines
//	census    what runs where, asked on taking office
//	members   the members of the view: registered, silent, leaving
//	table     the shards: allocation, moves, resends
//	writes    records on their way to the replicator
//	outbox    messages of the step, by node and shard
type Core struct {
	env
	election election
	// held are messages from nodes whose view is newer than ours.
	held []Received
	// lastTerm is the last term in which this node held office. fenced is the highest
	// term that another node has been seen to hold.
	lastTerm, fenced gossip.Epoch

	machines
}

// machines is the state that is dropped when a term ends.
type machines struct {
	census  census
	members members
	table   table
	writes  writes
	outbox  outbox

	nextRebalance clock.Instant
}

// New returns a Core that has seen nothing yet.
func New(cfg Config) *Core {
	cfg.MinMembers = cmp.Or(cfg.MinMembers, 1)
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&cfg.Resend, 200 * time.Millisecond}, {&cfg.BeginTimeout, 5 * time.Second},
		{&cfg.StopTimeout, 10 * time.Second}, {&cfg.Rebalance, 2 * time.Second},
		{&cfg.RemoveAfter, 2 * time.Second}, {&cfg.RetryWrite, 50 * time.Millisecond},
		{&cfg.Calm, 10 * time.Minute},
	} {
		*d.at = cmp.Or(*d.at, d.def)
	}
	if cfg.Strategy == nil {
		cfg.Strategy = strategy.LeastShards{}
	}
	cfg.Shards = min(max(cfg.Shards, 1), protocol.ShardsMax)
	c := &Core{env: env{cfg: cfg}}
	c.election.cfg, c.election.Role = &c.cfg, cfg.Role
	c.reset()
	return c
}

// reset drops the state of a term.
func (c *Core) reset() {
	c.machines = machines{}
	c.members.env, c.writes.env = &c.env, &c.env
	c.table.chooser.env, c.table.chooser.members = &c.env, &c.members
	c.table.strays.env = &c.env
	c.table.env, c.table.members, c.table.writes, c.table.outbox = &c.env, &c.members, &c.writes, &c.outbox
	c.outbox.env, c.outbox.members, c.outbox.table = &c.env, &c.members, &c.table
	c.census.env, c.census.members, c.census.table, c.census.writes = &c.env, &c.members, &c.table, &c.writes
}

// Step handles one event and appends the resulting effects to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.now, c.out = now, out
	switch ev := ev.(type) {
	case Tick:
		c.stepTick()
	case ViewChanged:
		c.viewChanged(ev.View)
	case LeaseChanged:
		c.lease, c.dirty = ev.Valid, true
	case Standing:
		c.onStanding(ev)
	case Received:
		c.onReceived(ev)
	case WriteDone:
		c.writeDone(ev)
	case ReadDone:
		c.readDone(ev)
	case Silent:
		c.silent, c.dirty = ev.Nodes, true
	case Rebalance:
		c.table.rebalance()
	case Wanted:
		c.wanted = ev.Names
		c.table.rebalance()
	}
	c.concludeStep()
	c.out = nil
}

// concludeStep does what follows from the event: shards that can be placed are placed,
// leaving members are relieved, and what gathered goes out.
func (c *Core) concludeStep() {
	if c.term == 0 {
		return
	}
	c.census.finishCensus()
	if c.members.owing && !c.waiting() {
		// The last order was obeyed or taken back, and only its acknowledgement was lost.
		c.members.unanswered(nil)
	}
	c.table.placeFree()
	c.table.relieve()
	c.table.renew()
	c.table.tellDrained()
	c.writes.sendRecords()
	c.outbox.sendAll()
}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant {
	if c.term == 0 {
		return clock.Never
	}
	d := c.nextRebalance
	if c.waiting() {
		d = clock.Min(d, c.table.nextResend)
	}
	if c.writes.retry != 0 {
		d = clock.Min(d, c.writes.retry)
	}
	if c.census.retry != 0 {
		d = clock.Min(d, c.census.retry)
	}
	if c.table.retryStart != 0 {
		d = clock.Min(d, c.table.retryStart)
	}
	return d
}
