package crdt

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// largeValues have elements "0" to "699", on several pages, and are changed by one element.
var largeValues = map[string]struct {
	fresh    func() Value
	put, end func(v Value, e string, at uint64)
	elements func(v Value) map[string]bool
}{
	"ORSet": {
		fresh: func() Value { return &ORSet[string]{} },
		put:   func(v Value, e string, at uint64) { v.(*ORSet[string]).Add(na+NodeID(at%3), e) },
		end:   func(v Value, e string, _ uint64) { v.(*ORSet[string]).Remove(e) },
		elements: func(v Value) map[string]bool {
			return setOf(v.(*ORSet[string]).Elements())
		},
	},
	"LWWMap": {
		fresh: func() Value { return &LWWMap[string, string]{} },
		put:   func(v Value, e string, at uint64) { v.(*LWWMap[string, string]).Set(e, "v", Stamp{Time: at}) },
		end: func(v Value, e string, at uint64) {
			v.(*LWWMap[string, string]).Delete(e, Stamp{Time: at})
			v.(*LWWMap[string, string]).DropTombstones(func(_ string, s Stamp) bool { return s.Time%2 == 0 })
		},
		elements: func(v Value) map[string]bool {
			out := map[string]bool{}
			for k := range v.(*LWWMap[string, string]).All() {
				out[k] = true
			}
			return out
		},
	},
	"ORMap": {
		fresh:    func() Value { return &ORMap[string, string]{} },
		put:      func(v Value, e string, at uint64) { v.(*ORMap[string, string]).At(e).Set(na+NodeID(at%3), "v") },
		end:      func(v Value, e string, _ uint64) { v.(*ORMap[string, string]).Remove(e) },
		elements: func(v Value) map[string]bool { return setOf(v.(*ORMap[string, string]).Keys()) },
	},
	"ORMap under one key": {
		fresh: func() Value { return &ORMap[string, string]{} },
		put: func(v Value, e string, at uint64) {
			v.(*ORMap[string, string]).At("k", e).Add(na+NodeID(at%3), "v")
		},
		end:      func(v Value, e string, _ uint64) { v.(*ORMap[string, string]).At("k", e).Remove() },
		elements: func(v Value) map[string]bool { return setOf(v.(*ORMap[string, string]).At("k").Keys()) },
	},
	"ORMultiMap": {
		fresh:    func() Value { return &ORMultiMap[string, string]{} },
		put:      func(v Value, e string, at uint64) { v.(*ORMultiMap[string, string]).Add(na+NodeID(at%3), e, "v") },
		end:      func(v Value, e string, _ uint64) { v.(*ORMultiMap[string, string]).RemoveKey(e) },
		elements: func(v Value) map[string]bool { return setOf(v.(*ORMultiMap[string, string]).indexByKey().Keys()) },
	},
	"ORMultiMap of one key": {
		fresh:    func() Value { return &ORMultiMap[string, string]{} },
		put:      func(v Value, e string, at uint64) { v.(*ORMultiMap[string, string]).Add(na+NodeID(at%3), "k", e) },
		end:      func(v Value, e string, _ uint64) { v.(*ORMultiMap[string, string]).Remove("k", e) },
		elements: func(v Value) map[string]bool { return setOf(v.(*ORMultiMap[string, string]).Values("k")) },
	},
	"PNCounterMap": {
		fresh:    func() Value { return &PNCounterMap[string]{} },
		put:      func(v Value, e string, at uint64) { v.(*PNCounterMap[string]).Add(na+NodeID(at%3), e, 1) },
		end:      func(v Value, e string, _ uint64) { v.(*PNCounterMap[string]).Remove(e) },
		elements: func(v Value) map[string]bool { return setOf(v.(*PNCounterMap[string]).indexByKey().Keys()) },
	},
	"GSet": {
		fresh:    func() Value { return &GSet[string]{} },
		put:      func(v Value, e string, _ uint64) { v.(*GSet[string]).Add(e) },
		end:      func(Value, string, uint64) {},
		elements: func(v Value) map[string]bool { return setOf(v.(*GSet[string]).Elements()) },
	},
}

func setOf(list []string) map[string]bool {
	out := map[string]bool{}
	for _, e := range list {
		out[e] = true
	}
	return out
}

// A copy shares memory with what it is a copy of, and none of the two ever sees the changes of
// the other, nor of a copy of a copy.
func TestCopiesAreApart(t *testing.T) {
	t.Parallel()
	for name, kind := range largeValues {
		t.Run(name, func(t *testing.T) {
			first := kind.fresh()
			for i := range uint64(700) {
				kind.put(first, fmt.Sprint(i), i+1)
			}
			rapid.Check(t, func(t *rapid.T) {
				copies := []Value{first.Clone()}
				must := []map[string]bool{kind.elements(first)}
				for at := range uint64(rapid.IntRange(1, 40).Draw(t, "steps")) {
					i := rapid.IntRange(0, len(copies)-1).Draw(t, "copy")
					e := fmt.Sprint(rapid.IntRange(0, 1400).Draw(t, "element"))
					switch rapid.IntRange(0, 3).Draw(t, "op") {
					case 0:
						copies, must = append(copies, copies[i].Clone()), append(must, maps.Clone(must[i]))
					case 1:
						if kind.end(copies[i], e, 1000+at); name != "GSet" {
							delete(must[i], e)
						}
					default:
						kind.put(copies[i], e, 1000+at)
						must[i][e] = true
					}
				}
				for i, v := range copies {
					if got := kind.elements(v); !maps.Equal(got, must[i]) {
						t.Fatalf("copy %d has %d elements, must have %d", i, len(got), len(must[i]))
					}
					if err := consistent(v); err != nil {
						t.Fatalf("copy %d: %v", i, err)
					}
				}
			})
		})
	}
}

// Readers of a copy need no lock while the value, and further copies of it, go on changing.
func TestCopiesAreReadWhileTheValueChanges(t *testing.T) {
	for name, kind := range largeValues {
		t.Run(name, func(t *testing.T) {
			v := kind.fresh()
			var readers sync.WaitGroup
			for i := range uint64(700) {
				kind.put(v, fmt.Sprint(i), i+1)
				if i%100 == 0 {
					c, n := v.Clone(), len(kind.elements(v))
					readers.Go(func() {
						if got := len(kind.elements(c)); got != n {
							t.Errorf("%d elements, must be %d", got, n)
						}
					})
				}
			}
			readers.Wait()
		})
	}
}

// A value is read by several goroutines, without a copy each, while it is copied and the copy
// changes: so the replicator serves readers of a snapshot and goes on with a copy (with -race).
func TestAValueIsReadWhileItIsCopied(t *testing.T) {
	for name, kind := range largeValues {
		t.Run(name, func(t *testing.T) {
			v := kind.fresh()
			at := uint64(0)
			for range 20 {
				for range 40 {
					at++
					kind.put(v, fmt.Sprint(at), at)
				}
				n := len(kind.elements(v)) // builds the index, which readers must not
				var readers sync.WaitGroup
				for range 2 {
					readers.Go(func() {
						for range 5 {
							if got := len(kind.elements(v)); got != n {
								t.Errorf("%d elements, must be %d", got, n)
							}
						}
					})
				}
				c := v.Clone()
				at++
				kind.put(c, fmt.Sprint(at), at)
				readers.Wait()
				v = c
			}
		})
	}
}
