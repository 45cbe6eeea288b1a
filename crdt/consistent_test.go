package crdt

import (
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/internal/crdt/shared"
)

// consistent checks the invariants that a value's fields state.
func consistent(v Value) error {
	switch v := v.(type) {
	case *ORSet[string]:
		return consistentSet(v)
	case *Flag:
		return consistentSet(&v.set)
	case *MVRegister[string]:
		return consistentSet(&v.set)
	case *ORMultiMap[string, string]:
		return errors.Join(consistentSet(&v.set), consistentKeys(v.groups, &v.set,
			func(e pair[string, string]) string { return e.key }, func(g *group[string]) int { return len(g.vals) }))
	case *PNCounterMap[string]:
		return errors.Join(consistentSet(&v.set), consistentKeys(v.groups, &v.set,
			func(e share[string]) string { return e.key }, func(g []share[string]) int { return len(g) }))
	case *ORMap[string, string]:
		return errors.Join(consistentSet(&v.set), consistentKeys(v.places, &v.set,
			func(e leaf[string]) string { return v.pathOf(e.path)[0] }, func(b *branch[string, string]) int { return len(b.all(nil)) }))
	case *LWWMap[string, string]:
		return consistentLWW(v)
	case *GCounter:
		return consistentTally(v)
	case *PNCounter:
		return errors.Join(consistentTally(&v.up), consistentTally(&v.down))
	}
	return nil
}

// consistentKeys checks an index against the elements of its set.
func consistentKeys[K, E comparable, C any](x *shared.Keyed[K, C], set *ORSet[E], key func(E) K, size func(C) int) error {
	if x == nil {
		return nil
	}
	want := map[K]int{}
	for e := range set.All() {
		want[key(e)]++
	}
	if x.Len != len(want) || len(x.Keys()) != len(want) {
		return fmt.Errorf("%d keys in the index, listed %d, in the set %d", x.Len, len(x.Keys()), len(want))
	}
	for k, n := range want {
		if c, ok := x.GetContent(k); !ok || size(c) != n {
			return fmt.Errorf("%v: %v in the index (%v), %d in the set", k, c, ok, n)
		}
	}
	return nil
}

func consistentSet[E comparable](s *ORSet[E]) error {
	f := s.full
	if f == nil {
		return nil
	}
	live, sum, size := 0, uint64(0), 0
	var err error
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	for ci := range f.columns {
		c := &f.columns[ci]
		if !c.used {
			if len(c.seen) > 0 || len(c.blocks) > 0 {
				fail("unused column with content")
			}
			continue
		}
		for i, x := range c.seen {
			if x.from < 1 || x.to < x.from || i > 0 && c.seen[i-1].to+1 >= x.from {
				fail("context not canonical: %v", c.seen)
			}
		}
		sum += c.seenHash()
		n := 0
		c.each(func(seq uint64, at uint32) {
			n++
			if f.slotAt(at).dot != pack(ci, seq) {
				fail("slot %d holds another dot than %d", at, seq)
			}
			if !c.seen.has(seq) {
				fail("dot %d is live and was not seen", seq)
			}
			h, b := f.elem.hashAndSize(f.slotAt(at).val)
			sum += dotHash(c.node, seq, h)
			size += b
		})
		for i := range c.blocks {
			b := &c.blocks[i]
			if !b.Sound() || i > 0 && c.blocks[i-1].Key >= b.Key {
				fail("block %d of %d is malformed", i, c.node)
			}
		}
		if n != c.live {
			fail("column says %d live, has %d", c.live, n)
		}
		live += n
	}
	if live != f.live || sum != f.sum || size != f.bytes || f.slots != f.live+len(f.free) {
		fail("live %d/%d, digest %x/%x, bytes %d/%d, slots %d, free %d", f.live, live, f.sum, sum, f.bytes, size, f.slots, len(f.free))
	}
	doubles := 0
	for _, rest := range f.extra {
		doubles += len(rest)
		if len(rest) == 0 {
			fail("empty list of further dots")
		}
	}
	elems := s.Elements()
	if f.table.N+doubles != f.live || len(elems) != f.table.N {
		fail("table has %d, %d doubles, %d live, %d elements", f.table.N, doubles, f.live, len(elems))
	}
	for _, e := range elems {
		if !s.Contains(e) {
			fail("element %v is there and not found", e)
		}
	}
	return err
}

func consistentLWW(m *LWWMap[string, string]) error {
	f := m.full
	if f == nil {
		return nil
	}
	g := newLWWMap(f.types)
	n := 0
	for e := range m.entries() {
		n++
		g.account(e, 1)
		if m.entry(e.key) != e {
			return fmt.Errorf("entry %s is there and not found", e.key)
		}
	}
	if g.sum != f.sum || g.tombs != f.tombs || g.bytes != f.bytes || g.dead != f.dead || n != f.table.N {
		return fmt.Errorf("sums %x/%x, tombs %x/%x, bytes %d/%d, dead %d/%d, entries %d/%d",
			f.sum, g.sum, f.tombs, g.tombs, f.bytes, g.bytes, f.dead, g.dead, f.table.N, n)
	}
	return nil
}

func consistentTally(c *GCounter) error {
	var sum uint64
	for _, x := range c.items {
		sum += tallyHash(x)
	}
	for _, f := range c.folds {
		sum += f.hash()
		if c.get(f.dead) == 0 || c.get(f.heir) == 0 {
			return fmt.Errorf("record without entries: %+v", f)
		}
	}
	if sum != c.sum {
		return fmt.Errorf("digest %x, must be %x", c.sum, sum)
	}
	return nil
}
