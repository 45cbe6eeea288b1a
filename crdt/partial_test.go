package crdt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// partials are the types that can be compared in parts, with a random change each.
func partials() map[string]struct {
	fresh  func() partialValue
	change func(rng *rand.Rand, v partialValue, node NodeID, elements int)
} {
	type kind = struct {
		fresh  func() partialValue
		change func(rng *rand.Rand, v partialValue, node NodeID, elements int)
	}
	name := func(rng *rand.Rand, n int) string { return fmt.Sprint("element-", rng.IntN(n)) }
	return map[string]kind{
		"ORSet": {func() partialValue { return &ORSet[string]{} }, func(rng *rand.Rand, v partialValue, node NodeID, n int) {
			if s := v.(*ORSet[string]); rng.IntN(4) == 0 {
				s.Remove(name(rng, n))
			} else {
				s.Add(node, name(rng, n))
			}
		}},
		"LWWMap": {func() partialValue { return &LWWMap[string, string]{} }, func(rng *rand.Rand, v partialValue, node NodeID, n int) {
			m, stamp := v.(*LWWMap[string, string]), Stamp{Time: rng.Uint64N(1 << 40), Node: node, Seq: rng.Uint64()}
			if rng.IntN(4) == 0 {
				m.Delete(name(rng, n), stamp)
			} else {
				m.Set(name(rng, n), name(rng, n), stamp)
			}
		}},
		"ORMultiMap": {func() partialValue { return &ORMultiMap[string, string]{} }, func(rng *rand.Rand, v partialValue, node NodeID, n int) {
			if m := v.(*ORMultiMap[string, string]); rng.IntN(4) == 0 {
				m.RemoveKey(name(rng, n))
			} else {
				m.Add(node, name(rng, n), name(rng, 3))
			}
		}},
		"GSet": {func() partialValue { return &GSet[string]{} }, func(rng *rand.Rand, v partialValue, node NodeID, n int) {
			v.(*GSet[string]).Add(name(rng, n))
		}},
		"ORMap": {func() partialValue { return &ORMap[string, string]{} }, func(rng *rand.Rand, v partialValue, node NodeID, n int) {
			switch m := v.(*ORMap[string, string]); rng.IntN(4) {
			case 0:
				m.Remove(name(rng, n))
			case 1:
				m.At(name(rng, n), "count").Increment(node, int64(rng.IntN(9)+1))
			case 2:
				m.At(name(rng, n), "title").Set(node, name(rng, n))
			default:
				m.At(name(rng, n), "tags").Add(node, name(rng, 3))
			}
		}},
		"PNCounterMap": {func() partialValue { return &PNCounterMap[string]{} }, func(rng *rand.Rand, v partialValue, node NodeID, n int) {
			if m := v.(*PNCounterMap[string]); rng.IntN(4) == 0 {
				m.Remove(name(rng, n))
			} else {
				m.Add(node, name(rng, n), int64(rng.IntN(9)+1))
			}
		}},
	}
}

// differing returns the parts in which a and b differ.
func differing(a, b partialValue, n int, grain uint8) []bool {
	x, y := a.PartSums(n, grain), b.PartSums(n, grain)
	want := make([]bool, n)
	for i := range want {
		want[i] = x[i] != y[i]
	}
	return want
}

// The law of parts: to join the parts that differ is to join the whole, whatever the
// grain and the number of parts, and equal values have equal sums.
func TestPartsThatDifferMakeUpForTheWhole(t *testing.T) {
	for name, kind := range partials() {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 7))
			base := kind.fresh()
			for range rng.IntN(400) {
				kind.change(rng, base, NodeID(rng.IntN(3)+1), 200)
			}
			a, b := base.Clone().(partialValue), base.Clone().(partialValue)
			for range rng.IntN(30) {
				kind.change(rng, a, 10, 200)
			}
			for range rng.IntN(30) {
				kind.change(rng, b, 11, 200)
			}
			n, grain := 1<<rng.IntN(9), uint8(grainMin+rng.IntN(4))
			part := b.Part(differing(a, b, n, grain), grain)
			// It travels, and it is right on its own: twice is once.
			back, err := Decode(part.Kind(), part.Append(nil))
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			whole, mended := a.Clone(), a.Clone()
			for v, other := range map[Value]Value{whole: b, mended: back} {
				if _, err := v.Join(other); err != nil {
					t.Fatal(err)
				}
			}
			if whole.Digest() != mended.Digest() || !bytes.Equal(whole.Append(nil), mended.Append(nil)) {
				t.Fatalf("%s, seed %d: %d parts of grain %d do not make up for the whole", name, seed, n, grain)
			}
			if changed, _ := mended.Join(part); changed {
				t.Fatalf("%s, seed %d: a part changes what has it", name, seed)
			}
			for _, differ := range differing(whole.(partialValue), mended.(partialValue), n, grain) {
				if differ {
					t.Fatalf("%s, seed %d: equal values, different sums", name, seed)
				}
			}
		}
	}
}

// Two sets of 100,000 elements that differ in ten find out with 8 KiB of sums, and
// send each other a hundredth of themselves.
func TestPartOfALargeSetIsSmall(t *testing.T) {
	const n, differ = 100_000, 10
	a := &ORSet[string]{}
	for i := range n {
		a.Add(1, fmt.Sprint("element-", i))
	}
	b := a.Clone().(*ORSet[string])
	for i := range differ {
		b.Remove(fmt.Sprint("element-", i*n/differ))
		b.Add(2, fmt.Sprint("new-", i))
	}
	grain := a.Grain()
	part := b.Part(differing(a, b, 1024, grain), grain)
	size := len(part.Append(nil))
	t.Logf("%d of %d bytes", size, len(b.Append(nil)))
	if size > len(b.Append(nil))/50 {
		t.Errorf("%d bytes for %d differences", size, differ)
	}
	if a.Merge(part.(*ORSet[string]), nil); a.Digest() != b.Digest() {
		t.Error("not mended")
	}
}

// A writer with many changes costs as much as one with few: the grain follows, and sums
// of a grain that is too fine for the value are refused.
func TestGrainIsBounded(t *testing.T) {
	s := &ORSet[string]{}
	d := s.Add(1, "e")
	far := newORSet(d.elementType())
	far.addSeen(far.column(2), 1, 1<<40)
	s.Merge(&ORSet[string]{elem: d.elem, full: far}, nil)
	g := s.Grain()
	if blocks := s.full.blocksAt(g); blocks > blocksMax || g == grainMin {
		t.Errorf("grain %d: %d blocks", g, blocks)
	}
	if s.PartSums(64, grainMin) != nil || s.PartSums(64, grainMax+1) != nil || s.PartSums(0, g) != nil {
		t.Error("sums without a bound")
	}
	if sums := s.PartSums(64, g); len(sums) != 64 {
		t.Errorf("%d sums", len(sums))
	}
}

// Two replicas find out in which parts they differ, and one gets those from the other.
func ExampleORSet_Part() {
	here, there := &ORSet[string]{}, &ORSet[string]{}
	for i := range 1000 {
		here.Merge(there.Add(1, fmt.Sprint("element-", i)), nil)
	}
	there.Remove("element-500")

	const parts = 64
	grain := here.Grain()
	mine, theirs := here.PartSums(parts, grain), there.PartSums(parts, grain)
	want := make([]bool, parts)
	for i := range want {
		want[i] = mine[i] != theirs[i]
	}
	part := there.Part(want, grain).(*ORSet[string])
	fmt.Println(part.Len(), "elements travel")
	here.Merge(part, nil)
	fmt.Println(here.Len(), here.Digest() == there.Digest())
	// Output:
	// 63 elements travel
	// 999 true
}
