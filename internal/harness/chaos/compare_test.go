package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

// measured returns a report in which a kill takes so many milliseconds.
func measured(ms float64) *Report {
	return &Report{
		Load: Load{Before: 1600}, Availability: Availability{Due: 1000, Prompt: 900, Answered: 990},
		Before: Latency{Quantiles: harness.Quantiles{N: 10, P50: 1, P99: 2, Max: 3}},
		Failovers: []Failover{{
			Kind: "kill", Total: harness.Quantiles{N: 5, P50: ms, P99: 2 * ms, Max: 3 * ms}, P50Interval: &harness.Interval{Low: ms - 1, High: ms + 1},
		}, {Kind: "kill-rest"}},
		Recovery: []Recovery{{Kind: "kill", Quantiles: harness.Quantiles{P50: ms, P99: 0}}},
		Costs: []Cost{
			{Place: "a", CPUPercent: 10, MemoryMaxBytes: 7, SentPerS: 100}, {Place: "b", CPUPercent: 20, MemoryMaxBytes: 9, SentPerS: 300},
			{Place: "b", CPUPercent: 90, During: true},
		},
		Config: Config{Nodes: 5, Every: 20 * time.Millisecond},
		Env:    harness.Environment{CPUs: 2, Load: "1.0"},
	}
}

// A comparison has the figures of both runs with their ratio. A figure that one run lacks has no
// ratio, nor has one that was zero.
func TestRunsAreCompared(t *testing.T) {
	now, old := measured(30), measured(40)
	old.Recovery = append(old.Recovery, Recovery{Kind: "stop", Quantiles: harness.Quantiles{P50: 8, P99: 9}})
	c := Compare(now, old)
	figure := func(name string) Compared {
		i := slices.IndexFunc(c.Figures, func(f Compared) bool { return f.Name == name })
		if i < 0 {
			t.Fatalf("no figure %q in %+v", name, c.Figures)
		}
		return c.Figures[i]
	}
	if len(c.Figures) != 16 {
		t.Errorf("%d figures", len(c.Figures))
	}
	f := figure("first answer after kill, p50")
	if *f.New != 30 || *f.Old != 40 || *f.Ratio != 0.75 || f.Unit != UnitMS || f.NewInterval.Low != 29 || f.OldInterval.High != 41 {
		t.Errorf("%+v", f)
	}
	if f := figure("without answer, stop, p50"); f.New != nil || f.Ratio != nil || *f.Old != 8 {
		t.Errorf("%+v", f)
	}
	if f := figure("without answer, kill, p99"); f.Ratio != nil || *f.New != 0 || *f.Old != 0 {
		t.Errorf("%+v", f)
	}
	for name, want := range map[string]float64{
		"answered within 100 ms": 90, "answered ever": 99, "latency before faults, max": 3,
		"processor of a node": 15, "memory of a node, at most": 9, "sent by a node, per second": 200,
	} {
		if f := figure(name); *f.New != want || *f.Ratio != 1 {
			t.Errorf("%s: %v, ratio %v, want %v", name, *f.New, *f.Ratio, want)
		}
	}
	if len(c.Differ) != 0 {
		t.Errorf("equal settings differ: %q", c.Differ)
	}
}

// Settings and machines that differ are named, the load average is not.
func TestDifferentSettingsAreNamed(t *testing.T) {
	now, old := measured(30), measured(30)
	now.Config.Nodes, now.Config.Work, now.Env.CPUs, now.Env.Load = 3, "set", 16, "7"
	want := []string{"nodes: 3, was 5", `workload: "set", was none`, "cpus: 16, was 2"}
	if got := Compare(now, old).Differ; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
