package view

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/wire"
)

// digest identifies a state, or a part of one: equal states have equal digests, whatever
// path led to them.
type digest [16]byte

func digestOf(b []byte) digest {
	sum := sha256.Sum256(b)
	return digest(sum[:16])
}

// encoder writes the data that distinguishes two states. It leaves out derived data
// (caches) and what never changes in a run (the configuration).
type encoder struct{ b []byte }

func (e *encoder) u(v uint64) *encoder         { e.b = wire.AppendUvarint(e.b, v); return e }
func (e *encoder) i(v int64) *encoder          { e.b = wire.AppendU64(e.b, uint64(v)); return e }
func (e *encoder) bool(v bool) *encoder        { e.b = wire.AppendBool(e.b, v); return e }
func (e *encoder) id(v gossip.NodeID) *encoder { return e.i(int64(v)) }

func (e *encoder) ballot(b Ballot) *encoder { return e.u(b.Round).id(b.Node) }

func (e *encoder) ids(ids []gossip.NodeID) *encoder { return describe(e, &ids, codeIDs) }

// describe writes what a message would contain of v.
func describe[T any](e *encoder, v *T, fields func(*T, *wire.Coder)) *encoder {
	c := wire.NewEncoder(e.b)
	fields(v, c)
	e.b = c.Encoded()
	return e
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (e *encoder) at(i clock.Instant) { e.i(int64(i)) }

func (e *encoder) bools(vs ...bool) {
	for _, v := range vs {
		e.bool(v)
	}
}

func (e *encoder) set(m map[gossip.NodeID]bool) {
	e.u(uint64(len(m)))
	for _, id := range sorted(m) {
		e.id(id).bool(m[id])
	}
}

func (e *encoder) seen(v *gossip.View) {
	if v == nil {
		e.u(0)
		return
	}
	e.u(1).u(v.Cluster).u(v.Origin).u(uint64(v.Epoch)).u(uint64(len(v.Members)))
	for i := range v.Members {
		m := &v.Members[i]
		e.id(m.ID).u(uint64(m.Joined)).u(uint64(m.Status))
	}
	describe(e, v, func(v *gossip.View, c *wire.Coder) {
		wire.Slice(c, "departures", &v.Out, membersMax, codeDeparture)
		codeStanding(&v.Standing, c)
		wire.Uvarint(c, &v.TokensFrom)
		wire.Uvarint(c, &v.Least)
		wire.Slice(c, "contests", &v.Foreign, foreignMax, codeForeign)
	})
	e.u(uint64(len(v.Forks)))
	for _, f := range v.Forks {
		e.u(uint64(f.From)).u(uint64(f.To)).i(int64(f.Kept)).id(f.By)
	}
}

func (e *encoder) try(a *attempt) {
	e.bool(a != nil)
	if a != nil {
		e.ballot(a.ballot).bool(a.emergency)
		e.seen(a.next)
	}
}

func (e *encoder) found(f findings) {
	e.try(f.attempt)
	e.u(uint64(len(f.t0)))
	for _, id := range sorted(f.t0) {
		e.id(id).i(f.t0[id])
	}
}

func (e *encoder) proven(m map[gossip.NodeID]*proof) {
	e.u(uint64(len(m)))
	for _, id := range sorted(m) {
		p := m[id]
		e.id(id).bool(p.certain).bool(p.assumed)
		e.at(p.at)
		e.at(p.deniedUntil)
	}
}

// core writes a whole core.
func (e *encoder) core(c *Core) {
	e.bool(c.ended)
	if c.ended {
		return // it ignores all events
	}
	e.at(c.Deadline()) // depends on when the last step was
	e.u(c.rng)
	e.seen(c.view)
	e.seen(c.before)
	e.u(uint64(c.requested)).at(c.requestedAt)
	e.u(uint64(c.joined)).u(uint64(c.status))
	e.set(c.gone)
	e.ballot(c.acceptor.promised).u(c.acceptor.roundSeen).u(uint64(c.generation)).u(uint64(c.foreign.least))
	e.u(uint64(len(c.acceptor.attempts)))
	for _, base := range sorted(c.acceptor.attempts) {
		e.u(uint64(base))
		e.try(c.acceptor.attempts[base])
	}
	e.id(c.acceptor.guard.leader).id(c.follower.leader)
	e.lease(c.holder.lease)
	e.proven(c.evidence.proofs)
	e.proven(c.evidence.early)
	e.set(c.evidence.links)
	e.set(c.departure.leavers)
	e.ids(c.evidence.unreachable)
	e.i(int64(c.campaign.failures))
	for _, at := range []clock.Instant{
		c.acceptor.guard.until, c.holder.grantedAt, c.follower.pingedAt, c.follower.nextAsk, c.follower.leaderlessSince, c.campaign.campaignAfter, c.campaign.candidateUntil, c.departure.nextLeave, c.departure.nextAnnounce,
		c.joining.next, c.lineage.conflict.until, c.lineage.membership.asked.until, c.lineage.nextConsult,
	} {
		e.at(at)
	}
	e.bools(c.departure.leaving, c.departure.announced)
	for _, n := range c.joining.contacts {
		e.id(n.ID)
	}
	e.i(int64(c.joining.turn)).i(int64(c.joining.wait))
	e.ids(c.joining.passed)
	e.id(c.lineage.conflict.with).u(c.lineage.conflict.nonce).id(c.lineage.membership.asked.with).u(c.lineage.membership.asked.nonce).u(c.lineage.membership.secret[0]).u(c.lineage.membership.secret[1])
	e.set(c.lineage.nodes)
	e.candidacy(c.campaign.candidacy)
	e.leadership(c.leadership)
	e.farewell(c.farewell)
}

func (e *encoder) lease(l Lease) {
	e.at(l.Until)
	e.u(uint64(l.Generation)).bool(l.Leader)
}

func (e *encoder) candidacy(c *candidacy) {
	e.bool(c != nil)
	if c == nil {
		return
	}
	e.ballot(c.ballot).u(uint64(c.base)).bool(c.preparing)
	e.at(c.began)
	e.at(c.askAgain)
	e.at(c.deadline)
	e.set(c.yes)
	e.found(c.found)
}

func (e *encoder) farewell(f *farewell) {
	e.bool(f != nil)
	if f == nil {
		return
	}
	e.seen(f.last)
	e.set(f.knows)
	e.at(f.next)
	e.at(f.until)
}

func (e *encoder) leadership(o *leadership) {
	e.bool(o != nil)
	if o == nil {
		return
	}
	e.ballot(o.ballot).u(o.round).u(o.lastStaleRound)
	e.bools(o.free, o.reviewNeeded)
	for i := uint64(0); i < min(o.round, roundsKept); i++ {
		e.at(o.sentAt(o.round - i))
		for _, t := range []*tally{o.current, o.proposed} {
			if t != nil {
				e.i(int64(t.at[(o.round-i)%roundsKept]))
			}
		}
	}
	for _, at := range []clock.Instant{
		o.since, o.nextPing, o.quorumUntil, o.drivenAt, o.wokeAt, o.leaseUntil, o.batchAt, o.raiseAt, o.changeFrom,
	} {
		e.at(at)
	}
	e.seen(o.former)
	e.set(o.leaves)
	e.set(o.notices)
	for _, n := range o.joins {
		e.id(n.ID)
	}
	e.peers(o.peers)
	e.doubts(o.doubts.asked)
	e.bool(o.prep != nil)
	if o.prep != nil {
		e.u(uint64(o.prep.base))
		e.set(o.prep.yes)
		e.found(o.prep.found)
	}
	e.bool(o.proposal != nil)
	if p := o.proposal; p != nil {
		e.u(uint64(p.base))
		e.seen(p.next)
		e.bools(p.emergency, p.carried)
		e.at(p.notBefore)
		e.set(p.accepted)
	}
}

func (e *encoder) peers(m map[gossip.NodeID]*peer) {
	e.u(uint64(len(m)))
	for _, id := range sorted(m) {
		p := m[id]
		e.id(id).i(p.t0).u(p.round).u(uint64(p.epoch)).ids(p.unreachable)
		e.at(p.answeredAt)
		e.at(p.leaseWithheldSince)
		e.bools(p.whole, p.now, p.next, p.stays)
	}
}

func (e *encoder) doubts(m map[gossip.NodeID]*doubt) {
	e.u(uint64(len(m)))
	for _, id := range sorted(m) {
		e.id(id).ids(m[id].waiting)
		e.at(m[id].asked)
		e.set(m[id].answered)
	}
}

// truth writes the checks' record of a branch's past.
func (e *encoder) truth(x *truth) {
	e.u(uint64(len(x.decided)))
	for _, at := range slices.SortedFunc(maps.Keys(x.decided), func(a, b epochOf) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.epoch, b.epoch))
	}) {
		e.seen(x.decided[at])
	}
	e.u(uint64(len(x.accepted)))
	for _, key := range slices.SortedFunc(maps.Keys(x.accepted), func(a, b step) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.base, b.base),
			cmp.Compare(a.ballot.Round, b.ballot.Round), cmp.Compare(a.ballot.Node, b.ballot.Node))
	}) {
		a := x.accepted[key]
		e.u(key.cluster).u(uint64(key.base)).ballot(key.ballot).bool(a.emergency)
		e.seen(a.next)
		e.set(a.by)
	}
	e.u(uint64(len(x.leaderEnd)))
	for _, id := range sorted(x.leaderEnd) {
		e.id(id).i(int64(x.leaderEnd[id]))
	}
	e.set(x.dead)
}
