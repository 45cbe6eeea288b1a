package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// census is how a coordinator learns, on taking office, what really runs.
//
// Invariants it rests on. A member that has reported accepts no order of a lower
// term any more; so from the moment the last one has reported, nothing starts or
// stops a shard but this coordinator, and what it has heard is complete:
//
//	on taking office:  Read under our fence; CensusRequest to every voting member
//	                   of the role, again until it reports or leaves the view
//	read done:         records become "recorded": known, and served to nobody
//	report:            claims are noted, and served at once if no record is above
//	Stopped:           noted too: it may have overtaken its node's report
//	all reported, read done:
//	    for every shard: claims that their own node has since stopped do not count;
//	    the highest token left is the truth, the others are told to stop;
//	    a record that nobody claims is wrong, and its shard is placed again
//
// The read is no part of the proof; it raises the fence, so that a predecessor's
// writes fail, and it tells which shards were alive and must be placed without
// being asked for. To serve a record before its home has confirmed it was tried:
// a predecessor that left in the middle of a move leaves records of homes that
// never started, which refuse what comes, and some of it could not be put back in
// order (G9). A home that does not report serves nobody either. To trust the read alone
// was tried by Akka: a write that reached five of seven nodes, which then stopped
// together, left its shard with two homes (#28856).
type census struct {
	// readID is that of the last Read; read is set when it was answered.
	readID uint64
	read   bool
	// retry is when to read again, zero if not.
	retry clock.Instant
	// pending members have not reported. Invariant: all stand in the view.
	pending []view.NodeID
	// stored are the records as the read found them.
	stored map[protocol.ShardID]protocol.Record
	claims []claim
	stops  []claim
	held   []heldAt
	// voters is how many members voted for the role in the view before the one in which
	// office was taken; unheard are those of them that have not reported.
	voters  int
	unheard []view.NodeID
	done    bool
}

// claim is what a node said of a shard: that it has it, or that it has it no more.
type claim struct {
	node  view.NodeID
	shard protocol.ShardID
	token protocol.Token
	state protocol.ClaimState
	// to is where the state goes of a shard that is stopping.
	to view.NodeID
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

// widenCensus asks the members that the census does not know yet, and forgets
// those that have left the view.
func (c *Core) widenCensus() {
	if c.census.done || c.cfg.Mutant.Is("takeover without census") {
		return
	}
	gone := func(n view.NodeID) bool { return c.view.Member(n) == nil }
	c.census.pending = slices.DeleteFunc(c.census.pending, gone)
	for _, m := range c.view.WithRole(c.cfg.Role) {
		if p := c.peer(m.ID); !p.asked {
			p.asked = true
			c.census.pending = append(c.census.pending, m.ID)
			c.sendCensus(m.ID, false)
		}
	}
}

func (c *Core) sendCensus(to view.NodeID, probe bool) {
	m := &protocol.CensusRequest{Head: c.head(), Role: c.cfg.Role}
	m.Probe = probe
	c.send(to, m)
}

// readDone takes in the records. They only ever add what is not known better.
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
			continue // forged: the census tells what lives
		}
		if (drawn{c.term, c.seq}).forged(r.Token) {
			c.trace(TraceFar, r.Home, c.termToken(), "record with a token that was not given out")
			continue
		}
		if r.Token.Term > c.view.Epoch {
			// Of a successor whose view is not here yet, or forged, and then it
			// stays. It ends no office: a successor's fence, census and view do.
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

// serve lets a claim be told to who asks, unless a higher token is known.
func (c *Core) serve(cl claim) {
	c.record(protocol.Record{Shard: cl.shard, Home: cl.node, Token: cl.token})
	s := &c.shards[cl.shard]
	if cl.state == protocol.ClaimHosted && s.home == cl.node && s.token == cl.token && !c.stoppedSince(cl) {
		c.set(s, claimed)
		c.answerWaiters(cl.shard)
	}
}

// unserve takes in during the census that a shard stopped.
func (c *Core) unserve(st claim) {
	c.census.stops = append(c.census.stops, st)
	if s := &c.shards[st.shard]; s.phase == claimed && s.home == st.node && !st.token.Less(s.token) {
		c.set(s, recorded)
	}
}

// censusReport notes one member's claims. Reports that come twice, or after the
// end, say nothing new.
func (c *Core) censusReport(from view.NodeID, m *protocol.CensusReport) {
	if !c.register(from, m.Hosts, &m.Settings, false) {
		// What it hosts counts all the same: it runs, and nothing else may.
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

// finishCensus ends it once everyone has reported and the read is done.
func (c *Core) finishCensus() {
	if c.census.done || !c.census.read || len(c.census.pending) > 0 {
		return
	}
	c.census.done, c.dirty = true, true
	// What is published from here on overrides what was served on one claim's word.
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

// adoptClaims makes the truth of the hosts the state: per shard the highest token.
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
				// What promises and leases are to prevent, unless a proof of death was wrong.
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
	// What was on its way to a member that has gone goes to another, when all that
	// others have is known.
	var snap snapshot
	for i := range c.shards {
		c.turnLost(&snap, protocol.ShardID(i))
	}
}

func (c *Core) adopt(s *shard, cl claim) {
	s.home, s.token, s.known = cl.node, cl.token, true
	c.traceShard(TraceClaim, cl.shard, cl.node, cl.token, "")
	if cl.state == protocol.ClaimStopping {
		// A predecessor ordered it. We order it again, so that it ends under our eyes.
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
