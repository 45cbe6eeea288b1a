package replication

import (
	"math/bits"

	"github.com/peerage-go/peerage/crdt"
)

// A value above partialMin that stands here in another state is not asked for whole:
// the question carries the sums of its parts, and the answer the parts that differ,
// which is a value like any other (crdt.Partial). What travels is eight bytes per
// partBytes of the value, and one part per difference. Only the source is asked so:
// of a part, it cannot be told whether a helper held the same.
const (
	partialMin = 32 << 10
	partBytes  = 2 << 10
	partsMax   = 4096
)

// FetchParts asks for what the receiver holds of a key beyond the sender, whose parts
// have Sums. It is answered by Values with one item: the parts that differ, or the
// whole if the two cannot be compared so.
type FetchParts struct {
	Session uint64
	Ask     uint64
	Key     string
	Gen     uint64
	Kind    crdt.Kind
	Grain   uint8
	Sums    []uint64
}

func (*FetchParts) message() {}

// partial returns the value of a key if it is to be compared in parts.
func (c *Core) partial(key string) (it *item, v crdt.Partial) {
	it = c.store.get(key)
	if it == nil || it.bytes < c.cfg.partialMin {
		return nil, nil
	}
	v, ok := it.value.(crdt.Partial)
	if !ok {
		return nil, nil
	}
	return it, v
}

// partsOf returns into how many parts a value of that size is cut: a power of two.
func partsOf(size int) int { return min(1<<bits.Len(uint(size/partBytes)), partsMax) }

// askParts returns the question for the parts of a key, or nil if it has to be asked
// for whole.
func (c *Core) askParts(key string) *FetchParts {
	it, v := c.partial(key)
	if v == nil {
		return nil
	}
	m := &FetchParts{Session: c.session.id, Key: key, Gen: it.gen, Kind: it.kind(), Grain: v.Grain()}
	if m.Sums = v.PartSums(partsOf(it.bytes), m.Grain); m.Sums == nil {
		return nil
	}
	return m
}

func (c *Core) onFetchParts(p *peer, m *FetchParts) {
	out := &Values{Floor: c.floor, Horizon: c.horizon, Session: m.Session, Ask: m.Ask, Answered: 1}
	out.Items, _ = c.beyond(m)
	c.send(p, out)
}

// beyond answers a question for parts: with those that differ, and which ones these are;
// with the whole if the two cannot be compared so; or with nothing.
func (c *Core) beyond(m *FetchParts) (items []Item, differ []byte) {
	it := c.store.get(m.Key)
	if it == nil {
		return nil, nil
	}
	if in, differ := partsBeyond(it, m); in != nil {
		c.stats.PartsSent++
		return []Item{*in}, differ
	}
	c.stats.ValuesSent++
	return []Item{full(it)}, nil
}

// partsBeyond returns the parts of it that differ from those of m and which ones they
// are, or nil.
func partsBeyond(it *item, m *FetchParts) (in *Item, differ []byte) {
	v, ok := it.value.(crdt.Partial)
	if !ok || it.gen != m.Gen || it.kind() != m.Kind || len(m.Sums) > partsMax {
		return nil, nil
	}
	sums := v.PartSums(len(m.Sums), m.Grain)
	if sums == nil {
		return nil, nil
	}
	want := make([]bool, len(sums))
	for i := range sums {
		want[i] = sums[i] != m.Sums[i]
	}
	return &Item{Key: it.key, Gen: it.gen, Era: it.era, Kind: it.kind(), Bytes: v.Part(want, m.Grain).Append(nil)}, bitmapOf(want)
}
