package replication

import (
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Pruning
//
// Tombstones of keys and of map entries, the context of removed incarnations and their
// shares in counters may be forgotten when every replica has them and no older state can
// arrive. Rounds ensure both; each raises the *floor* of all replicas by one:
//
//	leader   Prepare   list of state to forget, at floor n, in view e
//	peers    Prepared  the lines whose state they hold too; only in view e, at floor n
//	leader   when all members of view e (joining ones too) have answered:
//	         forget the lines that all hold, floor n+1
//	         Commit    those lines
//	peers    the same
//
// The leader is the most senior voter of the role. Before the commit a replica loses none
// of the state to be forgotten (only newer state replaces a tombstone), so answers need
// not be given at the same time. No clock decides anything.
//
// The barrier. Each message with state carries its sender's floor, and a replica at
// another floor refuses it. The one behind gets the Commit, then retransmits. A frame
// from before a commit is therefore never accepted after it, however late or often it
// arrives. Frames of removed incarnations are refused since their sender is not in the
// view. Only the own log is older: it is retransmitted under the new floor, so a commit
// rewrites it (drop.go).
//
// A key's generation counts its deletions. A commit that forgets a key's tombstone
// subtracts the agreed generation everywhere, so a key that was created again before the
// commit, and one that is created after it, have the same generation.
//
// The next round begins only when all members of the view stand at the same floor.
// Hence no member is ever behind by more than one commit, and all keep the newest list
// for a member that is. A newcomer that holds only its own writes, and those of other
// newcomers, takes over the floor with the list, and has nothing to forget.
//
// Terms. A replaced writer's orders are older than its successor's deletions, and until
// the commit the tombstones superseded them. So answers and commits carry the fences: a
// replica at the new floor holds every term that a member held before, and refuses older
// writers.
//
// Two leaders do no harm. Both need an answer of every member of their view, given in
// that view and at that floor. A member that has answered in the later view refuses the
// leader of the former one, and a member that has committed sends no answer for the old
// floor.
//
// Rejected: forgetting after a time (Akka: values "will not be correct" after a longer
// pause); floors per peer and stream in place of refused frames, which cost a phase and
// guard streams only; refusing writers until all have committed.

// Drop is one line of a round: state under a key that can be forgotten.
type Drop struct {
	Key string
	// Kind 0 removes Gen generations of the key. Otherwise Kind is the value's data type,
	// and Garbage the state that the value, in generation 0, can do without. With
	// Writers, Garbage is their shares in the value's counters, which are merged. Stamps
	// in it are of Era.
	Kind    crdt.Kind
	Gen     uint64
	Era     uint8
	Garbage crdt.Garbage
	Writers []crdt.NodeID
	// Since, if not 0, marks the deletion of a durable key or, with a Kind, of those
	// entries of its map, in generation Gen. It is when the leader saw the last of them
	// (retain.go).
	Since     uint64
	Deletions []entryDeletion
}

// entryDeletion is the deletion of an entry of a map.
type entryDeletion struct {
	Entry string
	Stamp crdt.Stamp
}

// stampOf returns the stamp of an entry's deletion, the zero Stamp if it is not one of
// Deletions.
func (d *Drop) stampOf(entry string) (s crdt.Stamp) {
	// Deletions are sorted.
	i, ok := slices.BinarySearchFunc(d.Deletions, entry, func(e entryDeletion, entry string) int { return strings.Compare(e.Entry, entry) })
	if ok {
		s = d.Deletions[i].Stamp
	}
	return s
}

func (d *Drop) size() int {
	n := len(d.Key) + 40 + 8*len(d.Writers)
	for i := range d.Deletions {
		n += len(d.Deletions[i].Entry) + entryDeletionBytes
	}
	return n
}

// Bounds of one round, and of one look at the store.
const (
	dropsMax         = 512
	dropScanMax      = 4096
	dropDeletionsMax = 1024 // in one line
	pruneTireMax     = 4
)

// entryDeletionBytes is the size of an entryDeletion without the name.
const entryDeletionBytes = 24

// pruning is the leader's round in flight. The zero pruning is none.
type pruning struct {
	attempt uint64
	drops   []Drop
	agreed  []bool
	heard   map[gossip.NodeID]bool
}

// marks tell how far this replica has forgotten state. Messages with state carry the floor
// and the horizon, and replicas accept state only at equal ones.
//
// Invariant: empty only while no state was taken from peers; floor is 0 or lastDrops is
// the list of the commit that led to it; fresh only while empty.
type marks struct {
	// floor counts the commits, lastDrops are the lines of the newest one.
	floor     uint64
	lastDrops []Drop
	empty     bool
	// maxForgottenStamp is the newest time of a forgotten deletion of a map entry;
	// inherited is the one that this replica received when it joined.
	maxForgottenStamp, inherited uint64
	// filed is maxForgottenStamp as the own file had it.
	filed uint64
	// horizon and minGeneration as in Memory.
	horizon, minGeneration uint64
	// fresh is set while the replica has loaded a file and not learned the horizon; own
	// are the items written here meanwhile.
	fresh bool
	own   []Item
}

// forgetting holds the leader's rounds.
type forgetting struct {
	// pruneRound is the leader's round, idleRounds how many in a row forgot nothing.
	pruneRound pruning
	idleRounds int
	pruneAt    clock.Instant
	// cursor and idleCursor are the buckets at which the next scans begin.
	cursor, idleCursor int
}

func (ms *members) leads() bool { return len(ms.voters) > 0 && ms.voters[0] == ms.cfg.Self }

// dead reports whether an incarnation is gone for good. One that has yet to join looks
// dead as well; in no view before its own do all members agree on its writes.
func (ms *members) dead(id crdt.NodeID) bool { return !ms.present(gossip.NodeID(id)) }

// planPrune sets the time of the next round if a bucket is suspect.
func (c *Core) planPrune(now clock.Instant) {
	if !c.members.leads() || c.store.suspects == 0 && len(c.cfg.Expire) == 0 {
		c.pruneAt = clock.Never
	} else if c.pruneAt == clock.Never {
		c.pruneAt = now.Add(c.pruneWait())
	}
}

func (c *Core) pruneWait() time.Duration { return c.cfg.PruneEvery << min(c.idleRounds, pruneTireMax) }

// startRound makes the leader scan the store and begin a round.
func (c *Core) startRound(now clock.Instant) {
	c.pruneAt = clock.Never
	if c.pruneRound.attempt != 0 {
		c.pruneRound = pruning{}
		c.idleRounds++
	}
	c.deleteIdle(now)
	if !c.checkPeerFloors(now) {
		return
	}
	drops := c.candidates(now)
	if len(drops) == 0 {
		return
	}
	c.ids++
	c.pruneRound = pruning{attempt: c.ids, drops: drops, agreed: slices.Repeat([]bool{true}, len(drops)), heard: map[gossip.NodeID]bool{}}
	m := &Prepare{Epoch: c.members.epoch, Floor: c.marks.floor, Horizon: c.marks.horizon, Attempt: c.ids, Drops: drops}
	for _, p := range c.members.peers {
		c.transfers.send(p, m)
	}
	c.decideRound(now)
}

// checkPeerFloors reports whether all peers can be reached and stand at the own floor. It
// sends the last commit to those that are behind.
func (c *Core) checkPeerFloors(now clock.Instant) bool {
	all := true
	for _, p := range c.members.peers {
		if p.floor != c.marks.floor {
			all = false
			c.transfers.send(p, c.antiEntropy.lastCommit())
		}
		all = all && !p.down
	}
	if !all {
		c.idleRounds++
	}
	return all
}

// candidates returns drops that this replica could apply, from some of its buckets.
func (c *Core) candidates(now clock.Instant) (out []Drop) {
	looked, size := 0, 0
	for range bucketCount {
		b := &c.store.buckets[c.cursor]
		if b.suspect {
			looked += len(b.items)
			before := len(out)
			for _, it := range b.sorted() {
				c.foldShares(now, it)
				if d, ok := c.candidate(it); ok {
					out = append(out, d)
					size += d.size()
				}
			}
			if len(out) == before {
				b.suspect = false
				c.store.suspects--
			}
		}
		c.cursor = (c.cursor + 1) % bucketCount
		if looked >= dropScanMax || len(out) >= dropsMax || size >= c.cfg.Limits.FrameBytes/2 {
			break
		}
	}
	return out[:min(len(out), dropsMax)]
}

func (c *Core) candidate(it *item) (d Drop, ok bool) {
	if c.kept(it.key) {
		return c.deletions.expiredUnder(it)
	}
	if it.gen > 0 {
		return Drop{Key: it.key, Gen: it.gen}, true
	}
	p, ok := it.value.(crdt.Pruner)
	if !ok || it.kind() == crdt.KindVersionVector {
		// The entries of a vector are its content, also those of dead writers: without
		// one, comparisons with the vector would have other results. So they stay.
		return d, false
	}
	if d, ok := c.gatherable(it); ok {
		return d, true
	}
	g := p.Garbage(c.members.dead)
	return Drop{Key: it.key, Era: it.era, Kind: it.kind(), Garbage: g}, g.Items > 0
}

func (ev *env) kept(key string) bool {
	return ev.cfg.Keep != nil && ev.cfg.Keep(key) && ev.blunder != blunderForgetKept
}

// counter is a value with shares of writers.
type counter interface {
	crdt.Folder
	Writers() []crdt.NodeID
}

// foldShares moves the shares of dead writers in a counter to this replica's share, as an
// ordinary change.
func (c *Core) foldShares(now clock.Instant, it *item) {
	f, ok := it.value.(counter)
	if !ok || c.kept(it.key) {
		return
	}
	e := &Entry{}
	for _, w := range f.Writers() {
		if !c.members.dead(w) {
			continue
		}
		if d := f.Fold(w, crdt.NodeID(c.cfg.Self)); d != nil {
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Bytes: d.Append(nil)})
		}
	}
	if len(e.Items) > 0 {
		c.store.settle(it)
		c.stream.appendEntry(now, e)
	}
}

func (c *Core) onPrepare(p *peer, m *Prepare) {
	if m.Epoch != c.members.epoch || len(c.members.voters) == 0 || c.members.voters[0] != p.id || !c.antiEntropy.checkPruneFloor(p, m.Floor, m.Horizon) {
		return
	}
	c.marks.empty = false
	out := &Prepared{Epoch: c.members.epoch, Floor: c.marks.floor, Attempt: m.Attempt, Agreed: make([]bool, len(m.Drops)), Fences: c.fences.all()}
	for i := range m.Drops {
		out.Agreed[i] = c.agrees(&m.Drops[i])
	}
	c.transfers.sendStored(p, out, c.cfg.Keep != nil)
}

// lastCommit returns the commit that led to the floor.
func (ae *antiEntropy) lastCommit() *Commit {
	m := &Commit{MinGeneration: ae.marks.minGeneration, MaxForgottenStamp: ae.marks.maxForgottenStamp, Floor: ae.marks.floor, Horizon: ae.marks.horizon, Drops: ae.marks.lastDrops, Fences: ae.fences.all()}
	if ae.blunder == blunderNoTerms {
		m.Fences = nil
	}
	return m
}

// agrees reports whether this replica holds the state that d forgets.
func (c *Core) agrees(d *Drop) bool {
	it := c.store.get(d.Key)
	switch {
	case it == nil || c.kept(d.Key) != (d.Since > 0):
		return false
	case d.Since > 0 && d.Kind != 0:
		return agreesInside(d, it)
	case d.Since > 0:
		return it.value == nil && it.gen == d.Gen
	case d.Kind == 0:
		return it.gen >= d.Gen
	case it.gen != 0 || it.kind() != d.Kind || it.era != d.Era:
		return false
	}
	if len(d.Writers) > 0 {
		return c.agreesToGather(d, it.value)
	}
	p, ok := it.value.(crdt.Pruner)
	return ok && p.Garbage(c.members.dead) == d.Garbage
}

// agreesInside reports whether a durable map has all deletions of d, or newer states in
// their place.
func agreesInside(d *Drop, it *item) bool {
	m, ok := it.value.(*entryMap)
	if !ok || it.gen != d.Gen || it.era != d.Era {
		return false
	}
	return !slices.ContainsFunc(d.Deletions, func(e entryDeletion) bool {
		s, ok := m.Stamp(e.Entry)
		return !ok || s.Compare(e.Stamp) < 0
	})
}

func (c *Core) onPrepared(now clock.Instant, p *peer, m *Prepared) {
	s := &c.pruneRound
	if m.Attempt != s.attempt || s.attempt == 0 || m.Epoch != c.members.epoch || m.Floor != c.marks.floor || len(m.Agreed) != len(s.drops) {
		return
	}
	c.fences.raiseAll(p.id, m.Epoch, m.Fences)
	s.heard[p.id] = true
	for i, ok := range m.Agreed {
		s.agreed[i] = s.agreed[i] && ok
	}
	c.decideRound(now)
}

// decideRound ends the round when all have answered.
func (c *Core) decideRound(now clock.Instant) {
	s := c.pruneRound
	if len(s.heard) < len(c.members.peers) && !(c.blunder == blunderHasty && 2*len(s.heard) >= len(c.members.peers)) {
		return
	}
	c.pruneRound = pruning{}
	var drops []Drop
	for i := range s.drops {
		if s.agreed[i] {
			drops = append(drops, s.drops[i])
		}
	}
	if len(drops) == 0 {
		c.idleRounds++
		return
	}
	c.idleRounds = 0
	c.applyCommit(now, drops)
	for _, p := range c.members.peers {
		c.transfers.send(p, c.antiEntropy.lastCommit())
	}
}

// checkPruneFloor reports whether this replica may accept state of a peer at floor, and
// makes the side that is behind catch up.
func (ae *antiEntropy) checkPruneFloor(p *peer, floor, horizon uint64) bool {
	p.floor = max(p.floor, floor)
	switch {
	case ae.marks.fresh, floor == ae.marks.floor && horizon != ae.marks.horizon:
		// The Status shows which side stands at the lower horizon.
		ae.sendStatus(p, horizon > ae.marks.horizon || ae.marks.fresh)
	case floor == ae.marks.floor, ae.blunder == blunderNoFloor:
		return true
	case floor < ae.marks.floor && p.floor >= ae.marks.floor:
		// A late frame of a peer that has reached the floor meanwhile.
	case floor < ae.marks.floor:
		ae.transfers.send(p, ae.lastCommit())
	default:
		ae.sendStatus(p, false)
	}
	ae.stats.Unlevel++
	return false
}

func (c *Core) onCommit(now clock.Instant, p *peer, m *Commit) {
	p.floor = max(p.floor, m.Floor)
	c.fences.raiseAll(p.id, 0, m.Fences)
	switch {
	case m.Floor <= c.marks.floor:
		return
	case c.marks.empty, c.marks.floor == 0 && m.Floor > 1:
		// All state of this replica was written by itself, or by other newcomers.
		c.raiseHorizon(m.Horizon, m.MinGeneration)
		c.marks.maxForgottenStamp, c.marks.inherited = max(c.marks.maxForgottenStamp, m.MaxForgottenStamp), max(c.marks.inherited, m.MaxForgottenStamp)
		if c.marks.fresh {
			c.establish()
		}
		c.marks.empty, c.marks.floor, c.marks.lastDrops = false, m.Floor, m.Drops
	default:
		if m.Floor != c.marks.floor+1 {
			// Impossible while all members are in the view; see above.
			c.stats.FloorGaps++
		}
		c.marks.floor, c.marks.minGeneration, c.marks.maxForgottenStamp = m.Floor-1, max(c.marks.minGeneration, m.MinGeneration), max(c.marks.maxForgottenStamp, m.MaxForgottenStamp)
		c.applyCommit(now, m.Drops)
	}
	c.antiEntropy.sendStatus(p, false)
	for _, p := range c.members.peers {
		if p.next > p.acked+1 {
			// It refuses the entries in flight.
			c.stream.rewind(p)
			c.stream.flush(now, p)
		}
	}
}

// idleLimit returns the idle time after which a key is deleted, 0 for never. The longest
// prefix decides.
func (c *Core) idleLimit(key string) (after time.Duration) {
	longest := -1
	for _, e := range c.cfg.Expire {
		if len(e.Prefix) > longest && strings.HasPrefix(key, e.Prefix) {
			longest, after = len(e.Prefix), e.After
		}
	}
	return after
}

// deleteIdle deletes idle keys, looking at a part of the store.
func (c *Core) deleteIdle(now clock.Instant) {
	if len(c.cfg.Expire) == 0 || !c.members.leads() {
		return
	}
	e := &Entry{}
	looked := 0
	for range bucketCount {
		b := &c.store.buckets[c.idleCursor]
		c.idleCursor = (c.idleCursor + 1) % bucketCount
		looked += len(b.items)
		for _, it := range b.sorted() {
			if it.changedAt == 0 {
				it.changedAt = now // restored
			}
			after := c.idleLimit(it.key)
			if it.value == nil || after <= 0 || now.Sub(it.changedAt) < after {
				continue
			}
			c.store.absorb(it, it.gen+1, 0, nil)
			c.values.noteChange(it, nil)
			c.stats.Expired++
			c.trace(TraceEvent{Kind: TraceExpired, Key: it.key})
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen})
		}
		if looked >= dropScanMax || len(e.Items) >= dropsMax {
			break
		}
	}
	if len(e.Items) > 0 {
		c.stream.appendEntry(now, e)
	}
}
