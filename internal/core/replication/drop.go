package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
)

// applyCommit forgets state that all replicas hold, and raises the floor.
func (pr *pruner) applyCommit(now clock.Instant, drops []Drop) {
	byKey := make(map[string]*Drop, len(drops))
	for i := range drops {
		byKey[drops[i].Key] = &drops[i]
	}
	pr.rewriteLog(byKey)
	for i := range drops {
		pr.applyDrop(&drops[i])
	}
	for i := range drops {
		d := &drops[i]
		pr.barrier.horizon = max(pr.barrier.horizon, d.Since)
		if d.Since > 0 && d.Kind == 0 {
			pr.barrier.minGeneration = max(pr.barrier.minGeneration, d.Gen)
		}
	}
	pr.barrier.floor++
	pr.barrier.empty = false
	pr.barrier.lastDrops = drops
	pr.stream.shared = nil
	pr.stats.Rounds++
	pr.traceEvent(TraceEvent{Kind: TracePruned, Bytes: len(drops)})
	for _, r := range pr.table.open { // order-free: clears only
		r.repairs = nil
	}
}

// applyDrop applies one line of a commit. Values that have changed since they were
// agreed upon keep their garbage until a later round.
func (pr *pruner) applyDrop(d *Drop) {
	it := pr.store.itemOf(d.Key)
	switch {
	case it == nil:
	case d.Since > 0 && d.Kind != 0:
		pr.dropInside(d, it)
	case d.Since > 0:
		pr.dropEnded(d, it)
	case len(d.Writers) > 0:
		it.copyIfPinned()
		pr.gatherShares(d, it)
	case d.Kind != 0:
		it.copyIfPinned()
		p, ok := it.value.(prunableValue)
		if ok && it.gen == 0 && it.era == d.Era && it.kind() == d.Kind && p.Prune(d.Garbage, pr.members.isDead) {
			pr.store.updateSums(it)
			pr.stats.Pruned += uint64(d.Garbage.Items)
			if m, ok := it.value.(*entryMap); ok {
				pr.barrier.maxForgottenStamp = max(pr.barrier.maxForgottenStamp, m.Forgotten().Time)
			}
		}
	case it.gen < d.Gen:
		// Written here before this replica had a deletion that all peers had applied.
		pr.values.removeItem(it)
	default:
		it.gen -= d.Gen
		pr.stats.Pruned++
		pr.deletions.forget(it.key) // by a leader whose Keep does not select the key
		if it.gen == 0 && it.value == nil {
			pr.store.removeItem(it)
			return
		}
		pr.store.updateSums(it)
		pr.deletions.noteDeletions(it, it.value)
	}
}

// dropEnded forgets a durable key. A key that was created again stays as it is: old files
// hold its generations.
func (pr *pruner) dropEnded(d *Drop, it *item) {
	if it.gen > d.Gen || it.gen == d.Gen && it.value != nil {
		return
	}
	pr.values.removeItem(it)
	pr.stats.Pruned++
	pr.out.Forgotten = append(pr.out.Forgotten, it.key)
}

// dropInside forgets deletions of entries of a durable map. A replica that has agreed
// holds them, or newer states, which stay.
func (pr *pruner) dropInside(d *Drop, it *item) {
	it.copyIfPinned()
	m, ok := it.value.(*entryMap)
	if !ok || it.gen != d.Gen || it.era != d.Era {
		return
	}
	dropped := m.DropTombstones(func(entry string, s crdt.Stamp) bool { return d.stampOf(entry) == s })
	for _, e := range d.Deletions {
		pr.barrier.maxForgottenStamp = max(pr.barrier.maxForgottenStamp, e.Stamp.Time)
		if _, stays := m.Stamp(e.Entry); !stays {
			pr.deletions.forgetInside(d.Key, e.Entry)
		}
	}
	if dropped > 0 {
		pr.store.updateSums(it)
		pr.stats.Pruned += uint64(dropped)
		pr.out.Forgotten = append(pr.out.Forgotten, it.key)
	}
}

// rewriteLog rewrites the own log for the new floor: entries from before a tombstone must
// not be retransmitted without it.
func (pr *pruner) rewriteLog(byKey map[string]*Drop) {
	done := map[*Entry]*Entry{}
	rewrite := func(e *Entry) *Entry {
		if got := done[e]; got != nil {
			return got
		}
		done[e] = pr.rewriteEntry(e, byKey)
		return done[e]
	}
	for i, e := range pr.stream.log.entries {
		n := rewrite(e)
		pr.stream.log.bytes += n.encodedSize() - e.encodedSize()
		pr.stream.log.entries[i] = n
	}
	for _, r := range pr.table.writes {
		if !r.done {
			r.entry = rewrite(r.entry)
		}
	}
}

// rewriteEntry returns e as it must be sent after the commit: e itself if the commit names
// none of its keys.
func (pr *pruner) rewriteEntry(e *Entry, byKey map[string]*Drop) *Entry {
	concerned := false
	for i := range e.Items {
		concerned = concerned || byKey[e.Items[i].Key] != nil
	}
	if !concerned {
		return e
	}
	out := &Entry{Fence: e.Fence}
	for _, in := range e.Items {
		d := byKey[in.Key]
		switch {
		case d == nil:
		case d.Since > 0 && d.Kind != 0:
			in = without(in, d)
		case d.Kind != 0:
			in = pr.replaceOvertaken(in, d)
		case d.Since > 0:
			if in.Gen < d.Gen || in.Gen == d.Gen && in.Kind == 0 {
				continue
			}
		case in.Gen < d.Gen:
			// All have the deletion.
			continue
		default:
			if in.Gen -= d.Gen; in.Gen == 0 && in.Kind == 0 {
				continue
			}
		}
		out.Items = append(out.Items, in)
	}
	return out
}

// replaceOvertaken replaces, in a delta of a map, entries by the newer tombstones that stand
// here.
func (pr *pruner) replaceOvertaken(in Item, d *Drop) Item {
	here, ok := pr.store.value(in.Key).(*entryMap)
	if !ok || in.Gen != 0 || in.Kind != d.Kind {
		return in
	}
	in = liftedItem(in, pr.store.itemOf(in.Key).era)
	v, err := crdt.Decode(in.Kind, in.Bytes)
	if err != nil {
		return in
	}
	delta, changed := v.(*entryMap), false
	for k := range v.Clone().(*entryMap).All() {
		if _, live := here.Get(k); live {
			continue
		}
		stands, _ := here.Stamp(k)
		changed = delta.Delete(k, stands) != nil || changed
	}
	if changed {
		in.Bytes = delta.Append(nil)
	}
	return in
}

// without removes the entries that all members have forgotten, and older ones, from a
// delta of a durable map.
func without(in Item, d *Drop) Item {
	if in.Kind != d.Kind || in.Gen != d.Gen {
		return in
	}
	in = liftedItem(in, d.Era)
	v, err := crdt.Decode(in.Kind, in.Bytes)
	if err != nil {
		return in
	}
	end := func(entry string) crdt.Stamp { return lift(d.stampOf(entry), in.Era-d.Era) }
	delta, changed := v.(*entryMap), false
	for _, e := range d.Deletions {
		stamp, ok := delta.Stamp(e.Entry)
		if ok && stamp.Compare(end(e.Entry)) <= 0 {
			changed = true
			// As a deletion, which is then forgotten.
			delta.Delete(e.Entry, end(e.Entry))
		}
	}
	if changed {
		delta.DropTombstones(func(entry string, s crdt.Stamp) bool { return end(entry) == s })
		in.Bytes = delta.Append(nil)
	}
	return in
}

// Rounds of pruning also merge the shares of dead writers in maps of counters (prune.go;
// crdt/garbage.go explains why). Two things differ. The drop names the writers, since a
// replica may be in a later view, with more of them dead, when the commit arrives. A
// replica that has agreed carries the drop out even if it has changed the value since.

// gatherWritersMax bounds the writers of one line of a round. More come in later
// rounds.
const gatherWritersMax = 64

// gatherable returns the shares of dead writers that could be merged in a value.
func (pr *pruner) gatherable(it *item) (d Drop, ok bool) {
	g, ok := it.value.(gatherableValue)
	if !ok {
		return d, false
	}
	d = Drop{Key: it.key, Era: it.era, Kind: it.kind(), Writers: g.Loose(pr.members.isDead, gatherWritersMax)}
	d.Garbage = g.Shares(d.writer)
	return d, len(d.Writers) > 0
}

func (d *Drop) writer(n crdt.NodeID) bool { return slices.Contains(d.Writers, n) }

// agreesToGather reports whether this replica has the same shares of the same dead
// writers.
func (pr *pruner) agreesToGather(d *Drop, v crdt.Value) bool {
	g, ok := v.(gatherableValue)
	alive := slices.ContainsFunc(d.Writers, func(n crdt.NodeID) bool { return !pr.members.isDead(n) })
	return ok && !alive && g.Shares(d.writer) == d.Garbage
}

// gatherShares carries out a line of a commit. The content stays what it is.
func (pr *pruner) gatherShares(d *Drop, it *item) {
	g, ok := it.value.(gatherableValue)
	if !ok || it.gen != 0 || it.kind() != d.Kind {
		return // deleted since; the remaining lines of the key will be too
	}
	if g.Gather(d.writer) {
		pr.store.updateSums(it)
		pr.stats.Pruned += uint64(d.Garbage.Items)
	}
}

// planExpiry sets when the leader next looks for expired deletions.
func (pr *pruner) planExpiry() {
	switch {
	case !pr.members.isLeader() || pr.deletions.n == 0:
		pr.expiryAt = clock.Never
	case pr.expiryAt == clock.Never:
		every := pr.cfg.evenMargin
		if pr.cfg.Retain > 0 {
			every = min(every, pr.cfg.Retain/32)
		}
		pr.expiryAt = pr.now.Add(max(every, pr.cfg.PruneEvery))
	}
}

// markExpired marks the buckets of expired deletions as suspect.
func (pr *pruner) markExpired() {
	pr.expiryAt = clock.Never
	for key, e := range pr.deletions.of { // order-free: marks only
		if e.whole.print != 0 && pr.deletions.expired(e.whole) || e.whole.print == 0 && pr.deletions.expired(deletion{lived: e.oldest}) {
			pr.store.suspect(&pr.store.buckets[bucketOf(pr.store.itemOf(key).hash)])
		}
	}
}
