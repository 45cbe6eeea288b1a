package crdt

import "testing"

// twoPayloads returns two sets in which one dot stands for different elements: what a
// writer with a reused NodeID, or a hostile one, leaves behind.
func twoPayloads(more int) (a, b *ORSet[string]) {
	a, b = &ORSet[string]{}, &ORSet[string]{}
	a.Add(na, "left")
	b.Add(na, "right")
	for i := range more {
		d := a.Add(nb, "common-"+string(rune('a'+i)))
		b.Merge(d, nil)
	}
	return a, b
}

func TestOneDotWithTwoPayloadsConverges(t *testing.T) {
	for name, exchange := range map[string]func(to, from *ORSet[string]){
		"whole": func(to, from *ORSet[string]) { to.Merge(from, nil) },
		"chunks": func(to, from *ORSet[string]) {
			for part := range Split(from, 60) {
				to.Merge(part.(*ORSet[string]), nil)
			}
		},
		"decoded deltas": func(to, from *ORSet[string]) {
			for b := range Chunks(from, 60) {
				v, err := Decode(KindORSet, b)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := to.Join(v); err != nil {
					t.Fatal(err)
				}
			}
		},
		"parts": func(to, from *ORSet[string]) {
			want := make([]bool, 16)
			x, y := to.PartSums(16, grainMin), from.PartSums(16, grainMin)
			for i := range want {
				want[i] = x[i] != y[i]
			}
			to.Merge(from.Part(want, grainMin).(*ORSet[string]), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := twoPayloads(20)
			before := copyOfSet(a)
			exchange(a, b)
			exchange(b, before)
			if !same(a, b) {
				t.Fatalf("replicas differ for ever: %v and %v", a.Elements(), b.Elements())
			}
			if a.Contains("left") == a.Contains("right") || a.Len() != 21 {
				t.Fatalf("one of the two payloads must stand: %v", a.Elements())
			}
			if err := consistent(a); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func copyOfSet(s *ORSet[string]) *ORSet[string] { return s.Clone().(*ORSet[string]) }

func TestPartOfNothingIsEmpty(t *testing.T) {
	var s ORSet[string]
	s.Add(na, "x")
	var g GSet[string]
	g.Add("x")
	var m LWWMap[string, string]
	m.Set("x", "y", Stamp{Time: 1})
	for _, v := range []partialValue{&s, &g, &m} {
		if part := v.Part(nil, grainMin); part.Digest() != 0 {
			t.Errorf("kind %v: a part of no parts has content", v.Kind())
		}
	}
}
