package view

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// follower holds the leader that this node follows, and when it lost it.
type follower struct {
	*history
	holder   *leaseHolder
	acceptor *acceptor

	// leader is the node that this node follows, this node if it leads, zero if none.
	leader gossip.NodeID
	// leaderlessSince is the time from which this node counts as having no leader.
	leaderlessSince clock.Instant
	// pingedAt is when the last ping or accept of a leader arrived.
	pingedAt clock.Instant
	// nextAsk is when a joiner without a leader next asks for a newer view.
	nextAsk clock.Instant
}

// adoptLeader follows a leader whose promise ends at until, and reports whether it is a new
// one.
func (f *follower) adoptLeader(id gossip.NodeID, until clock.Instant) bool {
	changed := f.leader != id
	f.leader, f.leaderlessSince = id, until
	return changed
}

// isLeader reports whether this node leads.
func (f *follower) isLeader() bool { return f.leader == f.self() }

// joinerAt returns when a joiner without a leader next asks for a newer view, or ends.
func (f *follower) joinerAt() clock.Instant {
	end := f.pingedAt.Add(f.joinerPatience())
	return clock.Min(max(f.pingedAt.Add(f.joinerPatience()/2), f.nextAsk), end)
}

// requestNewerView makes a joiner ask members for a newer view. The joiner may have become a
// voter, or been left out, in a view that it has not received; any member that holds it
// replies with it. After joinerPatience, requestNewerView asks nothing and returns false.
func (f *follower) requestNewerView() bool {
	if !f.now.Before(f.pingedAt.Add(f.joinerPatience())) {
		return false
	}
	f.nextAsk = f.now.Add(f.cfg.Lease / 2)
	for i := range min(len(f.view.Members), joinerAsks) {
		f.sendTo(f.view.Members[i].ID, &Decided{View: f.ref()})
	}
	return true
}

// joinerPatience is how long a joining member waits for a leader. All members that held
// the view that admitted it may have died; it holds no lease and its promises bind no
// quorum, so it may return as a new incarnation. A joiner that has accepted a view in
// which it votes may be needed to commit it, so it waits longer (seed 19579).
func (f *follower) joinerPatience() time.Duration {
	patience := 2 * (f.cfg.RemoveAfter + f.cfg.Lease)
	if a := f.acceptor.attempts[f.view.Epoch]; a != nil && a.next.Member(f.self()) != nil && a.next.Member(f.self()).Status.Votes() {
		return 2 * patience
	}
	return patience
}

// leaderlessForLong reports whether this node has been without a leader for so long that it can
// lose nothing by accepting a non-member's view.
func (f *follower) leaderlessForLong() bool {
	since := max(f.holder.grantedAt, f.pingedAt)
	return !f.holder.lease.Valid(f.now) && f.now.Sub(since) > f.patience()
}

// patience is how long a node without a leader asks only members.
func (f *follower) patience() time.Duration {
	d := f.cfg.Lease + f.cfg.RemoveAfter
	return d + f.margin(d)
}
