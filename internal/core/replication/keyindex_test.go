package replication

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// Names are those of the live keys, whatever has come, gone and been forgotten since they
// were last asked for.
func TestNamesAreThoseOfTheLiveKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2, nil)
	rng, live := rand.New(rand.NewPCG(1, 2)), map[string]bool{}
	for i := range 3000 {
		key := fmt.Sprintf("%c/%d", 'a'+rune(rng.IntN(3)), rng.IntN(400))
		if rng.IntN(3) == 0 {
			w.update(1, replicator.Local, replicator.Fence{}, operation.Op{Key: key, Delete: true})
			delete(live, key)
		} else {
			w.update(1, replicator.Local, replicator.Fence{}, addTo(1, key, "e"))
			live[key] = true
		}
		if i%100 != 0 {
			continue
		}
		w.run(time.Duration(rng.IntN(3)) * time.Second)
		for _, prefix := range []string{"", "a/", "b/1", "c/", "d", "a/39"} {
			var want []string
			for k := range live {
				if strings.HasPrefix(k, prefix) {
					want = append(want, k)
				}
			}
			slices.Sort(want)
			for _, n := range w.nodes {
				if n.id == 2 && rng.IntN(2) == 0 {
					continue
				}
				w.settle(5 * time.Second)
				if got := n.core.Keys(prefix); !slices.Equal(got, want) {
					t.Fatalf("step %d, prefix %q: %d names, not %d", i, prefix, len(got), len(want))
				}
			}
		}
	}
}

// BenchmarkKeys asks for 10 of 300,000 keys, with and without a key that is new each time.
func BenchmarkKeys(b *testing.B) {
	for _, fresh := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("new=%d", fresh), func(b *testing.B) {
			s := &store{}
			put := func(key string) { s.absorb(s.obtain(key), 1, 0, &crdt.Flag{}) }
			for i := range 300_000 {
				put(fmt.Sprintf("key/%06d", i))
			}
			b.ReportAllocs()
			n := 0
			s.liveNames("") // builds the index
			for b.Loop() {
				for range fresh {
					n++
					put(fmt.Sprint("other/", n))
				}
				if got := len(s.liveNames("key/12345")); got != 10 {
					b.Fatal(got)
				}
			}
		})
	}
}
