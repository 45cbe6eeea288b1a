package view

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// AssumeCrash: a node that has held no lease for After assumes that members have crashed
// if they were silent for as long and it has no link with them. From then on they count
// as certainly dead: they are not asked, and a total quorum does not need them. The
// window of other proofs (inWindow) does not apply: it prevents a part from continuing
// beside a majority, which this policy accepts.

// silence records when each member last gave a sign of life, only for AssumeCrash.
type silence struct {
	*history
	evidence *evidence
	holder   *leaseHolder

	after time.Duration
	// since is when this node was first in a view.
	since clock.Instant
	// lastSign is the time of a member's last sign of life, or when this node met it.
	lastSign map[gossip.NodeID]clock.Instant
}

func newSilence(p gossip.Policy) *silence {
	if a, ok := p.(gossip.AssumeCrash); ok {
		return &silence{after: a.After, lastSign: map[gossip.NodeID]clock.Instant{}}
	}
	return nil
}

// signOfLife records a sign of life of a peer and withdraws the assumption of its crash.
func (s *silence) signOfLife(id gossip.NodeID) {
	if s == nil {
		return
	}
	if s.view.Member(id) != nil {
		s.lastSign[id] = s.now
	}
	if p := s.evidence.proofs[id]; p != nil && p.assumed {
		delete(s.evidence.proofs, id)
		s.traceEvent("not dead after all", id, "")
	}
}

// meetMembers starts the silence timers for members of a new view.
func (s *silence) meetMembers(v *gossip.View) {
	if s == nil {
		return
	}
	if s.since == 0 {
		s.since = s.now
	}
	heard := make(map[gossip.NodeID]clock.Instant, len(v.Members))
	for i := range v.Members {
		id := v.Members[i].ID
		if heard[id] = s.lastSign[id]; heard[id] == 0 {
			heard[id] = s.now
		}
	}
	s.lastSign = heard
}

// servedAt is when this node was last granted a lease. Pings are not enough: a leader
// that gathers no quorum sends them as well.
func (s *silence) servedAt() clock.Instant { return max(s.holder.grantedAt, s.since) }

// assumes reports whether silence now counts as death.
func (s *silence) assumes() bool {
	return s != nil && s.votes() && !s.holder.lease.Valid(s.now) && !s.now.Before(s.servedAt().Add(s.after))
}

// driveAssume assumes that silent members are dead, and returns them.
func (s *silence) driveAssume() (dead []gossip.NodeID) {
	if !s.assumes() {
		return nil
	}
	for i := range s.view.Members {
		if id := s.view.Members[i].ID; s.assumable(id) && !s.now.Before(s.lastSign[id].Add(s.after)) {
			s.evidence.recordProof(id, &proof{at: s.now, reason: "assumed: silent for " + s.after.String(), certain: true, assumed: true})
			dead = append(dead, id)
		}
	}
	return dead
}

// assumable reports whether a member may be assumed dead.
func (s *silence) assumable(id gossip.NodeID) bool {
	p := s.evidence.proofs[id]
	return id != s.self() && !s.evidence.links[id] && (p == nil || !p.certain)
}

// assumeAt returns when driveAssume next has something to do.
func (s *silence) assumeAt() clock.Instant {
	if s == nil || !s.votes() {
		return clock.Never
	}
	d := clock.Never
	for i := range s.view.Members {
		if id := s.view.Members[i].ID; s.assumable(id) {
			d = clock.Min(d, s.lastSign[id].Add(s.after))
		}
	}
	if d == clock.Never {
		return d
	}
	return max(d, s.servedAt().Add(s.after), s.holder.lease.Until)
}
