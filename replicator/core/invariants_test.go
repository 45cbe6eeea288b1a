package core

import "fmt"

// checkInvariants panics when one of the conditions stated at the types is
// broken.
func (c *Core) checkInvariants() {
	var root uint64
	keys, bytes := 0, 0
	for i := range c.store.buckets {
		b := &c.store.buckets[i]
		var sum uint64
		for _, it := range b.items {
			sum += it.print
			keys++
			bytes += it.bytes + len(it.key) + keyCostBytes
		}
		must(sum == b.sum, "bucket %d: sum", i)
		root += b.sum
	}
	must(root == c.store.root && keys == c.store.keys && bytes == c.store.bytes, "store: root, keys %d %d, bytes %d %d", keys, c.store.keys, bytes, c.store.bytes)
	suspects, tombs := 0, 0
	for i := range c.store.buckets {
		if c.store.buckets[i].suspect {
			suspects++
		}
		for _, it := range c.store.buckets[i].items {
			if it.value == nil {
				tombs++
			}
		}
	}
	must(suspects == c.store.suspects && tombs == c.store.tombs, "store: %d suspects, %d tombstones, counted %d and %d", c.store.suspects, c.store.tombs, suspects, tombs)
	var ends uint64
	for key, e := range c.ends {
		it := c.store.get(key)
		must(it != nil && it.value == nil && it.print == e.print, "end of %q", key)
		ends += e.print
	}
	must(ends == c.endSum && (!c.fresh || c.virgin), "sum of ends, or fresh and not virgin")
	size := 0
	for _, e := range c.log.entries {
		size += e.size()
	}
	must(size == c.log.bytes && c.log.first > 0, "log: bytes %d %d", size, c.log.bytes)
	for _, p := range c.peers {
		must(p.acked < p.next && p.next <= c.log.last()+1 && p.next >= c.log.first, "peer %v: acked %d next %d of %d..%d", p.id, p.acked, p.next, c.log.first, c.log.last())
	}
	for id, t := range c.tracks {
		must(t.lo == 0 && t.hi == 0 || t.seen+1 < t.lo && t.lo <= t.hi, "track %v: %+v", id, *t)
	}
	for i, r := range c.writes {
		must(i == 0 || c.writes[i-1].seq < r.seq, "writes out of order")
		must(r.done || c.requests[r.id] == r, "write %d lost", r.id)
	}
	must(len(c.former) <= formerMax, "kept sets: %d", len(c.former))
}

func must(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
