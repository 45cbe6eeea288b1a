package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Quantiles are of durations, in milliseconds.
type Quantiles struct {
	N     int     `json:"n"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	P9999 float64 `json:"p99_99_ms"`
	Max   float64 `json:"max_ms"`
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// FormatMillis formats milliseconds in the unit that people would use, with as many digits as
// they would read: 0.25 ms, 38 ms, 1 s, 2.81 s, 12 s.
func FormatMillis(ms float64) string {
	switch {
	case ms >= 9995:
		return fmt.Sprintf("%.0f s", ms/1000)
	case ms >= 999.5:
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", ms/1000), "0"), ".") + " s"
	case ms >= 9.95:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2g ms", ms)
}

// FormatDuration formats a duration as FormatMillis does.
func FormatDuration(d time.Duration) string { return FormatMillis(Milliseconds(d)) }

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
