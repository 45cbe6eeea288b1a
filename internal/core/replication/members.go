package replication

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// peer is another member of the view with the role, voting or joining: both are
// kept up to date, only voting ones count.
type peer struct {
	id view.NodeID
	// down: its connection was lost and has not come back.
	down bool

	// The stream to it. Invariant: acked < next <= log.last()+1; acked is the
	// highest entry up to which the peer holds everything it can get by stream.
	acked, next uint64
	resendAt    clock.Instant
	backoff     int

	// What its newest Status said.
	caughtUp view.Epoch
	keys     uint64
	// dots is the highest sequence number of its changes that it has shown (claims.go).
	dots uint64
	// differed counts its Statuses in a row that differed from our state.
	differed int
	// synced is the newest view in which we took over its whole state.
	synced view.Epoch

	// floor is the highest at which it was seen (prune.go).
	floor uint64
	// evenAt is when its ends were last the same as ours, by parts (ends.go).
	evenAt [endParts]clock.Instant

	// clocked: its newest clock was offset above the clock of the Instants (clocks.go).
	clocked bool
	offset  int64

	out outgoing
	in  incoming
}

// members is what the core knows of the view.
type members struct {
	view   *view.View
	epoch  view.Epoch
	voters []view.NodeID // with the role, self included if it votes
	former []kept        // see quorum.go
	// caughtUp is the newest view with which this replica has caught up.
	caughtUp view.Epoch
	// behind: it has not caught up since it last kept a set, also if that was dropped
	// because the view is settled without it.
	behind bool
	peers  []*peer // sorted by seniority
	byID   map[view.NodeID]*peer
}

func (c *Core) present(id view.NodeID) bool { return id == c.cfg.Self || c.byID[id] != nil }

func (c *Core) linked(id view.NodeID) bool {
	p := c.byID[id]
	return p != nil && !p.down
}

// quorums returns what a request at level needs now.
func (c *Core) quorums(level replicator.Level) []quorum {
	voters, former := c.voters, c.former
	switch c.blunder {
	case blunderNoJoint:
		former = nil
	case blunderLiving:
		voters = slices.DeleteFunc(slices.Clone(voters), func(id view.NodeID) bool { return id != c.cfg.Self && !c.linked(id) })
	}
	return jointQuorums(level, voters, former, c.present)
}

func (c *Core) onView(now clock.Instant, v *view.View) {
	if v == nil || c.view != nil && v.Epoch <= c.epoch {
		return
	}
	old, oldVoters := c.view, c.voters
	c.view, c.epoch = v, v.Epoch
	c.voters = nil
	for _, m := range v.WithRole(c.cfg.Role) {
		c.voters = append(c.voters, m.ID)
	}
	c.keepFormer(old, oldVoters)
	c.enlist(now, v)
	c.dropGoneLanes(now)
	c.cycle, c.tired = pruning{}, 0
	c.store.suspectAll()
	if len(c.peers) == 0 {
		c.former, c.behind = nil, false
	}
	c.standAlone()
	c.catchUp(now)
	c.recount(now)
	for _, r := range c.held.takeReads() {
		c.onReceived(now, r.From, r.Msg)
	}
	for _, p := range c.peers {
		c.sendStatus(p, true)
	}
	c.gossipAt = now.Add(c.roundWait())
}

// keepFormer adds the voters of the view before to the kept sets.
func (c *Core) keepFormer(old *view.View, voters []view.NodeID) {
	all := false
	switch {
	case old == nil:
		// A newcomer has not seen the views before its own, of which the others may
		// still keep sets: any one of them may alone hold what was confirmed there. So
		// it needs each voter that is present, or one replica that has caught up.
		others := slices.DeleteFunc(slices.Clone(c.voters), func(id view.NodeID) bool { return id == c.cfg.Self })
		if len(others) > 0 {
			c.former, c.behind = []kept{{members: others, all: c.blunder != blunderFewVoters}}, true
		}
		return
	case c.epoch != old.Epoch+1:
		// It is to the views between what a newcomer is to those before its own. Former
		// voters that are still there are voters.
		voters, all = slices.Clone(c.voters), c.blunder != blunderSkipMajority
	case slices.Equal(voters, c.voters):
		return
	}
	if len(voters) == 0 || len(voters) == 1 && voters[0] == c.cfg.Self {
		return
	}
	c.former = append(c.former, kept{members: voters, all: all})
	if len(c.former) > formerMax {
		c.former = append([]kept{merged(c.former[0], c.former[1], c.present)}, c.former[2:]...)
	}
	c.behind = true
}

// enlist makes the peers those of v, keeping what is known of old ones.
func (c *Core) enlist(now clock.Instant, v *view.View) {
	was := c.byID
	c.peers, c.byID = nil, map[view.NodeID]*peer{}
	for i := range v.Members {
		m := &v.Members[i]
		if m.ID == c.cfg.Self || !m.HasRole(c.cfg.Role) {
			continue
		}
		p := was[m.ID]
		if p == nil {
			// What was logged before it came, it takes over by anti-entropy.
			p = &peer{id: m.ID, acked: c.log.last(), next: c.log.last() + 1, resendAt: clock.Never}
		}
		c.peers = append(c.peers, p)
		c.byID[m.ID] = p
	}
}

// dropGoneLanes ends what the session had open at nodes that left the view. Their
// place in the vector stays until everybody has caught up.
func (c *Core) dropGoneLanes(now clock.Instant) {
	for _, l := range slices.Clone(c.session.lanes) {
		if c.byID[l.peer] == nil {
			c.laneLost(now, l.peer)
		}
	}
}

// catchUp re-evaluates whether this replica has caught up with the view and
// whether the view is settled.
func (c *Core) catchUp(now clock.Instant) {
	if c.view == nil {
		return
	}
	if c.caughtUp < c.epoch && c.hasCaughtUp() {
		c.caughtUp, c.behind = c.epoch, false
		for _, p := range c.peers {
			c.sendStatus(p, false)
		}
	}
	if len(c.former) == 0 || !c.settled() {
		return
	}
	c.former = nil
	c.trace(TraceEvent{Kind: TraceSettled})
	c.askAgain(now)
	c.recount(now)
}

func (c *Core) hasCaughtUp() bool {
	synced := func(id view.NodeID) bool {
		p := c.byID[id]
		return id == c.cfg.Self || p != nil && p.synced >= c.epoch
	}
	if (len(c.former) > 0 || !c.behind || c.blunder == blunderSettledIsCaughtUp) && allMet(jointQuorums(replicator.Majority(0, 0), nil, c.former, c.present)[1:], synced) {
		return true
	}
	for _, p := range c.peers {
		if p.synced >= c.epoch && p.caughtUp >= c.epoch {
			return true
		}
	}
	return false
}

func (c *Core) settled() bool {
	n := 0
	for _, id := range c.voters {
		if p := c.byID[id]; id == c.cfg.Self && c.caughtUp >= c.epoch || p != nil && p.caughtUp >= c.epoch {
			n++
		}
	}
	return n >= settledBy(len(c.voters))
}
