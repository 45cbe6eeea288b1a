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
// Rejected: to serve a shard that its node is still starting. A start takes long if the
// shard waits for its replicated states, and its node refuses requests until then. Of those, too,
// some could not be put back in order (seed 12002002 of TestReplicated).
//
// Rejected: to trust the read alone, as Akka did. A write had reached five of seven nodes,
// which then stopped together, and its shard got two homes (#28856).
type census struct {
	*env
	members *members
	table   *table
	writes  *writes

	// readID is that of the last Read; read is set when it was answered.
	readID uint64
	read   bool
	// retry is when to read again, zero if not.
	retry clock.Instant
	// pending members have not reported. Invariant: all stand in the view. heard have.
	pending, heard []gossip.NodeID
	// stored are the records as the read found them.
	stored map[protocol.ShardID]protocol.Record
	// lost is the newest view before which records may be gone from all members.
	lost   gossip.Epoch
	claims []claim
	stops  []claim
	held   []heldAt
	// voters is how many members voted for the role in the view before the one in which
	// office was taken. unheard lists the voters that have not reported.
	voters  int
	unheard []gossip.NodeID
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

func (cn *census) startCensus() {
	cn.table.nextResend = cn.now.Add(cn.cfg.Resend)
	cn.readState()
	cn.widen()
}

func (cn *census) readState() {
	cn.seq++
	cn.readID, cn.retry = cn.seq, 0
	cn.out.Do = append(cn.out.Do, Read{ID: cn.seq, Term: cn.term})
}

// widen asks members that are new to the census, and drops those that have left the view.
func (cn *census) widen() {
	if cn.table.surveyed {
		return
	}
	gone := func(n gossip.NodeID) bool { return cn.view.Member(n) == nil }
	cn.pending = slices.DeleteFunc(cn.pending, gone)
	for _, m := range cn.view.WithRole(cn.cfg.Role) {
		if p := cn.members.peerOf(m.ID); !p.asked {
			p.asked = true
			cn.pending = append(cn.pending, m.ID)
			cn.sendCensus(m.ID, false)
		}
	}
}

func (cn *census) sendCensus(to gossip.NodeID, probe bool) {
	m := &protocol.CensusRequest{Head: cn.head(), Role: cn.cfg.Role}
	m.Probe = probe
	cn.sendMessage(to, m)
}

// repeatRequests asks the members that have not reported again.
func (cn *census) repeatRequests() {
	for _, n := range cn.pending {
		cn.sendCensus(n, true)
	}
}

// readDone adopts the records, except where fresher information exists. A term above ours
// ends the term: readDone returns it as higher, and overtaken is true.
func (cn *census) readDone(ev ReadDone) (higher gossip.Epoch, overtaken bool) {
	if ev.ID != cn.readID || cn.read {
		return 0, false
	}
	switch {
	case ev.Result == Fenced && !cn.far(0, ev.Higher, "fence"):
		return ev.Higher, true
	case ev.Result != OK:
		cn.retry = cn.now.Add(cn.cfg.RetryWrite)
		return 0, false
	}
	cn.read, cn.lost = true, ev.Lost
	cn.stored = make(map[protocol.ShardID]protocol.Record, len(ev.Records))
	cn.traceEvent(TraceRead, 0, cn.termToken(), "")
	for _, r := range ev.Records {
		if int(r.Shard) >= len(cn.table.shards) {
			continue
		}
		if cn.far(r.Home, r.Token.Term, "record") {
			continue // forged: the census finds what lives
		}
		if cn.forged(r.Token) {
			cn.traceEvent(TraceFar, r.Home, cn.termToken(), "record with a token that was not given out")
			continue
		}
		if r.Token.Term > cn.view.Epoch {
			// Written by a successor whose view has not arrived, or forged, and then it
			// stays in the records. It must not end this office: a successor's fence, census
			// and view do.
			cn.traceShard(TraceStale, r.Shard, r.Home, r.Token, "record of a view that is not here")
			continue
		}
		if r.Token.Term > cn.term {
			return r.Token.Term, true
		}
		cn.stored[r.Shard] = r
		cn.table.shards[r.Shard].recallMoves(cn.now, r)
		cn.table.adoptRecord(r)
	}
	cn.noteStored(ev.Regions, ev.Proxies)
	return 0, false
}

// noteStored compares the stored OR-sets with the view.
func (cn *census) noteStored(regions, proxies []gossip.NodeID) {
	for _, n := range slices.Concat(regions, proxies) {
		if cn.table.noteListed(n); cn.view.Member(n) == nil {
			cn.writes.noteGone(n)
		}
	}
}

// serveClaim allows answers with a claimed home, unless a higher token is on record.
func (cn *census) serveClaim(cl claim) {
	cn.table.adoptRecord(protocol.Record{Shard: cl.shard, Home: cl.node, Token: cl.token})
	s := &cn.table.shards[cl.shard]
	if cl.state == protocol.ClaimHosted && s.home == cl.node && s.token == cl.token && !cn.stoppedSince(cl) {
		cn.table.setPhase(s, claimed)
		cn.table.answerWaiters(cl.shard)
	}
}

// unserve handles a shard that stopped during the census.
func (cn *census) unserve(st claim) {
	cn.stops = append(cn.stops, st)
	if s := &cn.table.shards[st.shard]; s.phase == claimed && s.home == st.node && !st.token.Less(s.token) {
		cn.table.setPhase(s, recorded)
	}
}

// noteReport notes one member's claims. Duplicate and late reports are ignored, and what names no token
// or no former home: no member with our code sends that. A claim of a
// term above ours ends the term: noteReport returns that term, else zero.
func (cn *census) noteReport(from gossip.NodeID, m *protocol.CensusReport) (higher gossip.Epoch) {
	if !slices.Contains(cn.pending, from) || m.Term != cn.term {
		return 0
	}
	cn.pending, cn.heard = without(cn.pending, from), append(cn.heard, from)
	cn.unheard = without(cn.unheard, from)
	for _, cl := range m.Claims {
		if int(cl.Shard) >= len(cn.table.shards) || cl.Token.IsZero() {
			continue
		}
		if cl.Token.Term > cn.term {
			return cl.Token.Term
		}
		noted := claim{from, cl.Shard, cl.Token, cl.State, cl.To}
		cn.claims = append(cn.claims, noted)
		cn.serveClaim(noted)
	}
	for _, h := range m.Held {
		at := from
		if h.Away {
			at = h.To
		}
		if int(h.Shard) < len(cn.table.shards) && !h.Token.IsZero() && h.From != 0 {
			cn.held = append(cn.held, heldAt{at, h})
		}
	}
	return 0
}

// finishCensus ends the census once all members have reported and the read is done.
func (cn *census) finishCensus() {
	if cn.table.surveyed || !cn.read || len(cn.pending) > 0 {
		return
	}
	cn.table.surveyed, cn.dirty = true, true
	// Homes published from here on supersede homes served on a single claim.
	cn.nextToken()
	cn.traceEvent(TraceCensus, 0, cn.termToken(), "")
	for i := range cn.table.shards {
		if p := cn.table.shards[i].phase; p == recorded || p == claimed {
			cn.table.releaseHome(&cn.table.shards[i])
			if cn.cfg.Collects {
				cn.table.shards[i].cameFrom(cn.stored[protocol.ShardID(i)].From)
			}
		}
	}
	cn.adoptClaims()
	cn.resumeMoves()
	cn.table.publishServed()
	cn.claims, cn.stops, cn.held, cn.stored = nil, nil, nil, nil
}

// adoptClaims makes the reported claims the state: for each shard, the highest token wins.
func (cn *census) adoptClaims() {
	cn.holdStopped()
	claims := slices.DeleteFunc(cn.claims, func(cl claim) bool {
		return cn.view.Member(cl.node) == nil || cn.stoppedSince(cl)
	})
	slices.SortStableFunc(claims, func(a, b claim) int { return b.token.Compare(a.token) })
	for _, cl := range claims {
		s := &cn.table.shards[cl.shard]
		if s.phase != free {
			cn.table.strays.list = append(cn.table.strays.list, staleClaim{cl.node, cl.shard, cl.token})
			kind := TraceClaimStale
			if cl.state == protocol.ClaimHosted && s.phase == hosted && s.home != cl.node {
				// Promises and leases prevent this, unless a proof of death was wrong.
				kind = TraceDouble
			}
			cn.traceShard(kind, cl.shard, cl.node, cl.token, "another home has a higher token")
			continue
		}
		cn.adoptClaim(s, cl)
		if r := cn.stored[cl.shard]; r.Home != cl.node || r.Token != cl.token {
			cn.writes.rewrite = append(cn.writes.rewrite, protocol.Record{
				Shard: cl.shard, Home: cl.node, Token: cl.token, State: protocol.Allocated, Moves: s.moves, Since: s.since})
		}
	}
	// Redirect each state that was sent to a departed member. All states held elsewhere
	// are on record by now.
	var snap snapshot
	for i := range cn.table.shards {
		cn.table.turnLost(&snap, protocol.ShardID(i))
	}
}

func (cn *census) adoptClaim(s *shard, cl claim) {
	s.home, s.token, s.known = cl.node, cl.token, true
	cn.traceShard(TraceClaim, cl.shard, cl.node, cl.token, "")
	switch cl.state {
	case protocol.ClaimStopping:
		// A predecessor ordered the stop. Repeat the order, so that this term sees its end.
		s.move = &shardMove{stamp: cn.nextToken(), target: cl.to}
		cn.table.handOff(cl.shard)
	case protocol.ClaimStarting:
		// A predecessor ordered the start. Repeat the order: the shard is served once it runs.
		if r := cn.stored[cl.shard]; r.Home == cl.node && r.Token == cl.token {
			s.moveFrom(r.From, r.Ended)
		}
		cn.table.awaitStart(cl.shard)
	default:
		cn.table.setPhase(s, hosted)
	}
}

// stoppedSince reports whether the claim's own node has promised since that the
// shard does not run there.
func (cn *census) stoppedSince(cl claim) bool {
	return slices.ContainsFunc(cn.stops, func(st claim) bool {
		return st.node == cl.node && st.shard == cl.shard && !st.token.Less(cl.token)
	})
}
