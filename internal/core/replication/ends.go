package replication

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/zeebo/xxh3"
)

// What is known of the deletions that retain.go keeps: of durable keys, and of entries
// of maps under durable keys. Both are *ends*, of which each has its age.

// entryMap is the data type whose entries leave tombstones.
type entryMap = crdt.LWWMap[string, string]

// end is what is known of one deletion: when it was seen by the wall clock, and how long
// this replica had run then. Print is what it adds to the sums.
type end struct{ since, lived, print uint64 }

// keyEnds is what is known of the deletions under one durable key.
//
// Invariant: whole.print is 0 unless the key is deleted, and inside then empty; gen and era
// are those of the key; oldest is at most the least lived of inside.
type keyEnds struct {
	gen    uint64
	era    uint8
	whole  end
	inside map[string]end
	oldest uint64
	// due are entries that were ripe at the last look, the last ones first.
	due []string
}

// endParts is the number of sums that ends are divided into. With one sum, two replicas
// would only ever be found equal in moments without deletions.
const endParts = 64

// endsQuiet is for how long after a change the sums are told by parts.
const endsQuiet = 10 * time.Second

// ends is all that is known of deletions.
//
// Invariant: n counts them; sums has the sum of their prints, by the first bits of these.
type ends struct {
	of   map[string]*keyEnds
	n    int
	sums [endParts]uint64
	// movedAt is when they last changed.
	movedAt clock.Instant
}

func (s *ends) count(e end, sign int) {
	s.n += sign
	s.sums[e.print/(1<<64/endParts)] += e.print * uint64(sign)
}

// forget takes out what is known of a key.
func (s *ends) forget(key string) {
	e := s.of[key]
	if e == nil {
		return
	}
	if e.whole.print != 0 {
		s.count(e.whole, -1)
	}
	for _, x := range e.inside { // order-free: sums
		s.count(x, -1)
	}
	delete(s.of, key)
}

// forgetInside takes out what is known of an entry.
func (s *ends) forgetInside(key, entry string) {
	e := s.of[key]
	if e == nil {
		return
	}
	if x, ok := e.inside[entry]; ok {
		s.count(x, -1)
		if delete(e.inside, entry); len(e.inside) == 0 {
			delete(s.of, key)
		}
	}
}

// addEnd notes an end of now.
func (c *Core) addEnd(it *item, entry string, print uint64) {
	e := c.ends.of[it.key]
	if e == nil {
		e = &keyEnds{gen: it.gen, era: it.era, oldest: math.MaxUint64}
		c.ends.of[it.key] = e
	}
	x := end{c.wall(c.now), c.lived(), print}
	c.ends.count(x, 1)
	c.ends.movedAt = c.now
	if it.value == nil {
		e.whole = x
		return
	}
	if e.inside == nil {
		e.inside = map[string]end{}
	}
	e.inside[entry] = x
	e.oldest = min(e.oldest, x.lived)
}

// noteEnds keeps the ends under it up to date after a change; delta is what has been
// joined with its value, nil if that is gone.
func (c *Core) noteEnds(it *item, delta crdt.Value) {
	if !c.kept(it.key) {
		return
	}
	m, isMap := it.value.(*entryMap)
	if e := c.ends.of[it.key]; e != nil && (e.gen != it.gen || e.era != it.era || !isMap || e.whole.print != 0) {
		c.ends.forget(it.key)
		if e.era != it.era && isMap {
			delta = it.value // all have other stamps
		}
	}
	if it.value == nil {
		c.addEnd(it, "", it.print)
		return
	}
	d, ok := delta.(*entryMap)
	if !isMap || !ok {
		return
	}
	for k := range d.All() { // order-free: each by itself
		c.noteInside(it, m, k)
	}
	for k := range d.Deleted() { // order-free: each by itself
		c.noteInside(it, m, k)
	}
}

// noteInside keeps what is known of one entry up to date.
func (c *Core) noteInside(it *item, m *entryMap, entry string) {
	if _, live := m.Get(entry); live {
		c.ends.forgetInside(it.key, entry)
		return
	}
	stamp, _ := m.Stamp(entry)
	print := entryPrint(it, entry, stamp)
	if e := c.ends.of[it.key]; e != nil && e.inside[entry].print == print {
		return
	}
	c.ends.forgetInside(it.key, entry)
	c.addEnd(it, entry, print)
}

// entryPrint is the fingerprint of an entry's tombstone.
func entryPrint(it *item, entry string, s crdt.Stamp) uint64 {
	h := xxh3.HashStringSeed(entry, it.hash)
	return fingerprint(h, it.gen, crdt.KindLWWMap, fingerprint(s.Time, s.Seq, 0, uint64(s.Node)))
}

// Ended describes the deletions under a durable key: its own, or those of entries of its
// map, in the order of their names. There are none under a key that is not durable.
func (c *Core) Ended(key string) (out []Ended) {
	e := c.ends.of[key]
	if e == nil {
		return nil
	}
	if e.whole.print != 0 {
		return []Ended{{Key: key, Since: e.whole.since, Lived: e.whole.lived}}
	}
	for entry, x := range e.inside { // order-free: sorted below
		out = append(out, Ended{Key: key, Inside: true, Entry: entry, Since: x.since, Lived: x.lived})
	}
	slices.SortFunc(out, func(a, b Ended) int { return strings.Compare(a.Entry, b.Entry) })
	return out
}

// recallEnds takes in the ages of deletions that a file has. All others under keys of the
// file are as good as new.
func (c *Core) recallEnds(lived uint64, ended []Ended) {
	young := func(x *end) { x.since, x.lived = c.wall(c.now), lived }
	for _, e := range c.ends.of { // order-free: each by itself
		young(&e.whole)
		for entry, x := range e.inside { // order-free: each by itself
			young(&x)
			e.inside[entry] = x
		}
		e.oldest = lived
	}
	if c.blunder == blunderNewAges {
		return
	}
	for _, f := range ended {
		e := c.ends.of[f.Key]
		// One that others may not have is as good as new, too.
		if e == nil || f.Since > c.found && c.blunder != blunderUnconfirmed {
			continue
		}
		old := min(f.Lived, lived)
		if x, ok := e.inside[f.Entry]; ok && f.Inside {
			x.since, x.lived = f.Since, old
			e.inside[f.Entry], e.oldest = x, min(e.oldest, old)
		} else if !f.Inside {
			e.whole.since, e.whole.lived = f.Since, old
		}
	}
}

// told returns what a Status says of the ends: their sum, and for a while after a change
// the sums that it consists of.
func (s *ends) told(quiet bool) []uint64 {
	if !quiet {
		return s.sums[:]
	}
	total := uint64(0)
	for _, v := range s.sums {
		total += v
	}
	return []uint64{total}
}

// hearEnds notes which ends of a peer's are the same as here.
func (c *Core) hearEnds(p *peer, sums []uint64) {
	mine := c.ends.told(len(sums) == 1)
	if len(sums) != len(mine) {
		return
	}
	for i := range p.evenAt {
		if at := i * len(mine) / endParts; sums[at] == mine[at] || c.blunder == blunderAnyEven {
			p.evenAt[i] = c.now
		}
	}
}
