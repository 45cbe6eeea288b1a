package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
)

// applyCommit forgets state that all replicas hold, and raises the floor.
func (pr *pruner) applyCommit(m *Commit) {
	byKey := make(map[string]*Drop, len(m.Drops))
	for i := range m.Drops {
		byKey[m.Drops[i].Key] = &m.Drops[i]
	}
	pr.rewriteLog(byKey)
	for i := range m.Drops {
		pr.applyDrop(&m.Drops[i])
	}
	pr.barrier.floor++
	pr.barrier.empty = false
	pr.barrier.last = *m
	pr.stream.shared = nil
	if m.Sweeps {
		pr.retention.sweep(m)
	}
	pr.stats.Rounds++
	pr.traceEvent(TraceEvent{Kind: TracePruned, Bytes: len(m.Drops) + len(m.Forgotten)})
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
		if it.gen == 0 && it.value == nil {
			pr.store.removeItem(it)
			return
		}
		pr.store.updateSums(it)
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
		case d.Kind != 0:
			in = pr.replaceOvertaken(in, d)
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
