package residency

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Core decides for one type, for the life of the type: what a replicated set remembers and
// the newest plan outlive incarnations. It is not safe for concurrent use.
type Core struct {
	*env
	set    set
	starts starts
	plan   planFollower

	// roundAt is when the next round comes.
	roundAt clock.Instant
	// members are those of the last inspection.
	members []gossip.NodeID
	// homeless are the shards that need a home, unchecked those whose entity may have to start.
	homeless, unchecked []strategy.ShardID
}

// New returns a Core without an incarnation.
func New(cfg Config) *Core {
	v := &env{cfg: cfg, shards: make([]shard, cfg.Shards)}
	for i := range v.shards {
		v.shards[i] = shard{ids: map[string]mark{}, rereadAt: clock.Never}
	}
	return &Core{
		env: v, set: set{env: v},
		starts: starts{env: v, turn: clock.Never, crashed: map[entity]struct{}{}, starting: map[entity]clock.Instant{}},
		plan:   planFollower{env: v, again: clock.Never},
	}
}

// Attach begins an incarnation of this node.
func (c *Core) Attach(n *Node, now clock.Instant) {
	c.node, c.roundAt, c.members, c.starts.turn = n, now, nil, clock.Never
}

// Detach ends the incarnation. No action may be in flight.
func (c *Core) Detach() {
	c.node = nil
	for i := range c.shards {
		c.beginAllocation(strategy.ShardID(i), noToken)
	}
	c.plan.endSession()
}

// Inspect makes Next inspect the shards: one has started here.
func (c *Core) Inspect() { c.inspect = true }

// Next returns the next action; false if none is due before Deadline.
func (c *Core) Next(now clock.Instant) (a Action, ok bool) {
	if c.node == nil {
		return Action{}, false
	}
	c.beginRound(now)
	if a, ok = c.plan.nextStep(now); ok {
		return a, true
	}
	if len(c.homeless) > 0 {
		a, c.homeless = Action{Kind: WantHomes, Shards: c.homeless}, nil
		return a, true
	}
	if a, ok = c.nextCheck(); ok {
		return a, true
	}
	if a, ok = c.set.nextRead(now); ok {
		return a, true
	}
	if a, ok = c.set.nextWrite(); ok {
		return a, true
	}
	return c.starts.nextRecall(now)
}

// Deadline returns when Next must be called again, unless an event comes before. It is valid
// after Next has returned false.
func (c *Core) Deadline() clock.Instant {
	return clock.Min(clock.Min(c.roundAt, c.starts.turn), c.plan.again)
}

// Done reports the outcome of an action.
func (c *Core) Done(a *Action, o *Outcome, now clock.Instant) {
	switch a.Kind {
	case Recall:
		c.starts.endRecall(a, o.OK, now)
	case RecallElsewhere:
		c.starts.endMove(a.Shard)
		c.set.noteMoved(a.Shard, a.ID, o.OK, now)
	case Read:
		ok := o.OK && c.node.LeaseValid() // without a lease, another home may have newer ids
		c.starts.addRead(a.Shard, c.set.endRead(a, ok, o.IDs, now))
	case Write:
		c.set.endWrite(a, o.OK)
	case StopAll, ReadPlan, WritePlan, AckPlan:
		c.plan.endStep(a, o, now)
	}
}

// beginRound begins a round if one is due, and inspects the shards if they must be.
func (c *Core) beginRound(now clock.Instant) {
	round := !now.Before(c.roundAt)
	if !round && !c.inspect {
		return
	}
	if round {
		c.roundAt = now.Add(Every)
		c.starts.retryCrashed()
		c.starts.dropLate(now)
	}
	c.inspect, c.plan.follow = false, true
	joined := c.noteMembers()
	c.homeless, c.unchecked, c.set.toRead = nil, c.unchecked[:0], c.set.toRead[:0]
	for i := range strategy.ShardID(len(c.shards)) {
		c.inspectShard(i, round, joined)
	}
}

// inspectShard notes whether a shard is here, and lists it if its entities may have to start.
func (c *Core) inspectShard(i strategy.ShardID, round, joined bool) {
	s := &c.shards[i]
	if token := c.node.Token(i); token != s.token {
		c.beginAllocation(i, token)
	}
	s.stale = s.stale || joined
	if round {
		s.tried = attempts{}
		c.set.listWrite(i)
	}
	id, remembers := c.alwaysOn(i), c.cfg.ShardOf != nil
	switch {
	case s.token == noToken && (id != "" || remembers):
		c.homeless = append(c.homeless, i)
	case id != "":
		c.unchecked = append(c.unchecked, i)
	case remembers:
		c.set.toRead = append(c.set.toRead, i)
	}
}

// beginAllocation begins an allocation of a shard, or ends the last one here.
func (c *Core) beginAllocation(i strategy.ShardID, token protocol.Token) {
	if token == noToken {
		c.set.leaveShard(i)
	}
	c.starts.dropStarting(i)
	c.shards[i].begin(token)
}

// nextCheck returns the start of an entity that must run as long as its shard does. It is tried
// once a round, and again under another token or plan.
func (c *Core) nextCheck() (a Action, ok bool) {
	for len(c.unchecked) > 0 {
		i := c.unchecked[0]
		c.unchecked = c.unchecked[1:]
		s := &c.shards[i]
		if id := c.alwaysOn(i); id != "" && !s.tried.start && c.isHere(i) {
			s.tried.start = true
			return Action{Kind: Start, Shard: i, ID: id}, true
		}
	}
	return Action{}, false
}

// alwaysOn returns the entity that must run as long as the shard does, "" if there is none.
func (c *Core) alwaysOn(i strategy.ShardID) string {
	switch {
	case c.cfg.Daemon != nil:
		return c.plan.workerOf(i)
	case c.cfg.AlwaysOn != nil:
		return c.cfg.AlwaysOn(i)
	}
	return ""
}

// noteMembers reports whether a node has joined since the last inspection.
func (c *Core) noteMembers() (joined bool) {
	if c.cfg.ShardOf == nil {
		return false
	}
	before := c.members
	c.members = c.node.Members().Nodes
	return slices.ContainsFunc(c.members, func(n gossip.NodeID) bool { return !slices.Contains(before, n) })
}

// NoteLife notes that an instance began, or passivated itself.
func (c *Core) NoteLife(i strategy.ShardID, id string, lives bool) {
	c.starts.noteEnd(i, id)
	c.set.noteLife(i, id, lives)
}

// NoteCrash notes an entity that a panic left without an instance.
func (c *Core) NoteCrash(i strategy.ShardID, id string) {
	c.starts.noteEnd(i, id)
	if c.shards[i].ids[id]&wanted != 0 {
		c.starts.crashed[entity{i, id}] = struct{}{}
	}
}

// Waiting returns the number of updates that wait for the store.
func (c *Core) Waiting() int { return c.set.waiting + c.set.delayed }

// Dropped returns how many updates were given up, since too many waited for the store: those of
// entities that have passivated themselves, or whose shard has left.
func (c *Core) Dropped() uint64 { return c.set.dropped }

// NotePlan adopts the state of the daemon in this node's replica.
func (c *Core) NotePlan(s *daemon.State) {
	c.plan.wish, c.inspect = s.Wish, true
	c.plan.adoptPlan(s.Plan)
}

// Plan returns the newest plan, zero before the first. mayStart is set once this incarnation
// has read the plan from a majority, after a majority had stored that this node is present: no
// worker starts before.
func (c *Core) Plan() (p daemon.Plan, mayStart bool) { return c.plan.plan, c.plan.read }
