package dashboard

import (
	"slices"

	"github.com/peerage-go/peerage/internal/figures"
)

// growth sums cumulative buckets of nodes at the last poll and at this one.
type growth struct{ before, now []uint64 }

// addNode adds the buckets of one node. It leaves out a node without buckets, and one that has reset
// them since the last poll.
func (g *growth) addNode(before, now []uint64) {
	last := len(now) - 1
	if last >= 0 && (len(before) == 0 || before[last] <= now[last]) {
		g.before, g.now = addCounts(g.before, before), addCounts(g.now, now)
	}
}

// addCounts adds b to a, which may be nil.
func addCounts(a, b []uint64) []uint64 {
	if len(a) < len(b) {
		a = append(a, make([]uint64, len(b)-len(a))...)
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// percentiles returns the median and the 99th percentile, in milliseconds, of what was added
// since the last poll; -1 if nothing was.
func (g *growth) percentiles() (p50, p99 float64) {
	if len(g.now) == 0 {
		return -1, -1
	}
	before := addCounts(slices.Clone(g.before), make([]uint64, len(g.now)))
	counts := make([]uint64, len(g.now))
	for i, n := range g.now {
		counts[i] = n - min(before[i], n)
	}
	return quantileMillis(counts, 0.5), quantileMillis(counts, 0.99)
}

// quantileMillis interpolates inside a bucket, as Prometheus does.
func quantileMillis(cumulative []uint64, q float64) float64 {
	bounds := figures.LatencyBounds()
	all := cumulative[len(cumulative)-1]
	if all == 0 {
		return -1
	}
	rank, low, below := q*float64(all), 0.0, 0.0
	for i, bound := range bounds {
		if n := float64(cumulative[i]); n >= rank {
			return 1000 * (low + (bound-low)*(rank-below)/max(n-below, 1))
		}
		low, below = bound, float64(cumulative[i])
	}
	return 1000 * bounds[len(bounds)-1]
}
