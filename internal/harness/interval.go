package harness

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Interval is a confidence interval of a quantile, in milliseconds: of 100 runs of the same
// kind, 95 have the true value in theirs.
type Interval struct {
	Low  float64 `json:"low_ms"`
	High float64 `json:"high_ms"`
}

const (
	// resamples is how many times the rounds are drawn anew for an Interval.
	resamples = 1000
	// intervalOutside is the part of the draws on each side of an Interval.
	intervalOutside = 0.025
	// intervalRoundsMin is the least number of rounds with an Interval: fewer show nothing of
	// how much rounds differ.
	intervalRoundsMin = 5
)

// QuantileInterval returns the confidence interval of the p-th percentile of the durations of
// all rounds; nil for fewer than five rounds with durations. Durations of one round depend on
// each other. So it draws whole rounds, with replacement (the percentile bootstrap). Equal
// rounds have equal intervals.
func QuantileInterval(rounds [][]time.Duration, p float64) *Interval {
	type sample struct {
		of    time.Duration
		round int
	}
	var all []sample
	n := 0
	for _, times := range rounds {
		if len(times) == 0 {
			continue
		}
		for _, d := range times {
			all = append(all, sample{d, n})
		}
		n++
	}
	if n < intervalRoundsMin {
		return nil
	}
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.of, b.of) })
	sizes := make([]int, n)
	for _, s := range all {
		sizes[s.round]++
	}
	rng := rand.New(rand.NewPCG(uint64(n), uint64(len(all))))
	drawn := make([]time.Duration, 0, resamples)
	for range resamples {
		times, total := make([]int, n), 0 // how often each round was drawn
		for range n {
			round := rng.IntN(n)
			times[round]++
			total += sizes[round]
		}
		rank := int(math.Ceil(p / 100 * float64(total)))
		for _, s := range all {
			if rank -= times[s.round]; rank <= 0 {
				drawn = append(drawn, s.of)
				break
			}
		}
	}
	slices.Sort(drawn)
	outside := int(intervalOutside * resamples)
	return &Interval{Milliseconds(drawn[outside]), Milliseconds(drawn[resamples-1-outside])}
}

// FormatInterval words a confidence interval behind its quantile; without one it is "".
func FormatInterval(i *Interval) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", FormatMillis(i.Low), FormatMillis(i.High))
}
