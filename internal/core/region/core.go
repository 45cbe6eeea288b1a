package region

import (
	"cmp"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Core is one entity type on one node. It is not safe for concurrent use.
type Core struct {
	cfg    Config
	floors *Floors
	now    clock.Instant
	out    *Effects

	view  *gossip.View
	lease bool
	// held are messages that came before our view or lease allowed them.
	held []Received

	office link
	// declined lists the candidates that have declined in the present view. candidate is
	// the one that protocol.Elect then returns: the core asks it until it answers. presumed
	// lists those that declined in the view before, as long as their declines keep the present
	// coordinator elected; see elect. Invariant: empty, unless the coordinator is another node
	// than candidate. pace is the first wait for an answer of another node. noHostReported is
	// set once all candidates of the view have declined as Missing and this was reported.
	// unfit is set while the last coordinator that compared this node's settings refuses them.
	declined, presumed []protocol.Decliner
	candidate          gossip.NodeID
	pace               time.Duration
	noHostReported     bool
	unfit              bool

	routes []route
	hosts  []host
	// wanted, marked and hosting count the routes that messages wait for, the markers
	// that are out, and the shards in any phase but none. Invariant: all exact.
	wanted, marked, hosting int

	// kept are the states that wait here, by shard; see held.go.
	kept map[protocol.ShardID]protocol.Held
	// sent has the receiver of each state that an allocation of this node left
	// and that is also kept here.
	sent map[protocol.ShardID]gossip.NodeID

	drain      drainState
	outbox     outbox
	nextResend clock.Instant
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
	return &Core{cfg: cfg, floors: floors, routes: make([]route, cfg.Shards), hosts: make([]host, cfg.Shards)}
}

// Step handles one event and appends what is to be done to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.now, c.out = now, out
	switch ev := ev.(type) {
	case Tick:
		c.tick()
	case ViewChanged:
		c.viewChanged(ev.View)
	case LeaseChanged:
		c.lease = ev.Valid
		c.replay()
	case Abandoned:
		c.abandoned()
	case Received:
		c.received(ev)
	case NeedHome:
		c.needHome(ev.Shards)
	case Misrouted:
		c.misrouted(ev)
	case ShardStarted:
		c.shardStarted(ev.Shards)
	case ShardStopped:
		c.shardStopped(ev.Shards)
	case StateHeld:
		c.stateHeld(protocol.Held{Shard: ev.Shard, Token: ev.Token, From: ev.From})
	case MarkerAcked:
		c.markerAcked(ev)
	case Drain:
		c.beginDrain()
	}
	c.finishDrain()
	c.flush()
	c.out = nil
}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant {
	d := clock.Never
	if c.office.node == 0 {
		return d
	}
	if c.asking() {
		d = clock.Min(d, c.office.retry)
	}
	if c.waiting() {
		d = clock.Min(d, c.nextResend)
	}
	return d
}

// waiting reports whether any message must be retransmitted until it is answered.
func (c *Core) waiting() bool {
	return c.wanted > 0 || c.marked > 0 || len(c.floors.unconfirmed) > 0 || c.drain.asking
}

// arm starts the resend timer when the first message begins to wait.
func (c *Core) arm() {
	if !c.waiting() {
		c.nextResend = c.now.Add(c.cfg.Resend)
	}
}

func (c *Core) tick() {
	if c.office.node == 0 {
		return
	}
	if c.asking() && !c.now.Before(c.office.retry) {
		c.askAgain()
	}
	if c.waiting() && !c.now.Before(c.nextResend) {
		c.nextResend = c.now.Add(c.cfg.Resend)
		c.ask()
		c.resendMarkers()
		c.reportStopped()
		c.askDrain()
	}
}

// inRange refuses shard numbers beyond the type's.
func (c *Core) inRange(from gossip.NodeID, s protocol.ShardID) bool {
	if int(s) < c.cfg.Shards {
		return true
	}
	c.trace(TraceUnknownShard, from, protocol.Token{}, s.String())
	return false
}

func (c *Core) trace(kind string, n gossip.NodeID, t protocol.Token, detail string) {
	c.out.Trace = append(c.out.Trace, TraceEvent{Kind: kind, Node: n, Token: t, Detail: detail})
}

func (c *Core) traceShard(kind string, id protocol.ShardID, n gossip.NodeID, t protocol.Token, detail string) {
	c.out.Trace = append(c.out.Trace, TraceEvent{Kind: kind, Shard: id, HasShard: true, Node: n, Token: t, Detail: detail})
}

func (c *Core) do(e Effect) { c.out.Do = append(c.out.Do, e) }
