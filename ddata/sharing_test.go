package ddata

import (
	"fmt"
	"runtime"
	"testing"
)

// A large value costs its readers what changes of it, not what it holds: the bytes that are
// allocated for a change hardly depend on the size.
func TestStatesShareWhatHasNotChanged(t *testing.T) {
	t.Run("ORSet", func(t *testing.T) {
		costsWhatChanges(t, ORSetKey[string]("k"), func(s *ORSetTx[string], e string) { s.Add(e) }, ORSet[string].Len)
	})
	t.Run("LWWMap", func(t *testing.T) {
		costsWhatChanges(t, LWWMapKey[string, string]("k"), func(m *LWWMapTx[string, string], e string) { m.Set(e, "v") }, LWWMap[string, string].Len)
	})
	t.Run("GSet", func(t *testing.T) {
		costsWhatChanges(t, GSetKey[string]("k"), func(s *GSetTx[string], e string) { s.Add(e) }, GSet[string].Len)
	})
}

func costsWhatChanges[V, T any](t *testing.T, key Key[V, T], add func(T, string), size func(V) int) {
	const few, times, changes = 4_000, 10, 100
	for name, reader := range map[string]func(d *Data) (seen func(n int)){
		"subscriber": func(d *Data) func(int) {
			at := make(chan int, 2*changes)
			t.Cleanup(Subscribe(d, key, func(v V) { at <- size(v) }))
			return func(n int) {
				for n != <-at {
				}
			}
		},
		"Get": func(d *Data) func(int) {
			return func(n int) {
				v, err := Get(t.Context(), d, key, Local)
				if must(t, err); size(v) != n {
					t.Errorf("%d elements, must be %d", size(v), n)
				}
			}
		},
	} {
		cost := func(n int) float64 {
			d := alone(t)
			insert := func(from, to int) {
				must(t, Update(t.Context(), d, key, Local, func(tx T) error {
					for i := from; i < to; i++ {
						add(tx, fmt.Sprint(i))
					}
					return nil
				}))
			}
			insert(0, n)
			seen := reader(d)
			seen(n)
			return bytesPer(changes, func(i int) {
				insert(n+i, n+i+1)
				seen(n + i + 1)
			})
		}
		little, much := cost(few), cost(few*times)
		t.Logf("%s: %.0f bytes per change of %d elements, %.0f of %d", name, little, few, much, few*times)
		if much > 4*little {
			t.Errorf("%s: %.1f times the bytes per change at %d times the size", name, much/little, times)
		}
	}
}

// bytesPer returns how many bytes are allocated for each of n calls of f.
func bytesPer(n int, f func(i int)) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		f(i)
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}
