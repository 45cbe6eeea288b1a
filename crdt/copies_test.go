package crdt

import (
	"fmt"
	"testing"
)

// indexedMaps have n keys, of which read looks one up.
var indexedMaps = map[string]struct {
	fresh func() Value
	put   func(v Value, i int)
	read  func(v Value, i int) bool
}{
	"ORMap": {
		fresh: func() Value { return &ORMap[string, string]{} },
		put:   func(v Value, i int) { v.(*ORMap[string, string]).At(fmt.Sprint(i)).Set(na, "v") },
		read:  func(v Value, i int) bool { return v.(*ORMap[string, string]).Contains(fmt.Sprint(i)) },
	},
	"ORMultiMap": {
		fresh: func() Value { return &ORMultiMap[string, string]{} },
		put:   func(v Value, i int) { v.(*ORMultiMap[string, string]).Add(na, fmt.Sprint(i), "v") },
		read:  func(v Value, i int) bool { return len(v.(*ORMultiMap[string, string]).Values(fmt.Sprint(i))) == 1 },
	},
	"PNCounterMap": {
		fresh: func() Value { return &PNCounterMap[string]{} },
		put:   func(v Value, i int) { v.(*PNCounterMap[string]).Add(na, fmt.Sprint(i), 1) },
		read:  func(v Value, i int) bool { _, ok := v.(*PNCounterMap[string]).Count(fmt.Sprint(i)); return ok },
	},
}

// changeCopyRead changes one key of a map of n, copies it and reads the key of the copy.
func changeCopyRead(name string, n int) func() bool {
	m, i := indexedMaps[name], 0
	v := m.fresh()
	for k := range n {
		m.put(v, k)
	}
	return func() bool {
		i = (i + 1) % n
		m.put(v, i)
		return m.read(v.Clone(), i)
	}
}

// TestCopiesOfMapsKeepTheirIndex: a reader of a copy of a map builds no index of all keys,
// and neither does a writer.
func TestCopiesOfMapsKeepTheirIndex(t *testing.T) {
	for name := range indexedMaps {
		step := changeCopyRead(name, 10_000)
		step()
		if n := testing.AllocsPerRun(300, func() {
			if !step() {
				t.Errorf("%s: the key is not there", name)
			}
		}); n > 100 {
			t.Errorf("%s: %v allocations for a change, a copy and a read", name, n)
		}
	}
}

// BenchmarkMapCopyRead has 100,000 keys.
func BenchmarkMapCopyRead(b *testing.B) {
	for name := range indexedMaps {
		b.Run(name, func(b *testing.B) {
			step := changeCopyRead(name, 100_000)
			b.ReportAllocs()
			for b.Loop() {
				if !step() {
					b.Fatal("the key is not there")
				}
			}
		})
	}
}
