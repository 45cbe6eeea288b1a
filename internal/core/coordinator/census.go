package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// census is how a coordinator learns, on taking office, what really runs.
//
// Invariant: a member that has reported no longer accepts orders of a lower
// term. Once the last member has reported, no shard starts or
// stops except by order of this coordinator, and the reports are complete:
//
//	on taking office:  Read under our fence; CensusRequest to every voting member
//	                   of the role, again until it reports or leaves the view
//	read done:         records become "recorded", and are not served yet
//	report:            claims are noted, and served immediately if no record is above
//	Stopped:           noted too: it may have overtaken its node's report
//	all reported, read done:
//	    for every shard: claims that their own node has since stopped do not count;
//	    of the rest the highest token is the truth, and the losers are ordered to stop;
//	    a record without a claim is stale, and its shard is placed again
//
// The read is no part of the proof. It raises the fence, so that a predecessor's
// writes fail, and it shows which shards were alive and must be placed without
// a request.
//
// Rejected: to serve a record before its home has confirmed it. A predecessor that left
// in the middle of a move leaves records of homes that
// never started. Those homes refuse requests, and some requests could not be put back in
// order (G9). A home that does not report serves no requests either.
//
// Rejected: to trust the read alone, as Akka did. A write had reached five of seven nodes,
// which then stopped together, and its shard got two homes (#28856).
type census struct {
	// readID is that of the last Read; read is set when it was answered.
	readID uint64
	read   bool
	// retry is when to read again, zero if not.
	retry clock.Instant
	// pending members have not reported. Invariant: all stand in the view.
	pending []gossip.NodeID
	// stored are the records as the read found them.
	stored map[protocol.ShardID]protocol.Record
	claims []claim
	stops  []claim
	held   []heldAt
	// voters is how many members voted for the role in the view before the one in which
	// office was taken. unheard lists the voters that have not reported.
	voters  int
	unheard []gossip.NodeID
	done    bool
}

// claim is a node's report on a shard: the shard runs there, or has stopped there.
type claim struct {
	node  gossip.NodeID
	shard protocol.ShardID
	token protocol.Token
	state protocol.ClaimState
	// to is the node to which the state of a stopping shard is sent.
	to gossip.NodeID
}

func (c *Core) startCensus() {
	c.nextResend = c.now.Add(c.cfg.Resend)
	c.readState()
	c.widenCensus()
}

func (c *Core) readState() {
	c.seq++
	c.census.readID, c.census.retry = c.seq, 0
	c.out.Do = append(c.out.Do, Read{ID: c.seq, Term: c.term})
}

// widenCensus asks members that are new to the census, and drops
// those that have left the view.
func (c *Core) widenCensus() {
	if c.census.done || c.cfg.Mutant.Is("takeover without census") {
		return
	}
	gone := func(n gossip.NodeID) bool { return c.view.Member(n) == nil }
	c.census.pending = slices.DeleteFunc(c.census.pending, gone)
	for _, m := range c.view.WithRole(c.cfg.Role) {
		if p := c.peer(m.ID); !p.asked {
			p.asked = true
			c.census.pending = append(c.census.pending, m.ID)
			c.sendCensus(m.ID, false)
		}
	}
}

func (c *Core) sendCensus(to gossip.NodeID, probe bool) {
	m := &protocol.CensusRequest{Head: c.head(), Role: c.cfg.Role}
	m.Probe = probe
	c.send(to, m)
}

// readDone adopts the records, except where fresher information exists.
func (c *Core) readDone(ev ReadDone) {
	if c.term == 0 || ev.ID != c.census.readID || c.census.read {
		return
	}
	switch {
	case ev.Result == Fenced && !c.far(0, ev.Higher, "fence"):
		c.overtaken(ev.Higher)
		return
	case ev.Result != OK:
		c.census.retry = c.now.Add(c.cfg.RetryWrite)
		return
	}
	c.census.read = true
	c.census.stored = make(map[protocol.ShardID]protocol.Record, len(ev.Records))
	c.trace(TraceRead, 0, c.termToken(), "")
	for _, r := range ev.Records {
		if int(r.Shard) >= len(c.shards) {
			continue
		}
		if c.far(r.Home, r.Token.Term, "record") {
			continue // forged: the census finds what lives
		}
		if (drawn{c.term, c.seq}).forged(r.Token) {
			c.trace(TraceFar, r.Home, c.termToken(), "record with a token that was not given out")
			continue
		}
		if r.Token.Term > c.view.Epoch {
			// Written by a successor whose view has not arrived, or forged, and then it
			// stays in the records. It must not end this office: a successor's fence, census
			// and view do.
			c.traceShard(TraceStale, r.Shard, r.Home, r.Token, "record of a view that is not here")
			continue
		}
		if r.Token.Term > c.term {
			c.overtaken(r.Token.Term)
			return
		}
		c.census.stored[r.Shard] = r
		c.recall(r)
		c.record(r)
	}
	c.noteStored(ev.Regions, ev.Proxies)
}

func (c *Core) record(r protocol.Record) {
	s := &c.shards[r.Shard]
	c.settled = true
	s.known = true
	if s.token.Less(r.Token) {
		s.token = r.Token
		if c.view.Member(r.Home) != nil {
			s.home = r.Home
			c.set(s, recorded)
		}
	}
}

// serve allows answers with a claimed home, unless a higher token is on record.
func (c *Core) serve(cl claim) {
	c.record(protocol.Record{Shard: cl.shard, Home: cl.node, Token: cl.token})
	s := &c.shards[cl.shard]
	if cl.state == protocol.ClaimHosted && s.home == cl.node && s.token == cl.token && !c.stoppedSince(cl) {
		c.set(s, claimed)
		c.answerWaiters(cl.shard)
	}
}

// unserve handles a shard that stopped during the census.
func (c *Core) unserve(st claim) {
	c.census.stops = append(c.census.stops, st)
	if s := &c.shards[st.shard]; s.phase == claimed && s.home == st.node && !st.token.Less(s.token) {
		c.set(s, recorded)
	}
}

// censusReport notes one member's claims. Duplicate and late reports are
// ignored.
func (c *Core) censusReport(from gossip.NodeID, m *protocol.CensusReport) {
	if !c.register(from, m.Hosts, &m.Settings, false) {
		// Its shards count all the same: they run there, and must not run elsewhere.
		c.peer(from).foreign = len(m.Claims) > 0
	}
	if !slices.Contains(c.census.pending, from) || m.Term != c.term {
		return
	}
	c.census.pending = without(c.census.pending, from)
	c.census.unheard = without(c.census.unheard, from)
	for _, cl := range m.Claims {
		if int(cl.Shard) >= len(c.shards) {
			continue
		}
		if cl.Token.Term > c.term {
			c.overtaken(cl.Token.Term)
			return
		}
		noted := claim{from, cl.Shard, cl.Token, cl.State, cl.To}
		c.census.claims = append(c.census.claims, noted)
		c.serve(noted)
	}
	for _, h := range m.Held {
		if int(h.Shard) < len(c.shards) {
			c.census.held = append(c.census.held, heldAt{from, h})
		}
	}
}

// finishCensus ends the census once all members have reported and the read is done.
func (c *Core) finishCensus() {
	if c.census.done || !c.census.read || len(c.census.pending) > 0 {
		return
	}
	c.census.done, c.dirty = true, true
	// Homes published from here on supersede homes served on a single claim.
	c.next()
	c.trace(TraceCensus, 0, c.termToken(), "")
	for i := range c.shards {
		if p := c.shards[i].phase; (p == recorded || p == claimed) && !c.cfg.Mutant.Is("takeover without census") {
			c.unhome(&c.shards[i])
		}
	}
	c.adoptClaims()
	for i := range c.shards {
		if s := &c.shards[i]; s.phase == recorded || s.phase == claimed {
			// Only with the mutant.
			c.set(s, hosted)
		}
	}
	c.resumeMoves()
	c.publishServed()
	c.census.claims, c.census.stops, c.census.held, c.census.stored = nil, nil, nil, nil
}

// adoptClaims makes the reported claims the state: for each shard, the highest token wins.
func (c *Core) adoptClaims() {
	c.holdStopped()
	claims := slices.DeleteFunc(c.census.claims, func(cl claim) bool {
		return c.view.Member(cl.node) == nil || c.stoppedSince(cl)
	})
	slices.SortStableFunc(claims, func(a, b claim) int { return b.token.Compare(a.token) })
	for _, cl := range claims {
		s := &c.shards[cl.shard]
		if s.phase != free {
			c.strays = append(c.strays, stray{cl.node, cl.shard, cl.token})
			kind := TraceClaimStale
			if cl.state == protocol.ClaimHosted && s.phase == hosted && s.home != cl.node {
				// Promises and leases prevent this, unless a proof of death was wrong.
				kind = TraceDouble
			}
			c.traceShard(kind, cl.shard, cl.node, cl.token, "another home has a higher token")
			continue
		}
		c.adopt(s, cl)
		if r := c.census.stored[cl.shard]; r.Home != cl.node || r.Token != cl.token {
			c.writes.rewrite = append(c.writes.rewrite, protocol.Record{
				Shard: cl.shard, Home: cl.node, Token: cl.token, State: protocol.Allocated, Moves: s.moves, Since: s.since})
		}
	}
	// Redirect each state that was sent to a departed member. All states held elsewhere
	// are on record by now.
	var snap snapshot
	for i := range c.shards {
		c.turnLost(&snap, protocol.ShardID(i))
	}
}

func (c *Core) adopt(s *shard, cl claim) {
	s.home, s.token, s.known = cl.node, cl.token, true
	c.traceShard(TraceClaim, cl.shard, cl.node, cl.token, "")
	if cl.state == protocol.ClaimStopping {
		// A predecessor ordered the stop. Repeat the order, so that this term sees its end.
		s.move, s.target = c.next(), cl.to
		c.handOff(cl.shard)
		return
	}
	c.set(s, hosted)
}

// stoppedSince reports whether the claim's own node has promised since that the
// shard does not run there.
func (c *Core) stoppedSince(cl claim) bool {
	if c.cfg.Mutant.Is("Stopped forgotten in the census") {
		return false
	}
	return slices.ContainsFunc(c.census.stops, func(st claim) bool {
		return st.node == cl.node && st.shard == cl.shard && !st.token.Less(cl.token)
	})
}
