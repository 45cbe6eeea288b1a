package sim

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

var seedsFlag = flag.Int("seeds", 0, "how many seeds to play; 0 means PEERAGE_SEEDS, or 2000")

func envUint(name string) (uint64, bool) {
	v, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	return v, err == nil
}

// TestSeeds plays seeds 0 to n-1, or the one in PEERAGE_SEED with its trace.
func TestSeeds(t *testing.T) {
	if seed, ok := envUint("PEERAGE_SEED"); ok {
		cfg := Config{Seed: seed}
		if testing.Verbose() {
			cfg.Trace = os.Stdout
		}
		if r := Run(cfg); r.Failure != nil {
			t.Fatal(r.Failure)
		}
		return
	}
	n := *seedsFlag
	if v, ok := envUint("PEERAGE_SEEDS"); ok && n == 0 {
		n = int(v)
	}
	if n == 0 {
		n = 2000
		if testing.Short() {
			n = 200
		}
	}
	marks := campaign(t, Config{}, 0, n)
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		t.Logf("%8d %s", marks[name], name)
	}
	if n < 2000 {
		return
	}
	for _, name := range markNames {
		if marks[name] == 0 {
			t.Errorf("no run has seen: %s", name)
		}
	}
}

// campaign plays seeds and reports the first few failures.
func campaign(t *testing.T, cfg Config, first uint64, n int) Marks {
	t.Helper()
	marks := Marks{}
	failures, events, virtual := 0, 0, time.Duration(0)
	start := time.Now()
	for i := range n {
		cfg.Seed = first + uint64(i)
		r := Run(cfg)
		events += r.Events
		virtual += r.Virtual
		for k, v := range r.Marks {
			marks[k] += v
		}
		if r.Failure != nil {
			if failures++; failures <= 3 {
				t.Error(r.Failure)
			} else {
				t.Errorf("also seed %d: %s", r.Seed, r.Failure.What)
			}
			if failures >= 20 {
				break
			}
		}
	}
	took := time.Since(start)
	t.Logf("%d seeds, %d events, %v of virtual time in %v: %.1f seeds/s", n, events, virtual.Round(time.Second), took.Round(time.Millisecond), float64(n)/took.Seconds())
	return marks
}
