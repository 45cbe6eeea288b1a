package replication

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
)

// commit forgets what all replicas have, and raises the floor.
func (c *Core) commit(now clock.Instant, drops []Drop) {
	byKey := make(map[string]*Drop, len(drops))
	for i := range drops {
		byKey[drops[i].Key] = &drops[i]
	}
	if c.blunder != blunderOldLog {
		c.rewriteLog(byKey)
	}
	for i := range drops {
		c.drop(&drops[i])
	}
	for i := range drops {
		d := &drops[i]
		c.horizon = max(c.horizon, d.Since)
		if d.Since > 0 && d.Kind == 0 {
			c.base = max(c.base, d.Gen)
		}
	}
	c.floor++
	c.virgin = false
	c.list = drops
	c.shared = nil
	c.stats.Rounds++
	c.trace(TraceEvent{Kind: TracePruned, Bytes: len(drops)})
	for _, r := range c.requests { // order-free: clears only
		r.repairs = nil
	}
}

// drop applies one line of a commit. Values that have changed since they were
// agreed upon keep their garbage until a later round.
func (c *Core) drop(d *Drop) {
	it := c.store.get(d.Key)
	switch {
	case it == nil:
	case d.Since > 0 && d.Kind != 0:
		c.dropInside(d, it)
	case d.Since > 0:
		c.dropEnded(d, it)
	case len(d.Writers) > 0:
		it.own()
		c.gather(d, it)
	case d.Kind != 0:
		it.own()
		p, ok := it.value.(crdt.Pruner)
		if ok && it.gen == 0 && it.era == d.Era && it.kind() == d.Kind && p.Prune(d.Garbage, c.dead) {
			c.store.settle(it)
			c.stats.Pruned += uint64(d.Garbage.Items)
			if m, ok := it.value.(*entryMap); ok {
				c.ceiling = max(c.ceiling, m.Forgotten().Time)
			}
		}
	case it.gen < d.Gen:
		// Written here without knowledge of a deletion that all others had seen.
		c.vanish(it)
	default:
		if c.blunder == blunderNoRebase && it.value != nil {
			return
		}
		it.gen -= d.Gen
		c.stats.Pruned++
		c.ends.forget(it.key) // a leader that does not know the key as durable
		if it.gen == 0 && it.value == nil {
			c.store.remove(it)
			return
		}
		c.store.settle(it)
		c.noteEnds(it, it.value)
	}
}

// vanish takes an item out as if it had never been there.
func (c *Core) vanish(it *item) {
	if it.value != nil {
		c.report(it)
	}
	c.ends.forget(it.key)
	c.store.remove(it)
}

// dropEnded forgets a durable key. One that was created again stays as it is: old files
// know its generations.
func (c *Core) dropEnded(d *Drop, it *item) {
	if it.gen > d.Gen || it.gen == d.Gen && it.value != nil {
		return
	}
	c.vanish(it)
	c.stats.Pruned++
	c.out.Forgotten = append(c.out.Forgotten, it.key)
}

// dropInside forgets ends of entries of a durable map. A replica that has agreed has them, or
// something newer, which stays.
func (c *Core) dropInside(d *Drop, it *item) {
	it.own()
	m, ok := it.value.(*entryMap)
	if !ok || it.gen != d.Gen || it.era != d.Era {
		return
	}
	dropped := m.DropTombstones(func(entry string, s crdt.Stamp) bool { return d.end(entry) == s })
	for _, e := range d.Ends {
		c.ceiling = max(c.ceiling, e.Stamp.Time)
		if _, stays := m.Stamp(e.Entry); !stays {
			c.ends.forgetInside(d.Key, e.Entry)
		}
	}
	if dropped > 0 {
		c.store.settle(it)
		c.stats.Pruned += uint64(dropped)
		c.out.Forgotten = append(c.out.Forgotten, it.key)
	}
}

// rewriteLog makes the own log fit for the new floor: what was logged before a
// tombstone must not be sent again without it.
func (c *Core) rewriteLog(byKey map[string]*Drop) {
	done := map[*Entry]*Entry{}
	rewrite := func(e *Entry) *Entry {
		if got := done[e]; got != nil {
			return got
		}
		done[e] = c.rewritten(e, byKey)
		return done[e]
	}
	for i, e := range c.log.entries {
		n := rewrite(e)
		c.log.bytes += n.size() - e.size()
		c.log.entries[i] = n
	}
	for _, r := range c.writes {
		if !r.done {
			r.entry = rewrite(r.entry)
		}
	}
}

// rewritten returns e as it must be sent after the commit: e itself if nothing in
// it is concerned.
func (c *Core) rewritten(e *Entry, byKey map[string]*Drop) *Entry {
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
			in = c.overtaken(in, d)
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

// overtaken puts, in a delta of a map, the tombstones that stand here in place of
// older entries.
func (c *Core) overtaken(in Item, d *Drop) Item {
	here, ok := c.store.value(in.Key).(*entryMap)
	if !ok || in.Gen != 0 || in.Kind != d.Kind {
		return in
	}
	in = liftedItem(in, c.store.get(in.Key).era)
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

// without takes what all have forgotten, and what is older, out of a delta of a durable
// map.
func without(in Item, d *Drop) Item {
	if in.Kind != d.Kind || in.Gen != d.Gen {
		return in
	}
	in = liftedItem(in, d.Era)
	v, err := crdt.Decode(in.Kind, in.Bytes)
	if err != nil {
		return in
	}
	end := func(entry string) crdt.Stamp { return lift(d.end(entry), in.Era-d.Era) }
	delta, changed := v.(*entryMap), false
	for _, e := range d.Ends {
		stamp, ok := delta.Stamp(e.Entry)
		if ok && stamp.Compare(end(e.Entry)) <= 0 {
			changed = true
			// As an end, which is then forgotten.
			delta.Delete(e.Entry, end(e.Entry))
		}
	}
	if changed {
		delta.DropTombstones(func(entry string, s crdt.Stamp) bool { return end(entry) == s })
		in.Bytes = delta.Append(nil)
	}
	return in
}

// The shares of dead writers in maps of counters are put together by rounds like all
// that is forgotten (prune.go; crdt/gather.go says why it must be so). What differs:
// the writers are named, for a replica may stand in a later view when it hears of the
// commit, with more of them dead; and who has agreed carries it out, whatever it has
// changed since.

// gatherWritersMax bounds the writers of one line of a round. More come in later
// rounds.
const gatherWritersMax = 64

// loose returns the shares of dead writers that could be put together in a value.
func (c *Core) loose(it *item) (d Drop, ok bool) {
	g, ok := it.value.(crdt.Gatherer)
	if !ok {
		return d, false
	}
	d = Drop{Key: it.key, Era: it.era, Kind: it.kind(), Writers: g.Loose(c.dead, gatherWritersMax)}
	d.Garbage = g.Shares(d.writer)
	return d, len(d.Writers) > 0
}

func (d *Drop) writer(n crdt.NodeID) bool { return slices.Contains(d.Writers, n) }

// agreesToGather reports whether this replica has the same shares of the same dead.
func (c *Core) agreesToGather(d *Drop, v crdt.Value) bool {
	g, ok := v.(crdt.Gatherer)
	alive := slices.ContainsFunc(d.Writers, func(n crdt.NodeID) bool { return !c.dead(n) })
	return ok && !alive && g.Shares(d.writer) == d.Garbage
}

// gather carries out a line of a commit. The content stays what it is.
func (c *Core) gather(d *Drop, it *item) {
	g, ok := it.value.(crdt.Gatherer)
	if !ok || it.gen != 0 || it.kind() != d.Kind {
		return // ended since, and all else will be too
	}
	if c.blunder == blunderGatherUnchanged && g.Shares(d.writer) != d.Garbage {
		return
	}
	if g.Gather(d.writer) {
		c.store.settle(it)
		c.stats.Pruned += uint64(d.Garbage.Items)
	}
}
