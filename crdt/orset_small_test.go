package crdt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
)

// twin is one set in both of its forms.
type twin struct{ small, full ORSet[string] }

func newTwin() *twin {
	t := &twin{}
	t.full.grown()
	return t
}

func sameValue(t *testing.T, what string, a, b *ORSet[string]) {
	t.Helper()
	if (a == nil) != (b == nil) {
		t.Fatalf("%s: %v and %v", what, a, b)
	}
	if a == nil {
		return
	}
	if x, y := a.Append(nil), b.Append(nil); !bytes.Equal(x, y) || a.Digest() != b.Digest() || a.Len() != b.Len() || !a.Context().Equal(b.Context()) {
		t.Fatalf("%s: %x (digest %x, %v) and %x (digest %x, %v)", what, x, a.Digest(), a.Elements(), y, b.Digest(), b.Elements())
	}
	for _, e := range []string{"x", "y"} {
		if a.Contains(e) != b.Contains(e) {
			t.Fatalf("%s: only one contains %s", what, e)
		}
	}
	dead := func(n NodeID) bool { return n == na || n == nb }
	if a.Garbage(dead) != b.Garbage(dead) {
		t.Fatalf("%s: garbage %v and %v", what, a.Garbage(dead), b.Garbage(dead))
	}
}

// A set without an index does what one with an index does, and makes the same deltas.
func TestSmallSetsAreSets(t *testing.T) {
	kept := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		twins := []*twin{newTwin(), newTwin()}
		var deltas [][2]*ORSet[string]
		for range 12 {
			i := rng.IntN(2)
			w, node, e := twins[i], []NodeID{na, nb}[i], []string{"x", "y"}[rng.IntN(8)/7]
			var a, b *ORSet[string]
			var ca, cb Changes[string]
			switch rng.IntN(9) {
			case 0, 1:
				a, b = w.small.Add(node, e), w.full.Add(node, e)
			case 2:
				a, b = w.small.Remove(e), w.full.Remove(e)
			case 3:
				a, b = w.small.Clear(), w.full.Clear()
			case 4:
				a, b = w.small.replaceElements(node, e, w.small.Elements()...), w.full.replaceElements(node, e, w.full.Elements()...)
			case 5: // the whole of the other, decoded
				var c ORSet[string]
				if err := c.Decode(twins[1-i].small.Append(nil)); err != nil {
					t.Fatal(err)
				}
				if x, y := w.small.Merge(&c, &ca), w.full.Merge(&twins[1-i].full, &cb); x != y {
					t.Fatalf("seed %d: merging changed %t and %t", seed, x, y)
				}
			default:
				if len(deltas) > 0 {
					d := deltas[rng.IntN(len(deltas))]
					if x, y := w.small.Merge(d[0], &ca), w.full.Merge(d[1], &cb); x != y {
						t.Fatalf("seed %d: a delta changed %t and %t", seed, x, y)
					}
				}
			}
			if !reflect.DeepEqual(ca, cb) {
				t.Fatalf("seed %d: changes %v and %v", seed, ca, cb)
			}
			sameValue(t, fmt.Sprint("seed ", seed, ", delta"), a, b)
			if a != nil {
				deltas = append(deltas, [2]*ORSet[string]{a, b})
			}
			sameValue(t, fmt.Sprint("seed ", seed, ", value"), &w.small, &w.full)
			copied := w.small.Clone().(*ORSet[string])
			sameValue(t, fmt.Sprint("seed ", seed, ", copy"), copied, &w.full)
		}
		for _, w := range twins {
			if w.small.full == nil {
				kept++
			}
		}
	}
	if kept < 200 {
		t.Errorf("only %d of 2000 sets stayed small", kept)
	}
}

// smallValues makes one value of each type that a small application would have.
var smallValues = []struct {
	name string
	most int // bytes
	make func() Value
}{
	{"ORSet of one", 200, func() Value {
		v, _ := New(KindORSet)
		v.(*ORSet[string]).Add(na, "element")
		return v
	}},
	{"ORSet of one, added 5 times", 200, func() Value {
		v, _ := New(KindORSet)
		for range 5 {
			v.(*ORSet[string]).Add(na, "element")
		}
		return v
	}},
	{"ORSet of three", 1100, func() Value {
		v, _ := New(KindORSet)
		for _, e := range []string{"a", "b", "c"} {
			v.(*ORSet[string]).Add(na, e)
		}
		return v
	}},
	{"Flag", 200, func() Value {
		f := &Flag{}
		f.Enable(na)
		return f
	}},
	{"Flag, switched 5 times", 200, func() Value {
		f := &Flag{}
		for range 5 {
			f.Disable()
			f.Enable(na)
		}
		return f
	}},
	{"MVRegister, set 5 times", 200, func() Value {
		v, _ := New(KindMVRegister)
		for range 5 {
			v.(*MVRegister[string]).Set(na, "value")
		}
		return v
	}},
	{"LWWRegister", 200, func() Value {
		v, _ := New(KindLWWRegister)
		v.(*LWWRegister[string]).Set("value", Stamp{Time: 1})
		return v
	}},
	{"LWWMap of one", 250, func() Value {
		v, _ := New(KindLWWMap)
		v.(*LWWMap[string, string]).Set("key", "value", Stamp{Time: 1})
		return v
	}},
	{"GCounter", 200, func() Value {
		c := &GCounter{}
		c.Add(na, 1)
		return c
	}},
}

// bytesEach returns what n values hold of the heap, each.
func bytesEach(n int, make1 func() Value) float64 {
	vs := make([]Value, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range vs {
		vs[i] = make1()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(vs)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
}

func TestSmallValuesTakeLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector pads what is allocated")
	}
	for _, s := range smallValues {
		if got := bytesEach(2000, s.make); got > float64(s.most) {
			t.Errorf("%s: %.0f bytes, at most %d", s.name, got, s.most)
		}
	}
}

func BenchmarkBytesPerValue(b *testing.B) {
	for _, s := range smallValues {
		b.Run(s.name, func(b *testing.B) {
			n := max(b.N, 10_000)
			b.ReportMetric(bytesEach(n, s.make), "bytes/value")
		})
	}
}
