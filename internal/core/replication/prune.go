package replication

import (
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Forgetting
//
// Tombstones of keys and of map entries, the context of removed incarnations and
// their shares in counters may be forgotten when every replica has them and
// nothing older can arrive any more. Both are made sure of by rounds, each of
// which raises the *floor* of all replicas by one:
//
//	leader   Prepare   list of what it could forget, at floor n, in view e
//	others   Prepared  which of that they have too; only in view e and at floor n
//	leader   when all members of view e (joining ones too) have answered:
//	         forget what all have, floor n+1
//	         Commit    that list
//	others   the same
//
// The leader is the most senior voter of the role. What a replica has, it never
// loses before the commit (a tombstone only gives way to something newer), so
// answers need not be given at the same time. No clock decides anything.
//
// The barrier. Whatever carries state carries its sender's floor, and is refused
// by a replica at another floor; the one behind gets the Commit, then sends again.
// A frame from before a commit therefore never arrives after it, however long it
// was under way or how often it comes. Removed incarnations are refused by their
// absence from the view. The only older thing that is left is the own log, which
// is sent again under the new floor: a commit rewrites it (drop.go).
//
// A key's generation counts its deletions. To forget a key's tombstone is to
// subtract the agreed generation everywhere, so a key that was created again
// before the commit, and one that is created after it, stand in one generation.
//
// The next round begins only when all members of the view stand at the same floor.
// Hence no member is ever behind by more than one commit, and all keep the
// newest list for those who are. A newcomer that has not taken anything yet, but for
// what other newcomers wrote themselves, takes the floor with the list, and has
// nothing to forget.
//
// Terms. A replaced writer's orders are older than what its successor deleted, and
// until now the tombstones kept them down. So answers and commits carry the fences:
// who stands at the new floor knows every term that a member knew before it, and
// lets nothing older be written.
//
// Why two leaders do no harm: both need an answer of every member of their view,
// given in that view and at that floor; who has answered in the later view refuses
// the leader of the former one, and who has committed answers nobody at the old
// floor.
//
// Rejected: forgetting after a time (Akka: values "will not be correct" after a
// longer pause); floors per peer and stream in place of refusing frames, which
// costs a phase and guards streams only; refusing writers until all have committed.

// Drop is something to forget under a key.
type Drop struct {
	Key string
	// Kind 0 ends Gen generations of the key. Else it is the value's data type, and
	// Garbage what the value, in generation 0, can do without. With Writers, Garbage is
	// their shares in the value's counters, which are put together.
	// Stamps in it are of Era.
	Kind    crdt.Kind
	Gen     uint64
	Era     uint8
	Garbage crdt.Garbage
	Writers []crdt.NodeID
	// Since, if not 0, says that it is the end of a durable key, or with a Kind, of those
	// entries of its map, in generation Gen, and when the leader saw the last (retain.go).
	Since uint64
	Ends  []entryEnd
}

// entryEnd is the end of an entry of a map.
type entryEnd struct {
	Entry string
	Stamp crdt.Stamp
}

// end returns the stamp of an entry's end, the zero Stamp if it is not one of Ends.
func (d *Drop) end(entry string) (s crdt.Stamp) {
	// Ends are sorted.
	i, ok := slices.BinarySearchFunc(d.Ends, entry, func(e entryEnd, entry string) int { return strings.Compare(e.Entry, entry) })
	if ok {
		s = d.Ends[i].Stamp
	}
	return s
}

func (d *Drop) size() int {
	n := len(d.Key) + 40 + 8*len(d.Writers)
	for i := range d.Ends {
		n += len(d.Ends[i].Entry) + entryEndBytes
	}
	return n
}

// Bounds of one round, and of one look at the store.
const (
	dropsMax     = 512
	dropScanMax  = 4096
	dropEndsMax  = 1024 // in one line
	pruneTireMax = 4
)

// entryEndBytes is what an entryEnd takes beside the name.
const entryEndBytes = 24

// round is what the leader waits for. The zero pruning is none.
type pruning struct {
	attempt uint64
	drops   []Drop
	agreed  []bool
	heard   map[gossip.NodeID]bool
}

// forgetting is the part of the core that forgets.
//
// Invariant: virgin only while nothing was taken from others; floor is 0 or list is
// the list of the commit that led to it.
type forgetting struct {
	floor  uint64
	list   []Drop
	virgin bool
	// ceiling is the newest time of a map entry's end that was forgotten; inherited is
	// what it was when this replica came (Core.Inherited).
	ceiling, inherited uint64
	// filed is the ceiling that the own file had.
	filed uint64
	// cycle is the leader's round, tired how many came to nothing in a row.
	cycle   pruning
	tired   int
	pruneAt clock.Instant
	// cursor is the bucket to look at first, for each kind of look.
	cursor, idleCursor int
	// blunder is only set by tests.
	blunder blunder
}

func (c *Core) leads() bool { return len(c.voters) > 0 && c.voters[0] == c.cfg.Self }

// dead reports whether an incarnation is gone for good. One that is yet to join
// looks dead as well; in no view before its own all members agree on what it wrote.
func (c *Core) dead(id crdt.NodeID) bool { return !c.present(gossip.NodeID(id)) }

// planPrune sets the time of the next look if there is anything to look at.
func (c *Core) planPrune(now clock.Instant) {
	if !c.leads() || c.store.suspects == 0 && len(c.cfg.Expire) == 0 {
		c.pruneAt = clock.Never
	} else if c.pruneAt == clock.Never {
		c.pruneAt = now.Add(c.pruneWait())
	}
}

func (c *Core) pruneWait() time.Duration { return c.cfg.PruneEvery << min(c.tired, pruneTireMax) }

// prune is the leader's look at the store and the beginning of a round.
func (c *Core) prune(now clock.Instant) {
	c.pruneAt = clock.Never
	if c.cycle.attempt != 0 {
		c.cycle = pruning{}
		c.tired++
	}
	c.expire(now)
	if !c.level(now) {
		return
	}
	drops := c.candidates(now)
	if len(drops) == 0 {
		return
	}
	c.ids++
	c.cycle = pruning{attempt: c.ids, drops: drops, agreed: slices.Repeat([]bool{true}, len(drops)), heard: map[gossip.NodeID]bool{}}
	m := &Prepare{Epoch: c.epoch, Floor: c.floor, Horizon: c.horizon, Attempt: c.ids, Drops: drops}
	for _, p := range c.peers {
		c.send(p, m)
	}
	c.decide(now)
}

// level reports whether all peers can be reached and stand at the own floor, and
// tells those that are behind.
func (c *Core) level(now clock.Instant) bool {
	all := true
	for _, p := range c.peers {
		if p.floor != c.floor {
			all = false
			c.send(p, c.newest())
		}
		all = all && !p.down
	}
	if !all {
		c.tired++
	}
	return all
}

// candidates returns what this replica could forget, in some of its buckets.
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
		return c.ripeUnder(it)
	}
	if it.gen > 0 {
		return Drop{Key: it.key, Gen: it.gen}, true
	}
	p, ok := it.value.(crdt.Pruner)
	if !ok || it.kind() == crdt.KindVersionVector {
		// The entries of a vector are its content, whoever wrote them: without one, what
		// was compared with the vector before comes out otherwise. So they stay.
		return d, false
	}
	if d, ok := c.loose(it); ok {
		return d, true
	}
	g := p.Garbage(c.dead)
	return Drop{Key: it.key, Era: it.era, Kind: it.kind(), Garbage: g}, g.Items > 0
}

func (c *Core) kept(key string) bool {
	return c.cfg.Keep != nil && c.cfg.Keep(key) && c.blunder != blunderForgetKept
}

// counter is a value with shares of writers.
type counter interface {
	crdt.Folder
	Writers() []crdt.NodeID
}

// foldShares moves the shares of dead writers in a counter to this one, as a
// change like any other.
func (c *Core) foldShares(now clock.Instant, it *item) {
	f, ok := it.value.(counter)
	if !ok || c.kept(it.key) {
		return
	}
	e := &Entry{}
	for _, w := range f.Writers() {
		if !c.dead(w) {
			continue
		}
		if d := f.Fold(w, crdt.NodeID(c.cfg.Self)); d != nil {
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Bytes: d.Append(nil)})
		}
	}
	if len(e.Items) > 0 {
		c.store.settle(it)
		c.append(now, e)
	}
}

func (c *Core) onPrepare(p *peer, m *Prepare) {
	if m.Epoch != c.epoch || len(c.voters) == 0 || c.voters[0] != p.id || !c.levelWith(p, m.Floor, m.Horizon) {
		return
	}
	c.virgin = false
	out := &Prepared{Epoch: c.epoch, Floor: c.floor, Attempt: m.Attempt, Agreed: make([]bool, len(m.Drops)), Fences: c.fences.all()}
	for i := range m.Drops {
		out.Agreed[i] = c.agrees(&m.Drops[i])
	}
	c.sendStored(p, out, c.cfg.Keep != nil)
}

// newest returns the commit that led to the floor.
func (c *Core) newest() *Commit {
	m := &Commit{Base: c.base, Ceiling: c.ceiling, Floor: c.floor, Horizon: c.horizon, Drops: c.list, Fences: c.fences.all()}
	if c.blunder == blunderNoTerms {
		m.Fences = nil
	}
	return m
}

// agrees reports whether this replica has what d wants to forget.
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
	return ok && p.Garbage(c.dead) == d.Garbage
}

// agreesInside reports whether a durable map has all ends of d, or something newer in
// their place.
func agreesInside(d *Drop, it *item) bool {
	m, ok := it.value.(*entryMap)
	if !ok || it.gen != d.Gen || it.era != d.Era {
		return false
	}
	return !slices.ContainsFunc(d.Ends, func(e entryEnd) bool {
		s, ok := m.Stamp(e.Entry)
		return !ok || s.Compare(e.Stamp) < 0
	})
}

func (c *Core) onPrepared(now clock.Instant, p *peer, m *Prepared) {
	s := &c.cycle
	if m.Attempt != s.attempt || s.attempt == 0 || m.Epoch != c.epoch || m.Floor != c.floor || len(m.Agreed) != len(s.drops) {
		return
	}
	c.takeFences(p.id, m.Epoch, m.Fences)
	s.heard[p.id] = true
	for i, ok := range m.Agreed {
		s.agreed[i] = s.agreed[i] && ok
	}
	c.decide(now)
}

// decide ends the round when all have answered.
func (c *Core) decide(now clock.Instant) {
	s := c.cycle
	if len(s.heard) < len(c.peers) && !(c.blunder == blunderHasty && 2*len(s.heard) >= len(c.peers)) {
		return
	}
	c.cycle = pruning{}
	var drops []Drop
	for i := range s.drops {
		if s.agreed[i] {
			drops = append(drops, s.drops[i])
		}
	}
	if len(drops) == 0 {
		c.tired++
		return
	}
	c.tired = 0
	c.commit(now, drops)
	for _, p := range c.peers {
		c.send(p, c.newest())
	}
}

// levelWith reports whether state of a peer that stands at floor may be taken, and
// sees to it that the side that is behind catches up.
func (c *Core) levelWith(p *peer, floor, horizon uint64) bool {
	p.floor = max(p.floor, floor)
	switch {
	case c.fresh, floor == c.floor && horizon != c.horizon:
		// The Status shows which side stands at the lower horizon.
		c.sendStatus(p, horizon > c.horizon || c.fresh)
	case floor == c.floor, c.blunder == blunderNoFloor:
		return true
	case floor < c.floor && p.floor >= c.floor:
		// A late frame of one that has come up meanwhile.
	case floor < c.floor:
		c.send(p, c.newest())
	default:
		c.sendStatus(p, false)
	}
	c.stats.Unlevel++
	return false
}

func (c *Core) onCommit(now clock.Instant, p *peer, m *Commit) {
	p.floor = max(p.floor, m.Floor)
	c.takeFences(p.id, 0, m.Fences)
	switch {
	case m.Floor <= c.floor:
		return
	case c.virgin, c.floor == 0 && m.Floor > 1:
		// All that is here was written here, or by newcomers to newcomers.
		c.raise(m.Horizon, m.Base)
		c.ceiling, c.inherited = max(c.ceiling, m.Ceiling), max(c.inherited, m.Ceiling)
		if c.fresh {
			c.establish()
		}
		c.virgin, c.floor, c.list = false, m.Floor, m.Drops
	default:
		if m.Floor != c.floor+1 {
			// Not possible while members are what the view says; see above.
			c.stats.FloorGaps++
		}
		c.floor, c.base, c.ceiling = m.Floor-1, max(c.base, m.Base), max(c.ceiling, m.Ceiling)
		c.commit(now, m.Drops)
	}
	c.sendStatus(p, false)
	for _, p := range c.peers {
		if p.next > p.acked+1 {
			// It refuses what is under way.
			c.rewind(p)
			c.flush(now, p)
		}
	}
}

// expiry returns after which idle time a key ends, 0 for never. The longest prefix
// decides.
func (c *Core) expiry(key string) (after time.Duration) {
	longest := -1
	for _, e := range c.cfg.Expire {
		if len(e.Prefix) > longest && strings.HasPrefix(key, e.Prefix) {
			longest, after = len(e.Prefix), e.After
		}
	}
	return after
}

// expire deletes idle keys, looking at a part of the store.
func (c *Core) expire(now clock.Instant) {
	if len(c.cfg.Expire) == 0 || !c.leads() {
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
			after := c.expiry(it.key)
			if it.value == nil || after <= 0 || now.Sub(it.changedAt) < after {
				continue
			}
			c.store.absorb(it, it.gen+1, 0, nil)
			c.changed(it, nil)
			c.stats.Expired++
			c.trace(TraceEvent{Kind: TraceExpired, Key: it.key})
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen})
		}
		if looked >= dropScanMax || len(e.Items) >= dropsMax {
			break
		}
	}
	if len(e.Items) > 0 {
		c.append(now, e)
	}
}
