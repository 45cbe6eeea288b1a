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
type Core struct {
	cfg Config
	now clock.Instant
	out *Effects

	view   *gossip.View
	lease  bool
	silent []gossip.NodeID
	wanted map[protocol.ShardID]string
	// held are messages from nodes whose view is newer than ours.
	held []Received
	// refused comes from the newest Standing. declined lists the candidates that
	// have declined in the present view; if this node is one of them, it declined before
	// it took any office in the view. presumed lists those that declined in the views
	// before, since office was taken.
	refused            bool
	declined, presumed []protocol.Decliner

	// seq is the last number drawn, in whatever term.
	seq uint64
	// lastTerm is the last term in which this node held office. fenced is the highest
	// term that another node has been seen to hold.
	lastTerm, fenced gossip.Epoch

	office
}

// office is all that is dropped when office is left.
type office struct {
	// term is zero while not in office. Invariant: it is of the view's generation.
	term   gossip.Epoch
	census census
	shards []shard
	// open counts the shards in a phase that waits. Invariant: it is exact.
	open  int
	peers map[gossip.NodeID]*peer
	// strays are claims that lost against a higher token: they are to stop.
	strays []stray
	// settled: the minimum number of members was reached once.
	settled bool
	// dirty: a free shard may have become placeable.
	dirty bool
	// owing: some member may owe an answer (peer.owed).
	owing bool
	// renewed: no shard has a token below the view's TokensFrom.
	renewed bool
	writes  writes
	outbox  outbox

	nextResend, nextRebalance clock.Instant
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
	return &Core{cfg: cfg}
}

// Step handles one event and appends the resulting effects to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {
	c.now, c.out = now, out
	switch ev := ev.(type) {
	case Tick:
		c.tick()
	case ViewChanged:
		c.viewChanged(ev.View)
	case LeaseChanged:
		c.lease, c.dirty = ev.Valid, true
	case Standing:
		c.standing(ev)
	case Received:
		c.received(ev)
	case WriteDone:
		c.writeDone(ev)
	case ReadDone:
		c.readDone(ev)
	case Silent:
		c.silent, c.dirty = ev.Nodes, true
	case Rebalance:
		c.rebalance()
	case Wanted:
		c.wanted = ev.Names
		c.rebalance()
	}
	c.settle()
	c.out = nil
}

// settle does what follows from the event: shards that can be placed are placed,
// leaving members are relieved, and what gathered goes out.
func (c *Core) settle() {
	if c.term == 0 {
		return
	}
	c.finishCensus()
	if c.owing && !c.waiting() {
		// The last order was obeyed or taken back, and only its acknowledgement was lost.
		c.unanswered(nil)
	}
	c.place()
	c.relieve()
	c.renew()
	c.tellDrained()
	c.flushWrites()
	c.flush()
}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant {
	if c.term == 0 {
		return clock.Never
	}
	d := c.nextRebalance
	if c.waiting() {
		d = clock.Min(d, c.nextResend)
	}
	if c.writes.retry != 0 {
		d = clock.Min(d, c.writes.retry)
	}
	if c.census.retry != 0 {
		d = clock.Min(d, c.census.retry)
	}
	return d
}

// next draws the next token or stamp of this term.
func (c *Core) next() protocol.Token {
	c.seq++
	return protocol.Token{Term: c.term, Seq: c.seq}
}

// set moves s to a phase and keeps count.
func (c *Core) set(s *shard, p phase) {
	if s.phase.waits() {
		c.open--
	}
	s.phase = p
	if p.waits() {
		if c.open == 0 && !c.waiting() {
			c.nextResend = c.now.Add(c.cfg.Resend)
		}
		c.open++
	}
	if !p.moves() {
		s.move, s.target, s.closers, s.asked, s.turned, s.deadline = protocol.Token{}, 0, nil, 0, 0, 0
	}
}

func (c *Core) trace(kind string, n gossip.NodeID, t protocol.Token, detail string) {
	c.out.Trace = append(c.out.Trace, TraceEvent{Kind: kind, Node: n, Token: t, Detail: detail})
}

func (c *Core) traceShard(kind string, id protocol.ShardID, n gossip.NodeID, t protocol.Token, detail string) {
	c.out.Trace = append(c.out.Trace, TraceEvent{Kind: kind, Shard: id, HasShard: true, Node: n, Token: t, Detail: detail})
}

// termToken is how a term stands in a trace.
func (c *Core) termToken() protocol.Token { return protocol.Token{Term: c.term} }
