package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/history"
)

// Quantiles are of durations, in milliseconds.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// QuantilesOf returns the quantiles of times, which it sorts.
func QuantilesOf(times []time.Duration) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	slices.Sort(times)
	f := history.Failover{Times: times}
	return Quantiles{
		N: len(times), P50: Milliseconds(f.Percentile(50)), P90: Milliseconds(f.Percentile(90)), P99: Milliseconds(f.Percentile(99)), Max: Milliseconds(f.Percentile(100)),
	}
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Within words whether a bound or a target was met.
func Within(ok bool) string {
	if ok {
		return "met"
	}
	return "not met"
}

// Reasons lists failed attempts by reason, the most frequent first.
func Reasons(tries map[string]uint64) string {
	if len(tries) == 0 {
		return "none"
	}
	keys := slices.SortedFunc(maps.Keys(tries), func(a, b string) int {
		return cmp.Or(-cmp.Compare(tries[a], tries[b]), strings.Compare(a, b))
	})
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, tries[k]))
	}
	return strings.Join(parts, ", ")
}
