package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// rounds holds a leader's rounds of pings, and the answers of its members.
type rounds struct {
	*history
	// round is the number of the newest round of pings; sent holds when the newest rounds
	// were sent.
	round    uint64
	sent     [roundsKept]clock.Instant
	nextPing clock.Instant
	// current and proposed count the answers of the current view and of the proposed one.
	current, proposed *tally
	// lastStaleRound is the newest round sent before the current view was committed: rounds
	// up to it no longer count.
	lastStaleRound uint64
	// quorumUntil is the end of the leader lease that the answers would allow even
	// without free. Until then the leader does not step down, though it may hold no lease
	// yet.
	quorumUntil clock.Instant
	// leaseUntil is the end of the leader lease. Invariant: it never goes back.
	leaseUntil clock.Instant
	peers      map[gossip.NodeID]*peer
}

const roundsKept = 64

// peer is the leader's state about a member.
type peer struct {
	// t0 is the member's clock in its newest answer, round the newest it answered.
	t0    int64
	round uint64
	// answeredAt is when that answer arrived; for a member without an answer, when the
	// leader's term began.
	answeredAt clock.Instant
	// epoch is the newest view that the member has acknowledged.
	epoch       gossip.Epoch
	unreachable []gossip.NodeID
	// whole is set when it has requested whole views.
	whole bool
	// leaseWithheldSince is since when the leader withholds leases from it although it answers.
	leaseWithheldSince clock.Instant
	// now and next report whether it votes in the current view and in the proposed one,
	// stays whether it is in the proposed one.
	now, next, stays bool
}

// beginRound begins the next round of pings.
func (r *rounds) beginRound() {
	r.round++
	r.current.openRound(r.round)
	r.proposed.openRound(r.round)
	r.sent[r.round%roundsKept] = r.now
	r.nextPing = r.now.Add(r.cfg.Ping)
}

// recordAnswer records that a member answered a round.
func (r *rounds) recordAnswer(id gossip.NodeID, p *peer, round uint64) {
	if p.now {
		r.current.moveVoter(id, p.round, round, r.round)
	}
	if p.next && r.proposed != nil {
		r.proposed.moveVoter(id, p.round, round, r.round)
	}
	p.round = round
}

// sentAt returns when a round was sent.
func (r *rounds) sentAt(round uint64) clock.Instant { return r.sent[round%roundsKept] }

// newTally starts a count for a view from the leader's state about its members.
func (r *rounds) newTally(v *gossip.View) *tally {
	t := &tally{view: v, peers: r.peers, self: r.self(), policy: r.cfg.Partition}
	t.count, _ = t.policy.(countingPolicy)
	for i := range v.Members {
		m := &v.Members[i]
		if !m.Status.Votes() {
			continue
		}
		if t.voters++; t.voters == 1 {
			t.senior = m.ID
		}
		if m.ID == r.self() {
			t.selfVotes, t.selfSenior = true, t.voters == 1
			continue
		}
		if p := r.peers[m.ID]; p != nil && p.round > 0 && p.round+roundsKept > r.round {
			t.at[p.round%roundsKept]++
			if m.ID == t.senior {
				t.seniorRound = p.round
			}
		}
	}
	return t
}

// countingPolicy is a Policy whose Quorum depends only on numbers; see gossip.Policy.
type countingPolicy interface {
	EnoughVoters(voters, yes int, senior bool) bool
}

// tally counts which rounds of pings a plain quorum of one view has answered. An
// answer to a later round renews the promise later, so it counts for earlier ones
// too: only the newest round that a member answered matters. The count is updated with
// every answer instead of recomputed, since a leader of a thousand members receives ten
// thousand answers a second.
type tally struct {
	view   *gossip.View
	peers  map[gossip.NodeID]*peer
	self   gossip.NodeID
	policy gossip.Policy
	// count is the policy if it depends on numbers only.
	count  countingPolicy
	voters int
	// selfVotes and selfSenior are set if the leader, which answers its own rounds, votes
	// and is the most senior.
	selfVotes, selfSenior bool
	senior                gossip.NodeID
	seniorRound           uint64
	// at counts the other voters by the newest round that they answered, for the
	// newest roundsKept rounds.
	at [roundsKept]int
}

// openRound makes room for a new round: it drops the members whose newest answer was to the
// round whose place it takes.
func (t *tally) openRound(round uint64) {
	if t != nil {
		t.at[round%roundsKept] = 0
	}
}

// moveVoter moves a voter on from its former round.
func (t *tally) moveVoter(id gossip.NodeID, from, to, newest uint64) {
	if from > 0 && from+roundsKept > newest {
		t.at[from%roundsKept]--
	}
	if to > 0 && to+roundsKept > newest {
		t.at[to%roundsKept]++
	}
	if id == t.senior {
		t.seniorRound = to
	}
}

// newestAnswered returns the newest round above floor that a plain quorum of both views
// answered, 0 if there is none. other may be nil.
func (t *tally) newestAnswered(other *tally, newest, floor uint64) uint64 {
	if newest > roundsKept {
		floor = max(floor, newest-roundsKept)
	}
	mine, others, seen := t.leaderVotes(), other.leaderVotes(), -1
	for n := newest; n > floor; n-- {
		mine += t.at[n%roundsKept]
		if other != nil {
			others += other.at[n%roundsKept]
		}
		if seen == mine+others {
			continue // the same members as for the round after it
		}
		seen = mine + others
		if t.isQuorum(mine, n) && (other == nil || other.isQuorum(others, n)) {
			return n
		}
	}
	return 0
}

// leaderVotes counts the leader itself.
func (t *tally) leaderVotes() int {
	if t != nil && t.selfVotes {
		return 1
	}
	return 0
}

// isQuorum reports whether the voters that answered a round or a later one are a quorum.
func (t *tally) isQuorum(yes int, round uint64) bool {
	if t.count != nil {
		return t.count.EnoughVoters(t.voters, yes, t.selfSenior || t.seniorRound >= round)
	}
	return t.policy.Quorum(t.view, func(id gossip.NodeID) bool {
		p := t.peers[id]
		return id == t.self || p != nil && p.round >= round
	})
}
