package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// peer is another member of the view with the role, voting or joining. Both receive all
// state; only voting ones count.
type peer struct {
	id gossip.NodeID
	// down is set while its connection is lost.
	down bool

	// The stream to it. Invariant: acked < next <= log.last()+1; acked is the highest
	// entry up to which the peer holds all that streams can bring.
	acked, next uint64
	resendAt    clock.Instant
	backoff     int

	// From its newest Status.
	caughtUp gossip.Epoch
	keys     uint64
	// dots is the highest sequence number of its changes that it has shown (values.go).
	dots uint64
	// differed counts its Statuses in a row that differed from our state.
	differed int
	// synced is the newest view in which we took over its whole state.
	synced gossip.Epoch
	// joined is the newest view in which we did so after the peer had caught up with it.
	joined gossip.Epoch

	// floor is the highest at which it was seen (prune.go).
	floor uint64
	// swept is the newest sweep at which its whole state was taken over (retain.go).
	swept uint64

	// clocked is set if it has a clock, which was offset above the clock of the Instants
	// (clocks.go).
	clocked bool
	offset  int64

	out outgoing
	in  incoming
}

// members holds the view, its voters and the peers, and decides over which quorums a
// request is counted.
type members struct {
	*env
	view   *gossip.View
	epoch  gossip.Epoch
	voters []gossip.NodeID // with the role, self included if it votes
	former []kept          // sets of former voters
	// caughtUp is the newest view with which this replica has caught up.
	caughtUp gossip.Epoch
	// behind is set until it has caught up after it last kept a set, even if the set was
	// dropped because the view settled without it.
	behind bool
	// lost is the newest view in which a majority of a kept set was absent: values that were
	// confirmed before it may be gone from all members. A replica that joins later has it from
	// its peers.
	lost  gossip.Epoch
	peers []*peer // sorted by seniority
	byID  map[gossip.NodeID]*peer
}

func (ms *members) isPresent(id gossip.NodeID) bool { return id == ms.cfg.Self || ms.byID[id] != nil }

func (ms *members) isLinked(id gossip.NodeID) bool {
	p := ms.byID[id]
	return p != nil && !p.down
}

// quorumsFor returns the quorums that a request at level needs now.
func (ms *members) quorumsFor(level replicator.Level) []quorum {
	return jointQuorums(level, ms.voters, ms.former, ms.isPresent)
}

// keepFormer adds the voters of the view before to the kept sets.
func (ms *members) keepFormer(old *gossip.View, voters []gossip.NodeID) {
	all := false
	switch {
	case old == nil:
		// A newcomer has not seen the views before its own, of which its peers may still
		// keep sets. A write that was confirmed there may stand at any one of them alone.
		// So it needs each voter that is present, or one replica that has caught up.
		others := slices.DeleteFunc(slices.Clone(ms.voters), func(id gossip.NodeID) bool { return id == ms.cfg.Self })
		if len(others) > 0 {
			ms.former, ms.behind = []kept{{members: others, all: true}}, true
		}
		return
	case ms.epoch != old.Epoch+1:
		// This replica has missed views, as a newcomer has missed those before its own.
		// Former voters that remain are voters.
		voters, all = slices.Clone(ms.voters), true
	case slices.Equal(voters, ms.voters):
		return
	}
	if len(voters) == 0 || len(voters) == 1 && voters[0] == ms.cfg.Self {
		return
	}
	ms.former = append(ms.former, kept{members: voters, all: all})
	if len(ms.former) > formerMax {
		ms.former = append([]kept{merged(ms.former[0], ms.former[1], ms.isPresent)}, ms.former[2:]...)
	}
	ms.behind = true
}

// noteLost notes whether members that were lost together may have taken confirmed values with them.
func (ms *members) noteLost() {
	for _, f := range ms.former {
		absent := 0
		for _, id := range f.members {
			if !ms.isPresent(id) {
				absent++
			}
		}
		if absent >= majorityOf(len(f.members)) {
			ms.lost = ms.epoch
		}
	}
}

// inheritLost takes over what a peer has noted as lost.
func (ms *members) inheritLost(lost gossip.Epoch) { ms.lost = max(ms.lost, lost) }

// enlist makes the peers those of v, keeping the state of old ones. The streams to new
// ones begin after last, the newest logged entry.
func (ms *members) enlist(v *gossip.View, last uint64) {
	was := ms.byID
	ms.peers, ms.byID = nil, map[gossip.NodeID]*peer{}
	for i := range v.Members {
		m := &v.Members[i]
		if m.ID == ms.cfg.Self || !m.HasRole(ms.cfg.Role) {
			continue
		}
		p := was[m.ID]
		if p == nil {
			// Anti-entropy brings it the entries that were logged before it came.
			p = &peer{id: m.ID, acked: last, next: last + 1, resendAt: clock.Never}
		}
		ms.peers = append(ms.peers, p)
		ms.byID[m.ID] = p
	}
}

func (ms *members) hasCaughtUp() bool {
	synced := func(id gossip.NodeID) bool {
		p := ms.byID[id]
		return id == ms.cfg.Self || p != nil && p.synced >= ms.epoch
	}
	if (len(ms.former) > 0 || !ms.behind) && allMet(jointQuorums(replicator.Majority(0, 0), nil, ms.former, ms.isPresent)[1:], synced) {
		return true
	}
	for _, p := range ms.peers {
		if p.joined >= ms.epoch {
			return true
		}
	}
	return false
}

func (ms *members) isSettled() bool {
	n := 0
	for _, id := range ms.voters {
		if p := ms.byID[id]; id == ms.cfg.Self && ms.caughtUp >= ms.epoch || p != nil && p.caughtUp >= ms.epoch {
			n++
		}
	}
	return n >= settledBy(len(ms.voters))
}

// Quorums across views
//
// Two majorities of one view meet; a majority of a view and one of its successor
// need not: of {a b c} a write may have reached a and b, and after d and e have joined,
// c, d and e are a majority without it. So while a value confirmed in a former view may
// stand at too few members of the current one, majorities are counted over both, as in
// joint consensus:
//
//   - A replica that changes from one set of voters to another keeps the former set. A
//     majority request needs a majority of the current voters and of every kept set.
//     Where fewer members of a set are left in the view, it needs all of them (then more
//     were lost together than the level covers).
//   - A replica has *caught up* with the view when it has taken over the whole
//     state, fences included, of a majority of every kept set, in exchanges in
//     which both sides were in this view or a later one; or of one replica that
//     has caught up with it.
//   - The view is *settled* when so many current voters have caught up that every
//     majority has one of them: half of them, rounded up. Then the kept sets are
//     dropped.
//
// An answer given in a later view than the asker's does not count until the asker has
// that view too: else a write could be confirmed by counting over a view after other
// members have already caught up with its successor.
//
// Reads that are in flight when the kept sets are dropped ask anew: members that have
// answered may have caught up since (requests.askAgain).
//
// The limit of this guarantee: members that are lost while the view before is not settled
// count together with those lost before it, and a value that stood at no survivor is
// gone. Settling takes a round trip where nothing is amiss, and as long as a state
// transfer where a newcomer has to be filled and is needed for it.
//
// A newcomer needs all voters of its first view, since it has not seen which sets they
// still keep. A majority of them was the first rule. A joiner then caught up with two of
// three while the third, cut off with a removed member, held a write which that pair had
// confirmed in the view before (internal/sim, seed 4443 of its time: S4).
//
// A member that receives a view without having seen all views between needs all voters of
// it too, for the same reason. A majority of the voters of both views was the rule. Then
// of 1, 2 and 3, 3 missed a view in which 4 and 5 came, wrote with 1, and died; 3 then
// read with 2 a value for which 1 alone held a newer one (skip_test.go). The first view
// of a generation does not name its predecessor, and counts as one after a gap.
//
// Rejected: to let joiners refuse reads until they are filled. It costs availability
// in exactly the moment (a node has died, another comes) in which there is the least
// of it.

// formerMax bounds the kept sets. Views may change faster than members catch up: the two
// oldest sets then become one, of which all members that are present are needed. Both
// former sets needed less.
const formerMax = 16

// kept is a set of former voters of which a majority is needed, or all.
type kept struct {
	members []gossip.NodeID
	all     bool
}

// merged returns a set whose quorum covers those of a and b.
func merged(a, b kept, present func(gossip.NodeID) bool) kept {
	out := kept{all: true}
	for _, id := range slices.Concat(a.members, b.members) {
		if present(id) && !slices.Contains(out.members, id) {
			out.members = append(out.members, id)
		}
	}
	return out
}

// quorum is a set of nodes of which need must answer.
type quorum struct {
	members []gossip.NodeID
	need    int
}

// met reports whether enough of q's members satisfy have.
func (q quorum) met(have func(gossip.NodeID) bool) bool { return q.countMembers(have) >= q.need }

func (q quorum) countMembers(have func(gossip.NodeID) bool) int {
	n := 0
	for _, id := range q.members {
		if have(id) {
			n++
		}
	}
	return n
}

// majorityOf returns the size of a plain majority of n.
func majorityOf(n int) int { return n/2 + 1 }

// jointQuorums returns the quorums of a request at level: over the current voters, and
// over the present members of the kept sets of former ones. In a view without voters of the
// role, no request is complete: its answers would meet those of no other view.
func jointQuorums(level replicator.Level, voters []gossip.NodeID, former []kept, present func(gossip.NodeID) bool) []quorum {
	out := []quorum{{members: voters, need: max(level.Need(len(voters)), 1)}}
	if !level.Joint() {
		return out
	}
	for _, f := range former {
		left := slices.DeleteFunc(slices.Clone(f.members), func(id gossip.NodeID) bool { return !present(id) })
		need := len(left)
		if !f.all {
			need = min(majorityOf(len(f.members)), need)
		}
		out = append(out, quorum{members: left, need: need})
	}
	return out
}

// allMet reports whether the nodes that satisfy have meet every quorum.
func allMet(qs []quorum, have func(gossip.NodeID) bool) bool {
	for _, q := range qs {
		if !q.met(have) {
			return false
		}
	}
	return true
}

// targets returns the nodes to ask first so that every quorum is met if all of them
// answer. Nodes whose link is up come before the rest, and the most senior first. Nodes
// that have answered already count and are not returned.
func targets(qs []quorum, have, up func(gossip.NodeID) bool) []gossip.NodeID {
	var out []gossip.NodeID
	chosen := func(id gossip.NodeID) bool { return have(id) || slices.Contains(out, id) }
	for _, q := range qs {
		missing := q.need - q.countMembers(chosen)
		for _, wantUp := range []bool{true, false} {
			for _, id := range q.members {
				if missing > 0 && !chosen(id) && up(id) == wantUp {
					out = append(out, id)
					missing--
				}
			}
		}
	}
	return out
}

// shortfall returns the error of a request that did not reach its level: qs are its
// quorums, have the nodes that answered.
func shortfall(level replicator.Level, qs []quorum, have func(gossip.NodeID) bool) *replicator.Error {
	e := &replicator.Error{Code: replicator.ErrOutcomeUnknown, Level: level, Need: qs[0].need, Got: qs[0].countMembers(have)}
	for _, q := range qs {
		for _, id := range q.members {
			if !have(id) && !q.met(have) && !slices.Contains(e.Missing, id) {
				e.Missing = append(e.Missing, id)
			}
		}
	}
	return e
}

// settledBy returns how many of n voters must have caught up so that every
// majority has one of them.
func settledBy(n int) int { return n - majorityOf(n) + 1 }

func (ms *members) isLeader() bool { return len(ms.voters) > 0 && ms.voters[0] == ms.cfg.Self }

// isDead reports whether an incarnation is gone for good. One that has yet to join looks
// dead as well; in no view before its own do all members agree on its writes.
func (ms *members) isDead(id crdt.NodeID) bool { return !ms.isPresent(gossip.NodeID(id)) }

// allCaughtUp reports whether the streams of nodes outside the view are useless: every peer
// has caught up with this view.
func (ms *members) allCaughtUp() bool {
	for _, p := range ms.peers {
		if p.caughtUp < ms.epoch {
			return false
		}
	}
	return ms.caughtUp >= ms.epoch
}
