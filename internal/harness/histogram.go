package harness

import (
	"io"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// histogramMax is the longest duration that a Histogram tells from longer ones.
	histogramMax = 10 * time.Minute
	// histogramDigits is how many significant digits of a duration a Histogram keeps.
	histogramDigits = 4
)

// Histogram counts durations from 1 ns to 10 min in buckets of at most 0.01 % of their value.
// It does not change, so it is safe for concurrent use.
type Histogram struct {
	counts *hdrhistogram.Histogram
}

// HistogramOf returns a histogram of times. Times out of range count as the nearest one in range.
// Its memory is for the longest of the times: 3.5 MB for 10 min, 2.2 MB for 1 s, 0.3 MB for none. The buckets of
// all histograms have the same bounds.
func HistogramOf(times []time.Duration) *Histogram {
	inRange := func(d time.Duration) int64 { return int64(min(max(d, 0), histogramMax)) }
	longest := int64(2) // the least that a histogram from 1 on can be made for
	for _, d := range times {
		longest = max(longest, inRange(d))
	}
	h := &Histogram{hdrhistogram.New(1, longest, histogramDigits)}
	for _, d := range times {
		_ = h.counts.RecordValue(inRange(d)) // it fails only for values out of range
	}
	return h
}

// N returns how many durations were counted.
func (h *Histogram) N() int { return int(h.counts.TotalCount()) }

// Percentile returns the p-th percentile, 0 < p <= 100; zero if nothing was counted.
func (h *Histogram) Percentile(p float64) time.Duration {
	return roundToDigits(h.counts.ValueAtPercentile(p))
}

// roundToDigits rounds nanoseconds to the digits that a Histogram keeps.
func roundToDigits(n int64) time.Duration {
	unit := math.Pow10(max(0, int(math.Log10(float64(max(n, 1))))-histogramDigits+1))
	return time.Duration(math.Round(float64(n)/unit) * unit)
}

// Quantiles returns the quantiles, in milliseconds.
func (h *Histogram) Quantiles() Quantiles {
	at := func(p float64) float64 { return Milliseconds(h.Percentile(p)) }
	return Quantiles{N: h.N(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: at(100)}
}

// WritePercentiles writes the distribution in milliseconds, in the text form .hgrm of HdrHistogram.
func (h *Histogram) WritePercentiles(w io.Writer) error {
	const ticksPerHalf = 5
	_, err := h.counts.PercentilesPrint(w, ticksPerHalf, float64(time.Millisecond))
	return err
}

// Step is one point of a distribution: Percent of the durations lasted at most MS.
type Step struct {
	Percent float64 `json:"percent"`
	MS      float64 `json:"ms"`
}

// Curve returns the distribution, in steps that halve the distance to 100 %.
func (h *Histogram) Curve() []Step {
	if h.N() == 0 {
		return nil
	}
	var out []Step
	for _, b := range h.counts.CumulativeDistribution() {
		out = append(out, Step{b.Quantile, Milliseconds(roundToDigits(b.ValueAt))})
	}
	return out
}
