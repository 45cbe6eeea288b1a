package replication

import (
	"slices"
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
	marks     *marks
	deletions *deletions
	values    *values
	store     *store
	stream    *stream

	gossipAt clock.Instant
	// round counts the rounds.
	round uint64
}

// startRound sends the Status messages of one round.
func (ae *antiEntropy) startRound(now clock.Instant) {
	ae.gossipAt = now.Add(ae.roundWait())
	if len(ae.members.peers) == 0 {
		return
	}
	ae.round++
	ae.transfers.packer.rest()
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
	ae.transfers.sendStored(p, &Status{Epoch: ae.members.epoch, Floor: ae.marks.floor, Horizon: ae.marks.horizon, CaughtUp: ae.members.caughtUp, Root: ae.store.root, Keys: uint64(ae.store.keys),
		Vector: ae.stream.vector(), Fences: ae.fences.all(), Reply: reply,
		MinGeneration: ae.marks.minGeneration, MaxForgottenStamp: ae.marks.maxForgottenStamp, Deletions: ae.deletions.statusSums(ae.now.Sub(ae.deletions.movedAt) > deletionsQuiet), Fresh: ae.marks.fresh, Dots: ae.values.dots, Wall: ae.clocks.ownWall()}, ae.cfg.Keep != nil)
}

// vector returns the applied entries of every stream, sorted by node.
func (st *stream) vector() []Seen {
	out := make([]Seen, 0, len(st.tracks)+1)
	if st.log.last() > 0 {
		out = append(out, st.seenOf(st.cfg.Self))
	}
	for id := range st.tracks {
		out = append(out, st.seenOf(id))
	}
	slices.SortFunc(out, func(a, b Seen) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return out
}

func (c *Core) onStatus(now clock.Instant, p *peer, m *Status) {
	c.fences.raiseAll(p.id, m.Epoch, m.Fences)
	if c.clocks.noteClock(p, m.Wall) {
		c.writes.judgeOwn()
	}
	p.caughtUp = max(p.caughtUp, m.CaughtUp)
	p.keys, p.dots = m.Keys, max(p.dots, m.Dots)
	if i := slices.IndexFunc(m.Vector, func(s Seen) bool { return s.Node == c.cfg.Self }); i >= 0 {
		c.stream.noteProgress(now, p, m.Vector[i].Seen, 0, 0)
	}
	c.retention.onStanding(p, m)
	if c.marks.fresh {
		if m.Reply {
			c.antiEntropy.sendStatus(p, false)
		}
		return
	}
	if !c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
		// Don't compare roots: they differ because of that.
		if m.Reply {
			c.antiEntropy.sendStatus(p, false)
		}
		return
	}
	c.deletions.compare(p, m.Deletions)
	if m.Root == c.store.root {
		p.differed = 0
		c.noteSynced(now, p, min(m.Epoch, c.members.epoch), m.CaughtUp, m.Vector)
	} else {
		p.differed++
		if c.sessions.current.peer == 0 && c.antiEntropy.mustPull(m, p) {
			if p.id == c.sessions.avoidPeer {
				c.sessions.avoidPeer = 0 // skip it once: the Status of another peer may arrive first
			} else {
				c.sessions.start(now, p)
			}
		}
		c.catchUp(now)
	}
	if m.Reply {
		c.antiEntropy.sendStatus(p, false)
	}
}

// mustPull reports whether streams alone will not remove the difference.
func (ae *antiEntropy) mustPull(m *Status, p *peer) bool {
	if ae.cfg.NoStream || p.joined < ae.members.epoch && ae.members.caughtUp < ae.members.epoch || p.differed >= 3 {
		return true
	}
	level := true
	for _, s := range m.Vector {
		mine := ae.stream.seenOf(s.Node)
		if s.Top > mine.Seen && !ae.members.present(s.Node) {
			return true
		}
		level = level && mine.Seen == s.Seen && mine.Top == s.Top
	}
	return level && !ae.stream.lacksStream(m.Vector)
}

// lacksStream reports whether a vector lacks a running stream of which this replica has
// applied entries: the first entries are still in flight to the vector's sender.
func (st *stream) lacksStream(vector []Seen) bool {
	return slices.ContainsFunc(st.vector(), func(mine Seen) bool {
		known := func(s Seen) bool { return s.Node == mine.Node }
		return mine.Top > 0 && st.members.present(mine.Node) && !slices.ContainsFunc(vector, known)
	})
}

// noteSynced notes that this replica holds the whole state that a peer held when it sent
// vector.
func (c *Core) noteSynced(now clock.Instant, p *peer, epoch, caughtUp gossip.Epoch, vector []Seen) {
	for _, s := range vector {
		if s.Node == c.cfg.Self {
			continue
		}
		t := c.stream.tracks[s.Node]
		if t == nil {
			if !c.members.present(s.Node) && c.members.allCaughtUp() {
				continue
			}
			t = &track{}
			c.stream.tracks[s.Node] = t
		}
		t.reach(s.Seen)
	}
	p.synced, p.joined = max(p.synced, epoch), max(p.joined, min(epoch, caughtUp))
	c.catchUp(now)
	if c.members.allCaughtUp() {
		for id := range c.stream.tracks { // order-free: deletes only
			if !c.members.present(id) {
				delete(c.stream.tracks, id)
			}
		}
	}
}

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
