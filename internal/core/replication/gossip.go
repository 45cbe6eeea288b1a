package replication

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Anti-entropy
//
// Every round sends a Status to one peer: the root digest, and the vector of the applied
// entries of every stream. Equal roots end the round. If they differ because entries are
// in flight, the streams remove the difference, and further comparison would only move
// large values for nothing. Otherwise the receiver opens a session and pulls:
//
//	Status  ->            root, vector
//	        <- Compare    sums of 256 buckets
//	Differ  ->            fingerprints of the keys in buckets that differ
//	        <- Fetch      keys, again and again, also to other peers (session.go)
//	Values  ->            as many as fit into a frame
//
// Each side only pulls, so a value travels to members to which it is new, and no member
// decides for another.

// antiEntropy sends the Status of each round, and checks the floors of frames.
type antiEntropy struct {
	*env
	members   *members
	clocks    *clocks
	fences    *fences
	transfers *transfers
	barrier   *barrier
	values    *values
	store     *store
	stream    *stream

	gossipAt clock.Instant
	// round counts the rounds.
	round uint64
	// lags holds the streams of which a peer has applied more entries than this replica.
	lags map[gossip.NodeID]lag
}

// lag is how much of a stream was applied when a peer was found ahead, and since when no more
// was.
type lag struct {
	seen  uint64
	since clock.Instant
}

// startRound sends the Status messages of one round.
func (ae *antiEntropy) startRound(now clock.Instant) {
	ae.gossipAt = now.Add(ae.roundWait())
	if len(ae.members.peers) == 0 {
		return
	}
	ae.round++
	ae.transfers.packer.releaseIfIdle()
	if ae.members.caughtUp < ae.members.epoch || len(ae.members.former) > 0 {
		for _, p := range ae.members.peers {
			ae.sendStatus(p, p.synced < ae.members.epoch || p.caughtUp < ae.members.epoch || ae.members.caughtUp < ae.members.epoch)
		}
		return
	}
	ae.sendStatus(ae.members.peers[(ae.cfg.Seed+ae.round)%uint64(len(ae.members.peers))], true)
}

// roundWait is short while the view is not settled.
func (ae *antiEntropy) roundWait() time.Duration {
	if len(ae.members.former) > 0 {
		return min(2*ae.cfg.ResendAfter, ae.cfg.GossipEvery)
	}
	return ae.cfg.GossipEvery
}

func (ae *antiEntropy) sendStatus(p *peer, reply bool) {
	if ae.cfg.NoGossip {
		return
	}
	ae.transfers.sendStored(p, &Status{Epoch: ae.members.epoch, Floor: ae.barrier.floor, Sweep: ae.barrier.sweep, CaughtUp: ae.members.caughtUp, Root: ae.store.root, Keys: uint64(ae.store.keys),
		Vector: ae.stream.seenVector(), Fences: ae.fences.sortedFences(), Reply: reply,
		MinGeneration: ae.barrier.minGeneration, MaxForgottenStamp: ae.barrier.maxForgottenStamp, Fresh: ae.barrier.fresh, Lost: ae.members.lost, Dots: ae.values.dots, Wall: ae.clocks.ownWall()}, ae.cfg.Keep != nil)
}

// mustPull reports whether streams alone will not remove the difference.
func (ae *antiEntropy) mustPull(now clock.Instant, m *Status, p *peer) bool {
	if ae.cfg.NoStream || p.joined < ae.members.epoch && ae.members.caughtUp < ae.members.epoch || p.differed >= 3 {
		return true
	}
	level := true
	for _, s := range m.Vector {
		mine := ae.stream.seenOf(s.Node)
		if s.Top > mine.Seen && !ae.members.isPresent(s.Node) {
			return true
		}
		if ae.lagsForLong(now, mine, s) {
			return true
		}
		level = level && mine.Seen == s.Seen && mine.Top == s.Top
	}
	return level && !ae.stream.lacksStream(m.Vector)
}

// lagsForLong reports whether a stream has brought nothing for several times the time in which
// it sends again, although a peer has applied more of it: its node does not send those entries
// to this replica. It became a peer after them, and took the vector of a third one, or the log
// was cut.
func (ae *antiEntropy) lagsForLong(now clock.Instant, mine, theirs Seen) bool {
	if mine.Seen >= theirs.Seen {
		delete(ae.lags, mine.Node)
		return false
	}
	if l, known := ae.lags[mine.Node]; known && l.seen == mine.Seen {
		return !now.Before(l.since.Add(lagPatience * ae.cfg.ResendAfter))
	}
	if ae.lags == nil {
		ae.lags = map[gossip.NodeID]lag{}
	}
	ae.lags[mine.Node] = lag{mine.Seen, now}
	return false
}

// lagPatience is how many times ResendAfter a stream may stand still.
const lagPatience = 4
