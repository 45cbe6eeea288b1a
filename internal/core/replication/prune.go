package replication

import (
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
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
}

func (d *Drop) encodedSize() int { return len(d.Key) + 40 + 8*len(d.Writers) }

// Bounds of one round, and of one look at the store.
const (
	dropsMax     = 512
	dropScanMax  = 4096
	pruneTireMax = 4
)

// pruning is the leader's round in flight. The zero pruning is none.
//
// Invariant: agreed has an element for each of drops, then for each of deletions.
type pruning struct {
	attempt   uint64
	drops     []Drop
	deletions []uint64
	agreed    []bool
	// sweep is the sweep that it begins, 0 if it begins none, or a peer does not agree.
	sweep uint64
	// answered has the peers whose Prepared has arrived.
	answered map[gossip.NodeID]bool
}

// pruner leads the rounds that forget state, and answers and commits those of another
// leader.
type pruner struct {
	*env
	members     *members
	fences      *fences
	transfers   *transfers
	barrier     *barrier
	values      *values
	store       *store
	stream      *stream
	table       *table
	antiEntropy *antiEntropy
	retention   *retention

	// pruneRound is the leader's round, idleRounds how many in a row forgot nothing.
	pruneRound pruning
	idleRounds int
	pruneAt    clock.Instant
	// cursor and idleCursor are the buckets at which the next scans begin.
	cursor, idleCursor int
}

// planPrune sets the time of the next round if a bucket is suspect, or a sweep comes.
func (pr *pruner) planPrune(now clock.Instant) {
	soon, sweep := now.Add(pr.pruneWait()), pr.retention.nextSweep()
	switch {
	case !pr.members.isLeader():
		pr.pruneAt = clock.Never
	case pr.store.suspects > 0 || len(pr.cfg.Expire) > 0 || !now.Before(sweep):
		pr.pruneAt = clock.Min(pr.pruneAt, soon)
	default:
		pr.pruneAt = sweep
	}
}

func (pr *pruner) pruneWait() time.Duration {
	return pr.cfg.PruneEvery << min(pr.idleRounds, pruneTireMax)
}

// startRound makes the leader scan the store and begin a round.
func (pr *pruner) startRound(now clock.Instant) {
	pr.pruneAt = clock.Never
	if pr.pruneRound.attempt != 0 {
		pr.pruneRound = pruning{}
		pr.idleRounds++
	}
	pr.deleteIdle(now)
	if !pr.checkPeerFloors(now) {
		return
	}
	s := pruning{drops: pr.droppable(now), answered: map[gossip.NodeID]bool{}}
	if !now.Before(pr.retention.nextSweep()) && pr.retention.maySweep() {
		s.sweep, s.deletions = pr.barrier.sweep+1, pr.retention.newDeletions()
		pr.retention.promised = s.sweep
	}
	if len(s.drops) == 0 && s.sweep == 0 {
		return
	}
	pr.ids++
	s.attempt, s.agreed = pr.ids, slices.Repeat([]bool{true}, len(s.drops)+len(s.deletions))
	pr.pruneRound = s
	m := &Prepare{Epoch: pr.members.epoch, Floor: pr.barrier.floor, Sweep: pr.barrier.sweep, Attempt: pr.ids, Drops: s.drops, Sweeps: s.sweep > 0, Deletions: s.deletions}
	for _, p := range pr.members.peers {
		pr.transfers.sendMessage(p, m)
	}
	pr.decideRound(now)
}

// checkPeerFloors reports whether all peers can be reached and stand at the own floor. It
// sends the last commit to those that are behind.
func (pr *pruner) checkPeerFloors(now clock.Instant) bool {
	all := true
	for _, p := range pr.members.peers {
		if p.floor != pr.barrier.floor {
			all = false
			pr.transfers.sendMessage(p, pr.antiEntropy.lastCommit())
		}
		all = all && !p.down
	}
	if !all {
		pr.idleRounds++
	}
	return all
}

// droppable returns drops that this replica could apply, from some of its buckets.
func (pr *pruner) droppable(now clock.Instant) (out []Drop) {
	looked, size := 0, 0
	for range bucketCount {
		b := &pr.store.buckets[pr.cursor]
		if b.suspect {
			looked += len(b.items)
			before := len(out)
			for _, it := range b.sortedItems() {
				pr.foldShares(now, it)
				if d, ok := pr.candidateFrom(it); ok {
					out = append(out, d)
					size += d.encodedSize()
				}
			}
			if len(out) == before {
				b.suspect = false
				pr.store.suspects--
			}
		}
		pr.cursor = (pr.cursor + 1) % bucketCount
		if looked >= dropScanMax || len(out) >= dropsMax || size >= pr.cfg.Limits.FrameBytes/2 {
			break
		}
	}
	return out[:min(len(out), dropsMax)]
}

func (pr *pruner) candidateFrom(it *item) (d Drop, ok bool) {
	if pr.kept(it.key) {
		return d, false // sweeps forget its deletions
	}
	if it.gen > 0 {
		return Drop{Key: it.key, Gen: it.gen}, true
	}
	p, ok := it.value.(prunableValue)
	if !ok || it.kind() == crdt.KindVersionVector {
		// The entries of a vector are its content, also those of dead writers: without
		// one, comparisons with the vector would have other results. So they stay.
		return d, false
	}
	if d, ok := pr.gatherable(it); ok {
		return d, true
	}
	g := p.Garbage(pr.members.isDead)
	return Drop{Key: it.key, Era: it.era, Kind: it.kind(), Garbage: g}, g.Items > 0
}

// foldShares moves the shares of dead writers in a counter to this replica's share, as an
// ordinary change.
func (pr *pruner) foldShares(now clock.Instant, it *item) {
	f, ok := it.value.(counter)
	if !ok || pr.kept(it.key) {
		return
	}
	e := &Entry{}
	for _, w := range f.Writers() {
		if !pr.members.isDead(w) {
			continue
		}
		if d := f.Fold(w, crdt.NodeID(pr.cfg.Self)); d != nil {
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Bytes: d.Append(nil)})
		}
	}
	if len(e.Items) > 0 {
		pr.store.updateSums(it)
		pr.stream.appendEntry(now, e)
	}
}

func (pr *pruner) onPrepare(p *peer, m *Prepare) {
	if m.Epoch != pr.members.epoch || len(pr.members.voters) == 0 || pr.members.voters[0] != p.id || !pr.antiEntropy.checkPruneFloor(p, m.Floor, m.Sweep) {
		return
	}
	pr.barrier.empty = false
	out := &Prepared{Epoch: pr.members.epoch, Floor: pr.barrier.floor, Attempt: m.Attempt, Agreed: make([]bool, len(m.Drops)), Fences: pr.fences.sortedFences()}
	for i := range m.Drops {
		out.Agreed[i] = pr.agreesTo(&m.Drops[i])
	}
	if out.MaySweep = m.Sweeps && pr.retention.maySweep(); out.MaySweep {
		pr.retention.promised = m.Sweep + 1
	}
	out.Agreed = append(out.Agreed, pr.retention.heldOf(m.Deletions)...)
	pr.transfers.sendStored(p, out, pr.cfg.Keep != nil)
}

// lastCommit returns the commit that led to the floor.
func (ae *antiEntropy) lastCommit() *Commit {
	m := ae.barrier.last
	m.Floor, m.Sweep, m.MinGeneration, m.MaxForgottenStamp = ae.barrier.floor, ae.barrier.sweep, ae.barrier.minGeneration, ae.barrier.maxForgottenStamp
	m.Fences = ae.fences.sortedFences()
	return &m
}

// agreesTo reports whether this replica holds the state that d forgets.
func (pr *pruner) agreesTo(d *Drop) bool {
	it := pr.store.itemOf(d.Key)
	switch {
	case it == nil || it.kept:
		return false
	case d.Kind == 0:
		return it.gen >= d.Gen
	case it.gen != 0 || it.kind() != d.Kind || it.era != d.Era:
		return false
	}
	if len(d.Writers) > 0 {
		return pr.agreesToGather(d, it.value)
	}
	p, ok := it.value.(prunableValue)
	return ok && p.Garbage(pr.members.isDead) == d.Garbage
}

func (pr *pruner) onPrepared(now clock.Instant, p *peer, m *Prepared) {
	s := &pr.pruneRound
	if m.Attempt != s.attempt || s.attempt == 0 || m.Epoch != pr.members.epoch || m.Floor != pr.barrier.floor || len(m.Agreed) != len(s.agreed) {
		return
	}
	pr.fences.raiseAll(p.id, m.Epoch, m.Fences)
	s.answered[p.id] = true
	for i, ok := range m.Agreed {
		s.agreed[i] = s.agreed[i] && ok
	}
	if !m.MaySweep {
		s.sweep = 0
	}
	pr.decideRound(now)
}

// decideRound ends the round when all have answered.
func (pr *pruner) decideRound(now clock.Instant) {
	s := pr.pruneRound
	if len(s.answered) < len(pr.members.peers) {
		return
	}
	if assert.Enabled {
		pr.assertAllAnswered(&s)
	}
	pr.pruneRound = pruning{}
	m := &Commit{Sweep: s.sweep, Sweeps: s.sweep == pr.barrier.sweep+1}
	for i := range s.drops {
		if s.agreed[i] {
			m.Drops = append(m.Drops, s.drops[i])
		}
	}
	if m.Sweeps {
		m.Forgotten = pr.retention.oldDeletions(s.sweep)
		for i, print := range s.deletions {
			if s.agreed[len(s.drops)+i] {
				m.Agreed = append(m.Agreed, print)
			}
		}
	}
	if len(m.Drops) == 0 && !m.Sweeps {
		pr.idleRounds++
		return
	}
	pr.idleRounds = 0
	pr.applyCommit(m)
	for _, p := range pr.members.peers {
		pr.transfers.sendMessage(p, pr.antiEntropy.lastCommit())
	}
}

// checkPruneFloor reports whether this replica may accept state of a peer at floor, and
// makes the side that is behind catch up.
func (ae *antiEntropy) checkPruneFloor(p *peer, floor, sweep uint64) bool {
	p.floor = max(p.floor, floor)
	switch {
	case ae.barrier.fresh, floor == ae.barrier.floor && sweep != ae.barrier.sweep:
		// The Status shows which side stands at the lower sweep.
		ae.sendStatus(p, sweep > ae.barrier.sweep || ae.barrier.fresh)
	case floor == ae.barrier.floor:
		return true
	case floor < ae.barrier.floor && p.floor >= ae.barrier.floor:
		// A late frame of a peer that has reached the floor meanwhile.
	case floor < ae.barrier.floor:
		ae.transfers.sendMessage(p, ae.lastCommit())
	default:
		ae.sendStatus(p, false)
	}
	ae.stats.Unlevel++
	return false
}

func (pr *pruner) onCommit(now clock.Instant, p *peer, m *Commit) {
	p.floor = max(p.floor, m.Floor)
	pr.fences.raiseAll(p.id, 0, m.Fences)
	switch {
	case m.Floor <= pr.barrier.floor:
		return
	case pr.barrier.empty, pr.barrier.floor == 0 && m.Floor > 1:
		// All state of this replica was written by itself, or by other newcomers.
		pr.retention.raiseSweep(m.Sweep, m.MinGeneration)
		pr.barrier.maxForgottenStamp, pr.barrier.inherited = max(pr.barrier.maxForgottenStamp, m.MaxForgottenStamp), max(pr.barrier.inherited, m.MaxForgottenStamp)
		if pr.barrier.fresh {
			pr.retention.endFresh()
		}
		pr.barrier.empty, pr.barrier.floor, pr.barrier.last = false, m.Floor, *m
	default:
		if m.Floor != pr.barrier.floor+1 {
			// Impossible while all members are in the view; see above.
			pr.stats.FloorGaps++
		}
		pr.barrier.floor, pr.barrier.minGeneration, pr.barrier.maxForgottenStamp = m.Floor-1, max(pr.barrier.minGeneration, m.MinGeneration), max(pr.barrier.maxForgottenStamp, m.MaxForgottenStamp)
		pr.applyCommit(m)
	}
	pr.antiEntropy.sendStatus(p, false)
	for _, p := range pr.members.peers {
		if p.next > p.acked+1 {
			// It refuses the entries in flight.
			pr.stream.rewindPeer(p)
			pr.stream.flushPeer(now, p)
		}
	}
}

// idleLimit returns the idle time after which a key is deleted, 0 for never. The longest
// prefix decides.
func (pr *pruner) idleLimit(key string) (after time.Duration) {
	longest := -1
	for _, e := range pr.cfg.Expire {
		if len(e.Prefix) > longest && strings.HasPrefix(key, e.Prefix) {
			longest, after = len(e.Prefix), e.After
		}
	}
	return after
}

// deleteIdle deletes idle keys, looking at a part of the store.
func (pr *pruner) deleteIdle(now clock.Instant) {
	if len(pr.cfg.Expire) == 0 || !pr.members.isLeader() {
		return
	}
	e := &Entry{}
	looked := 0
	for range bucketCount {
		b := &pr.store.buckets[pr.idleCursor]
		pr.idleCursor = (pr.idleCursor + 1) % bucketCount
		looked += len(b.items)
		for _, it := range b.sortedItems() {
			if it.changedAt == 0 {
				it.changedAt = now // restored
			}
			after := pr.idleLimit(it.key)
			if it.value == nil || after <= 0 || now.Sub(it.changedAt) < after {
				continue
			}
			pr.store.absorb(it, deletedFrom(it.gen), 0, nil)
			pr.values.reportChange(it)
			pr.stats.Expired++
			pr.traceEvent(TraceEvent{Kind: TraceExpired, Key: it.key})
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen})
		}
		if looked >= dropScanMax || len(e.Items) >= dropsMax {
			break
		}
	}
	if len(e.Items) > 0 {
		pr.stream.appendEntry(now, e)
	}
}

// assertAllAnswered asserts that all replicas have agreed to what they forget.
func (pr *pruner) assertAllAnswered(s *pruning) {
	if len(s.answered) < len(pr.members.peers) {
		assert.Broken("S5", "a round of forgetting ends after %d of %d answers", len(s.answered), len(pr.members.peers))
	}
}
