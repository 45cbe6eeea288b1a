package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
)

// Contradiction is what proves that a register was not one register that all callers share.
type Contradiction struct {
	Entity uint32
	// Value is the one whose reads contradict the write, or the reads, of Other.
	Value, Other uint64
	At           clock.Instant
	Why          string
}

// The reasons of a Contradiction.
const (
	// ReadTooEarly: a read showed a value, and ended before its write had begun.
	ReadTooEarly = "was read before it was written"
	// NeverWritten: a read showed a value that no caller had written.
	NeverWritten = "was read and never written"
	// ReadAfterOverwritten: a read showed a value although another one was written, or
	// read, between the value's write and that read.
	ReadAfterOverwritten = "was read after it had been overwritten by"
)

func (c Contradiction) String() string {
	if c.Why == ReadAfterOverwritten {
		return fmt.Sprintf("entity %d: the value %d %s %d", c.Entity, c.Value, c.Why, c.Other)
	}
	return fmt.Sprintf("entity %d: the value %d %s", c.Entity, c.Value, c.Why)
}

// When returns when the read began that contradicts.
func (c Contradiction) When() clock.Instant { return c.At }

// Contradictions returns what proves that a register is not linearizable. Each value must be
// written once. A write without an answer may take effect at any time after its begin, or
// never. A register may lose its value in an excused span.
//
// Since each read names its write, no search is needed (Gibbons and Korach, Testing Shared
// Memories, 1997). The write and the reads of a value lie in one zone, between the first end
// and the last begin among them. If the end comes first, the register had the value in the
// whole zone; if the begin does, at one moment of it. The history is linearizable if no two
// zones of the former kind overlap, and none of the latter kind lies within one of the former.
func Contradictions(records []Record, excused []Span) (out []Contradiction, checked int) {
	byKey := map[uint32][]Record{}
	for _, r := range records {
		switch r.Op {
		case Wrote, Seen:
			checked++
			byKey[r.Entity] = append(byKey[r.Entity], r)
		case Unsure:
			r.End = math.MaxInt64
			byKey[r.Entity] = append(byKey[r.Entity], r)
		}
	}
	for _, all := range byKey { // order-free: sorted below
		from := clock.Instant(0)
		for _, span := range append(slices.Clone(excused), Span{From: math.MaxInt64}) {
			out = append(out, contradictionsIn(all, from, span.From)...)
			from = max(from, span.To)
		}
	}
	slices.SortFunc(out, func(a, b Contradiction) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Value, b.Value))
	})
	return out, checked
}

// zone is that of one value.
type zone struct {
	value               uint64
	firstEnd, lastBegin clock.Instant
	// writeBegin is when its write began, readFirst when its first read ended.
	writeBegin, readFirst clock.Instant
	written, read         bool
}

// contradictionsIn checks one register between two instants, within which it loses nothing.
func contradictionsIn(all []Record, from, to clock.Instant) (out []Contradiction) {
	var whole, moments []zone
	initial := (*zone)(nil)
	for _, z := range zonesOf(all, from, to) {
		fault := Contradiction{Entity: all[0].Entity, Value: z.value, At: z.lastBegin}
		switch {
		case !z.read && !z.written:
			continue
		case !z.written: // it must be the value that the register has from before
			if fault.Why = NeverWritten; initial != nil || from == 0 && z.value != 0 {
				out = append(out, fault)
				continue
			}
			initial = &z
			z.firstEnd = from - 1
		case z.read && z.readFirst.Before(z.writeBegin):
			fault.Why = ReadTooEarly
			out = append(out, fault)
			continue
		}
		if z.firstEnd.Before(z.lastBegin) {
			whole = append(whole, z)
		} else {
			moments = append(moments, z)
		}
	}
	slices.SortFunc(whole, func(a, b zone) int { return cmp.Or(cmp.Compare(a.firstEnd, b.firstEnd), cmp.Compare(a.value, b.value)) })
	for i := 1; i < len(whole); i++ {
		if a, b := whole[i-1], whole[i]; b.firstEnd.Before(a.lastBegin) {
			out = append(out, Contradiction{all[0].Entity, a.value, b.value, a.lastBegin, ReadAfterOverwritten})
		}
	}
	for _, z := range moments {
		i, _ := slices.BinarySearchFunc(whole, z.lastBegin, func(w zone, at clock.Instant) int { return cmp.Compare(w.firstEnd, at) })
		if i > 0 && z.firstEnd.Before(whole[i-1].lastBegin) {
			out = append(out, Contradiction{all[0].Entity, whole[i-1].value, z.value, whole[i-1].lastBegin, ReadAfterOverwritten})
		}
	}
	return out
}

// zonesOf returns the zones of the values between two instants, by the begin of their first
// operation. A value that was written before counts as not written here.
func zonesOf(all []Record, from, to clock.Instant) []zone {
	index := map[uint64]int{}
	var zones []zone
	of := func(value uint64) *zone {
		i, found := index[value]
		if !found {
			i, index[value] = len(zones), len(zones)
			zones = append(zones, zone{value: value, firstEnd: math.MaxInt64})
		}
		return &zones[i]
	}
	for _, r := range all {
		switch {
		case !r.Start.Before(to), r.End.Before(from):
			continue
		case r.Op == Seen:
			if r.Start.Before(from) || !r.End.Before(to) {
				continue
			}
			z := of(r.Value)
			if !z.read || r.End.Before(z.readFirst) {
				z.readFirst = r.End
			}
			z.read, z.firstEnd, z.lastBegin = true, min(z.firstEnd, r.End), max(z.lastBegin, r.Start)
		default:
			z := of(r.Value)
			z.written, z.writeBegin = true, max(r.Start, from)
			z.lastBegin = max(z.lastBegin, z.writeBegin)
			if r.End.Before(to) { // else it may take effect beyond the end, or be lost there
				z.firstEnd = min(z.firstEnd, r.End)
			}
		}
	}
	return zones
}
