package crdt

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Lists of any length, with times of any range, come out in the order of a sort by
// comparison, and hold the same entries.
func TestTimesAreSortedByDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	byAll := func(a, b timed[int]) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.e, b.e)) }
	for _, n := range []int{0, 1, 2, radixMin - 1, radixMin, radixMin + 1, 5000} {
		for width := range 65 {
			low := rng.Uint64()
			list := make([]timed[int], n)
			for i := range list {
				list[i] = timed[int]{rng.Uint64(), i}
				if width < 64 {
					list[i].time &= 1<<width - 1
					list[i].time += low >> 1 &^ (1<<width - 1)
				}
			}
			want := slices.SortedFunc(slices.Values(list), byAll)
			got := sortByTime(list)
			if !slices.IsSortedFunc(got, func(a, b timed[int]) int { return cmp.Compare(a.time, b.time) }) {
				t.Fatalf("%d times of %d bits are not in order", n, width)
			}
			slices.SortFunc(got, byAll)
			if !slices.Equal(got, want) {
				t.Fatalf("%d times of %d bits: entries were lost or doubled", n, width)
			}
		}
	}
}

// Maps with equal entries have one encoding, whichever way they came about, also where
// many entries have one stamp, or stamps that differ by the writer alone.
func TestMapsHaveOneEncodingInAnyOrder(t *testing.T) {
	const n = 4 * radixMin
	for name, stamp := range map[string]func(i int) Stamp{
		"ticks":      func(i int) Stamp { return Stamp{uint64(i+1) << hlcCounterBits, NodeID(i%3 + 1), 0} },
		"far apart":  func(i int) Stamp { return Stamp{mix(uint64(i), 5), NodeID(i%3 + 1), 0} },
		"one tick":   func(i int) Stamp { return Stamp{9, NodeID(i + 1), 0} },
		"one term":   func(i int) Stamp { return Stamp{9, 1, uint64(i)} },
		"one stamp":  func(int) Stamp { return Stamp{9, 1, 1} },
		"few stamps": func(i int) Stamp { return Stamp{uint64(i%50 + 1), 1, uint64(i % 2)} },
	} {
		var first []byte
		for seed := range uint64(3) {
			m := &LWWMap[string, string]{}
			for _, i := range rand.New(rand.NewPCG(seed, 3)).Perm(n) {
				if i%7 == 0 {
					m.Delete(benchID(i), stamp(i))
				} else {
					m.Set(benchID(i), benchID(i/2), stamp(i))
				}
			}
			b := m.Append(nil)
			if first == nil {
				first = b
			}
			var back LWWMap[string, string]
			if err := back.Decode(b); err != nil || !bytes.Equal(b, first) || !bytes.Equal(back.Append(nil), b) || back.Digest() != m.Digest() {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
		}
	}
}
