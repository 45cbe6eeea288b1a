package view

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

var (
	seedsFlag = flag.Int("seeds", 0, "how many seeds TestSeeds plays (default: the size that internal/testsize sets, or $PEERAGE_SEEDS)")
	seedFlag  = flag.Uint64("seed", 0, "play this one seed and print it")
)

func seedCount() int {
	n := testsize.Runs(300, 500, 3000)
	if e, err := strconv.Atoi(os.Getenv("PEERAGE_SEEDS")); err == nil && e > 0 {
		n = e
	}
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	return n
}

// playSeed plays one seed and returns the failure, "" if none.
func playSeed(seed uint64, loud bool) (s *swarm, wrong string) {
	s = newSwarm(seed)
	s.quiet = !loud
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(fmt.Sprintf("seed %d: %v", seed, r))
			}
			wrong = f.text
		}
	}()
	s.play()
	return s, ""
}

// playSeeds plays seeds until one fails, and returns the lowest failing one found.
func playSeeds(from, n int, each func(*swarm)) (failed uint64, wrong string) {
	var next, bad atomic.Int64
	next.Store(int64(from))
	bad.Store(1 << 62)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= int64(from+n) || seed > bad.Load() {
					return
				}
				s, text := playSeed(uint64(seed), false)
				mu.Lock()
				if text != "" && seed < bad.Load() {
					bad.Store(seed)
					wrong = text
				}
				if each != nil {
					each(s)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wrong == "" {
		return 0, ""
	}
	return uint64(bad.Load()), wrong
}

func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		s, wrong := playSeed(*seedFlag, true)
		t.Log(s)
		t.Log(strings.Join(s.log[max(0, len(s.log)-400):], "\n"))
		t.Log(s.states())
		if wrong != "" {
			t.Fatal(wrong)
		}
		return
	}
	marks := map[string]int{}
	failed, wrong := playSeeds(1, seedCount(), func(s *swarm) {
		for k, n := range s.marks {
			marks[k] += n
		}
	})
	if wrong != "" {
		t.Fatalf("%s\nreplay: go test ./internal/core/view -run TestSeeds -seed %d -v", wrong, failed)
	}
	for _, k := range slices.Sorted(maps.Keys(marks)) {
		t.Logf("%8d %s", marks[k], k)
	}
}

// TestSeedsRepeat plays seeds twice: the whole run is a function of the seed.
func TestSeedsRepeat(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		a, _ := playSeed(seed, false)
		b, _ := playSeed(seed, true)
		if a.hash != b.hash {
			t.Fatalf("seed %d: two runs, two hashes: %x and %x", seed, a.hash, b.hash)
		}
	}
}

// TestManySeeds plays on after failures and counts them by kind; for hunting.
func TestManySeeds(t *testing.T) {
	if *seedsFlag == 0 {
		t.Skip("for hunting: give -seeds")
	}
	kinds := map[string][]uint64{}
	for from := int(max(*seedFlag, 1)); from <= *seedsFlag; {
		failed, wrong := playSeeds(from, *seedsFlag-from+1, nil)
		if wrong == "" {
			break
		}
		kind := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, wrong)
		kinds[kind[:min(len(kind), 60)]] = append(kinds[kind[:min(len(kind), 60)]], failed)
		from = int(failed) + 1
	}
	for kind, seeds := range kinds {
		t.Errorf("%d %s: %v", len(seeds), kind, seeds[:min(len(seeds), 12)])
	}
}

// scenario is a directed trace. It runs with every planted bug as well.
type scenario struct {
	name string
	run  func(w *world)
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { s.run(newWorld(t)) })
	}
}
