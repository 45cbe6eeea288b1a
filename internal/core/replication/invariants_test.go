package replication

import (
	"fmt"
	"slices"
)

// checkInvariants panics when one of the conditions stated at the types is
// broken.
func (c *Core) checkInvariants() {
	var root uint64
	keys, bytes, suspects, tombs := 0, 0, 0, 0
	for i := range c.store.buckets {
		b := &c.store.buckets[i]
		root += b.sum
		if b.suspect {
			suspects++
		}
		if len(b.items) == 0 { // most are, and to iterate over an empty map takes its time
			must(b.sum == 0, "bucket %d: sum", i)
			continue
		}
		var sum uint64
		for _, it := range b.items {
			sum += it.print
			keys++
			bytes += it.bytes + len(it.key) + keyCostBytes
			if it.value == nil {
				tombs++
			}
		}
		must(sum == b.sum, "bucket %d: sum", i)
	}
	must(root == c.store.root && keys == c.store.keys && bytes == c.store.bytes, "store: root, keys %d %d, bytes %d %d", keys, c.store.keys, bytes, c.store.bytes)
	must(suspects == c.store.suspects && tombs == c.store.tombs, "store: %d suspects, %d tombstones, counted %d and %d", c.store.suspects, c.store.tombs, suspects, tombs)
	c.checkEnds()
	size := 0
	for _, e := range c.stream.log.entries {
		size += e.encodedSize()
	}
	must(size == c.stream.log.bytes && c.stream.log.first > 0, "log: bytes %d %d", size, c.stream.log.bytes)
	for _, p := range c.members.peers {
		must(p.acked < p.next && p.next <= c.stream.log.last()+1 && p.next >= c.stream.log.first, "peer %v: acked %d next %d of %d..%d", p.id, p.acked, p.next, c.stream.log.first, c.stream.log.last())
	}
	for id, t := range c.stream.tracks {
		must(t.lo == 0 && t.hi == 0 || t.seen+1 < t.lo && t.lo <= t.hi, "track %v: %+v", id, *t)
	}
	for i, r := range c.table.writes {
		must(i == 0 || c.table.writes[i-1].seq < r.seq, "writes out of order")
		must(r.done || c.table.open[r.id] == r, "write %d lost", r.id)
	}
	if c.store.index.built {
		var live []string
		for i := range c.store.buckets {
			for key, it := range c.store.buckets[i].items {
				must(it.listed == (it.value != nil), "key %q is listed: %v", key, it.listed)
				if it.value != nil {
					live = append(live, key)
				}
			}
		}
		slices.Sort(live)
		must(slices.Equal(live, c.store.liveNames("")), "index of keys")
	}
	must(len(c.members.former) <= formerMax, "kept sets: %d", len(c.members.former))
}

// checkEnds: what is known of deletions is what there is of them.
func (c *Core) checkEnds() {
	counted, named := 0, 0
	for i := range c.store.buckets {
		if len(c.store.buckets[i].items) == 0 {
			continue
		}
		for key, it := range c.store.buckets[i].items {
			must(it.kept == c.kept(key), "%q is durable: %v", key, it.kept)
			want := 0
			if m, isMap := it.value.(*entryMap); it.kept && isMap {
				want = m.Tombstones()
			} else if it.kept && it.value == nil {
				want = 1
			}
			must(it.deletions == want, "%d ends under %q, not %d", it.deletions, key, want)
			counted += want
		}
	}
	if counted > 0 { // else no item has any, as was checked above
		c.store.eachDeletion(func(*item, string, uint64) { named++ })
	}
	must(counted == c.store.deletions && named == counted, "%d ends, %d named, %d counted", c.store.deletions, named, counted)
	must(!c.barrier.fresh || c.barrier.empty, "fresh and not virgin")
	must(c.retention.kept <= c.barrier.sweep, "holds all up to sweep %d, and stands at %d", c.retention.kept, c.barrier.sweep)
}

func must(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
