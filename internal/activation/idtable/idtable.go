// Package idtable finds values by an id that they have themselves.
package idtable

import (
	"hash/maphash"
	"iter"
)

// Table holds pointers to values, each with an id of its own. A map keeps each id beside its value
// and never gives memory back; a Table costs some 13 bytes a value, and shrinks with their number.
// The nil Table is empty. A Table is for one goroutine at a time.
//
// A Table of one value has the value alone: a node has a Table for each shard, and in a type with
// many shards most have few values. From the second value on it is a list of small hash tables,
// chosen by the first bits of the hash of an id. A small table that is full grows, or splits when
// it has partSlots slots: so no Add takes long, however many values there are.
type Table[E any] struct {
	idOf func(*E) string
	// only is the value of a Table without an index, nil if there is none.
	only *E
	// index is made for the second value. Invariant: not nil if there are several.
	*index[E]
}

// index finds many values.
type index[E any] struct {
	seed maphash.Seed
	// parts are chosen by the first bits of a hash. Invariant: len(parts) is 1<<bits; a part with
	// fewer bits of its own is there several times, in a row.
	parts []*part[E]
	bits  uint8
	count int
	// ranging counts the loops over All: values keep their places then, and parts do not shrink.
	ranging int
}

// part is a hash table with linear probing, in which a slot is searched from the one that the hash
// names to the first that is empty.
type part[E any] struct {
	// tags are 0 for an empty slot, else tagBit and bits of the hash of the value. They name the
	// value's home, so that values move within a part without a look at their ids.
	tags  []uint16
	slots []*E
	count int
	bits  uint8
}

const (
	tagBit = 1 << tagBits
	// tagBits is the number of bits of a hash in a tag: more than partSlots needs, so that few
	// values in a row have equal tags.
	tagBits = 15
	// partSlots is the number of slots from which a part splits.
	partSlots = 1024
	// leastSlots is that of a part with few values.
	leastSlots = 8
	// bitsMost bounds the list of parts, whatever the ids are: parts beyond it grow.
	bitsMost = 24
)

// New returns an empty Table of values whose ids idOf returns. An id must not change while its value
// is in the Table.
func New[E any](idOf func(*E) string) *Table[E] {
	return &Table[E]{idOf: idOf}
}

// makeIndex makes the index, with the only value.
func (t *Table[E]) makeIndex() {
	only := t.only
	t.only, t.index = nil, &index[E]{seed: maphash.MakeSeed(), parts: []*part[E]{{}}}
	t.Add(only)
}

// dropIndex drops the index of an empty Table.
func (t *Table[E]) dropIndex() {
	if t.count == 0 && t.ranging == 0 {
		t.index = nil
	}
}

// Len returns the number of values.
func (t *Table[E]) Len() int {
	switch {
	case t == nil:
		return 0
	case t.index != nil:
		return t.count
	case t.only != nil:
		return 1
	}
	return 0
}

// Find returns the value with an id, nil if there is none.
func (t *Table[E]) Find(id string) *E {
	if t == nil || t.index == nil {
		return findOnly(t, id)
	}
	return lookUp(t, maphash.String(t.seed, id), id)
}

// FindBytes is Find for an id in a buffer.
func (t *Table[E]) FindBytes(id []byte) *E {
	if t == nil || t.index == nil {
		return findOnly(t, id)
	}
	return lookUp(t, maphash.Bytes(t.seed, id), id)
}

// findOnly is Find in a Table without an index.
func findOnly[E any, ID string | []byte](t *Table[E], id ID) *E {
	if t == nil || t.only == nil || t.idOf(t.only) != string(id) {
		return nil
	}
	return t.only
}

func lookUp[E any, ID string | []byte](t *Table[E], hash uint64, id ID) *E {
	p := t.partOf(hash)
	if at := slotOf(t, p, hash, id); at >= 0 {
		return p.slots[at]
	}
	return nil
}

// slotOf returns the slot of the value with an id in its part, -1 if there is none.
func slotOf[E any, ID string | []byte](t *Table[E], p *part[E], hash uint64, id ID) int {
	if p.count == 0 {
		return -1
	}
	tag := tagOf(hash)
	for at := p.homeOf(tag); p.tags[at] != 0; at = p.nextSlot(at) {
		if p.tags[at] == tag && t.idOf(p.slots[at]) == string(id) {
			return at
		}
	}
	return -1
}

// Add adds a value. There must be none with its id, and no loop over All.
func (t *Table[E]) Add(e *E) {
	if t.index == nil {
		if t.only == nil {
			t.only = e
			return
		}
		t.makeIndex()
	}
	hash := t.hashOf(e)
	p := t.partOf(hash)
	for p.isFull() {
		if len(p.slots) < partSlots || p.bits == bitsMost {
			p.resize(p.moreSlots())
			break
		}
		t.split(p, hash)
		p = t.partOf(hash)
	}
	p.insert(tagOf(hash), e)
	t.count++
}

// Remove removes the value with an id, if there is one. In a loop over All it may be the one of this
// turn.
func (t *Table[E]) Remove(id string) {
	if t == nil || t.index == nil {
		if findOnly(t, id) != nil {
			t.only = nil
		}
		return
	}
	hash := maphash.String(t.seed, id)
	p := t.partOf(hash)
	at := slotOf(t, p, hash, id)
	if at < 0 {
		return
	}
	p.clearSlot(at)
	p.count--
	t.count--
	if t.ranging == 0 {
		p.shrink()
		t.dropIndex()
	}
}

// All yields the values, in no order. The loop may remove the value of its turn, and must not change
// the Table otherwise.
func (t *Table[E]) All() iter.Seq[*E] {
	return func(yield func(*E) bool) {
		if t.Len() == 0 {
			return
		}
		if t.index == nil {
			yield(t.only)
			return
		}
		t.ranging++
		defer t.endRange()
		for p := range t.eachPart() {
			if !p.yieldAll(yield) {
				return
			}
		}
	}
}

// eachPart yields each part once.
func (t *Table[E]) eachPart() iter.Seq[*part[E]] {
	return func(yield func(*part[E]) bool) {
		for i := 0; i < len(t.parts); {
			p := t.parts[i]
			if !yield(p) {
				return
			}
			i += 1 << (t.bits - p.bits)
		}
	}
}

// yieldAll yields the values from an empty slot backwards: a removal moves only values behind the
// removed one, which have had their turn, and none across an empty slot.
func (p *part[E]) yieldAll(yield func(*E) bool) bool {
	if p.count == 0 {
		return true
	}
	empty := 0
	for p.tags[empty] != 0 {
		empty++
	}
	for i := range p.slots {
		at := empty - i
		if at < 0 {
			at += len(p.slots)
		}
		if p.tags[at] != 0 && !yield(p.slots[at]) {
			return false
		}
	}
	return true
}

func (t *Table[E]) endRange() {
	if t.ranging--; t.ranging > 0 {
		return
	}
	for p := range t.eachPart() {
		p.shrink()
	}
	t.dropIndex()
}

func (t *Table[E]) hashOf(e *E) uint64 { return maphash.String(t.seed, t.idOf(e)) }

// partOf returns the part of a hash. (A shift by 64 bits is 0.)
func (t *Table[E]) partOf(hash uint64) *part[E] { return t.parts[hash>>(64-t.bits)] }

// tagOf returns the tag of a hash, by bits that partOf does not use.
func tagOf(hash uint64) uint16 { return uint16(hash) | tagBit }

// homeOf returns the first slot in which a value with a tag is searched.
func (p *part[E]) homeOf(tag uint16) int {
	return int(uint64(tag&^tagBit) * uint64(len(p.slots)) >> tagBits)
}

func (p *part[E]) nextSlot(at int) int {
	if at++; at < len(p.slots) {
		return at
	}
	return 0
}

// isFull reports whether a part must grow before an insert: an eighth of the slots stays empty.
func (p *part[E]) isFull() bool { return (p.count+1)*8 > len(p.slots)*7 }

// moreSlots returns the number of slots to which a full part grows.
func (p *part[E]) moreSlots() int {
	return max(leastSlots, len(p.slots)*5/4+1)
}

func (p *part[E]) insert(tag uint16, e *E) {
	at := p.homeOf(tag)
	for p.tags[at] != 0 {
		at = p.nextSlot(at)
	}
	p.tags[at], p.slots[at] = tag, e
	p.count++
}

// clearSlot empties a slot, and moves the values behind it that are searched across it.
func (p *part[E]) clearSlot(hole int) {
	for at := p.nextSlot(hole); p.tags[at] != 0; at = p.nextSlot(at) {
		home := p.homeOf(p.tags[at])
		// The value may move if its home is not between the hole and its slot.
		if distance(home, at, len(p.slots)) >= distance(hole, at, len(p.slots)) {
			p.tags[hole], p.slots[hole] = p.tags[at], p.slots[at]
			hole = at
		}
	}
	p.tags[hole], p.slots[hole] = 0, nil
}

// distance returns the number of steps from one slot forwards to another, of n.
func distance(from, to, n int) int {
	if to < from {
		return to - from + n
	}
	return to - from
}

// shrink gives slots of a part back that is mostly empty.
func (p *part[E]) shrink() {
	switch {
	case p.count == 0:
		p.tags, p.slots = nil, nil
	case len(p.slots) > leastSlots && p.count*2 < len(p.slots):
		p.resize(max(leastSlots, p.count*5/4+1))
	}
}

func (p *part[E]) resize(slots int) {
	tags, old := p.tags, p.slots
	p.tags, p.slots, p.count = make([]uint16, slots), make([]*E, slots), 0
	for at, tag := range tags {
		if tag != 0 {
			p.insert(tag, old[at])
		}
	}
}

// split replaces the part of a hash by two, of which each has the values of one further bit.
func (t *Table[E]) split(p *part[E], hash uint64) {
	if p.bits == t.bits {
		twice := make([]*part[E], 0, 2*len(t.parts))
		for _, q := range t.parts {
			twice = append(twice, q, q)
		}
		t.parts = twice
		t.bits++
	}
	slots := max(leastSlots, p.count*5/8) // for half the values, four fifths full
	halves := [2]*part[E]{{bits: p.bits + 1}, {bits: p.bits + 1}}
	for i := range halves {
		halves[i].resize(slots)
	}
	for _, e := range p.slots {
		if e == nil {
			continue
		}
		h := t.hashOf(e)
		half := halves[h>>(63-p.bits)&1]
		if half.isFull() {
			half.resize(half.moreSlots())
		}
		half.insert(tagOf(h), e)
	}
	first := hash >> (64 - p.bits) << (t.bits - p.bits)
	each := uint64(1) << (t.bits - p.bits - 1)
	for i := range 2 * each {
		t.parts[first+i] = halves[i/each]
	}
}
