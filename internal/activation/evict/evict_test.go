package evict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// policies are the two of Kind, and the main area of TinyLFU by itself.
var policies = map[string]func(limit int) Policy[string]{
	"lru":       func(limit int) Policy[string] { return New[string](LRU, limit) },
	"segmented": func(limit int) Policy[string] { return newSegmented[string](limit) },
	"tiny":      func(limit int) Policy[string] { return New[string](TinyLFU, limit) },
}

// cache is a Policy with its owner.
type cache struct {
	p     Policy[string]
	in    map[string]*Node[string]
	limit int
	gone  []string
}

func newCache(policy string, limit int) *cache {
	return &cache{p: policies[policy](limit), in: map[string]*Node[string]{}, limit: limit}
}

// use uses a key and reports whether it was in.
func (c *cache) use(key string) bool {
	n, hit := c.in[key]
	if hit {
		c.p.Touch(n)
		return true
	}
	h := uint64(14695981039346656037)
	for _, b := range []byte(key) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	n = &Node[string]{Value: key, Hash: h}
	c.in[key] = n
	c.p.Add(n)
	for c.p.Len() > c.limit {
		out := c.p.Evict()
		delete(c.in, out.Value)
		c.gone = append(c.gone, out.Value)
	}
	return false
}

// The order in which each strategy gives up, after the same uses.
func TestWhoGoesFirst(t *testing.T) {
	for name, want := range map[string]string{
		"lru":       "d a b c e", // longest unused first
		"segmented": "d e a b c", // used once before used again
	} {
		c := newCache(name, 5)
		for key := range strings.SplitSeq("d a a b b c a b c e", " ") {
			c.use(key)
		}
		var got []string
		for c.p.Len() > 0 {
			got = append(got, c.p.Evict().Value)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		}
	}
}

// Whatever happens, a policy has exactly those that were added and not taken out.
func TestPoliciesLoseNobody(t *testing.T) {
	for name := range policies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := newCache(name, rapid.IntRange(1, 8).Draw(t, "limit"))
				for range rapid.IntRange(1, 200).Draw(t, "steps") {
					key := fmt.Sprint(rapid.IntRange(0, 15).Draw(t, "key"))
					switch rapid.IntRange(0, 9).Draw(t, "what") {
					case 0:
						if n := c.in[key]; n != nil {
							c.p.Remove(n)
							delete(c.in, key)
						}
					case 1:
						c.limit = rapid.IntRange(1, 8).Draw(t, "new limit")
						c.p.Resize(c.limit)
						for c.p.Len() > c.limit {
							delete(c.in, c.p.Evict().Value)
						}
					default:
						c.use(key)
					}
					if c.p.Len() != len(c.in) || len(c.in) > c.limit {
						t.Fatalf("%d in the policy, %d in the map, limit %d", c.p.Len(), len(c.in), c.limit)
					}
				}
				var left []string
				for n := c.p.Evict(); n != nil; n = c.p.Evict() {
					left = append(left, n.Value)
				}
				slices.Sort(left)
				if len(slices.Compact(left)) != len(c.in) {
					t.Fatalf("%q came out of %d", left, len(c.in))
				}
			})
		})
	}
}

// hits returns the share of hits, in percent.
func hits(policy string, limit, uses int, key func(i int) int) int {
	c := newCache(policy, limit)
	n := 0
	for i := range uses {
		if c.use(fmt.Sprint(key(i))) {
			n++
		}
	}
	return 100 * n / uses
}

func TestHitRates(t *testing.T) {
	const limit, uses = 200, 40_000
	zipf := func() func(int) int {
		z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 20_000)
		return func(int) int { return int(z.Uint64()) }
	}
	// A steady set with scans between, one key in two.
	scan := func() func(int) int {
		r := rand.New(rand.NewPCG(3, 4))
		return func(i int) int {
			if i%2 == 0 {
				return r.IntN(150)
			}
			return 1_000_000 + i
		}
	}
	loop := func() func(int) int { return func(i int) int { return i % 250 } }
	for _, load := range []struct {
		name          string
		make          func() func(int) int
		better, worse string
	}{
		{"zipf", zipf, "tiny", "lru"}, {"scan", scan, "tiny", "lru"}, {"scan", scan, "segmented", "lru"},
		{"loop", loop, "tiny", "lru"},
	} {
		better, worse := hits(load.better, limit, uses, load.make()), hits(load.worse, limit, uses, load.make())
		t.Logf("%s: %s %d %%, %s %d %%", load.name, load.better, better, load.worse, worse)
		if better < worse+5 {
			t.Errorf("%s: %s hits %d %%, %s %d %%", load.name, load.better, better, load.worse, worse)
		}
	}
}

// Where new keys are used again at once and never later, a small window is of no
// use: it must grow.
func TestTheWindowClimbs(t *testing.T) {
	c := newCache("tiny", 100)
	for i := range 200_000 {
		c.use(fmt.Sprint((i/60*20 + i%20) % 100_000))
	}
	if w := c.p.(*wTinyLFU[string]).climb.window; w < 0.05 {
		t.Errorf("window is %.2f of the room", w)
	}
}

// An unbounded limit costs as much memory as a large one, at most.
func TestTheSketchIsBounded(t *testing.T) {
	for _, limit := range []int{sketchLimitMax, math.MaxInt32, math.MaxInt} {
		s := newSketch(limit)
		if n := len(s.table) * 8; n > 16*sketchLimitMax || s.halveAt != halveFactor*sketchLimitMax {
			t.Errorf("limit %d: %d bytes, halved after %d uses", limit, n, s.halveAt)
		}
	}
}

func TestTheSketchCountsAndForgets(t *testing.T) {
	s := newSketch(100)
	for range 40 {
		s.addUse(1)
	}
	if s.estimate(1) != counterMax || s.estimate(2) != 0 {
		t.Errorf("estimates %d and %d", s.estimate(1), s.estimate(2))
	}
	for i := range uint64(1000) {
		s.addUse(i<<32 + 7)
	}
	if e := s.estimate(1); e > 8 {
		t.Errorf("%d after the halving", e)
	}
}

func BenchmarkUse(b *testing.B) {
	for name := range policies {
		b.Run(name, func(b *testing.B) {
			c := newCache(name, 1000)
			keys := make([]string, 1000)
			for i := range keys {
				keys[i] = fmt.Sprint(i)
				c.use(keys[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.use(keys[i*i%1000])
				i++
			}
		})
	}
}
