package chaos

import (
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// Cost is what the processes at one place took in one phase of the run.
type Cost struct {
	Place string `json:"place"`
	// During is set for times that touch a fault, else they lie before, between or after.
	During bool `json:"during_faults"`
	// CPUPercent is processor time over time, in percent of one processor.
	CPUPercent float64 `json:"cpu_percent"`
	// MemoryMaxBytes is the most memory that the runtime held.
	MemoryMaxBytes uint64  `json:"memory_max_bytes"`
	SentPerS       float64 `json:"sent_bytes_per_s"`
	ReceivedPerS   float64 `json:"received_bytes_per_s"`
	Seconds        float64 `json:"seconds"`
}

// costs fills what each place cost, from the reports of its processes.
func (r *Report) costs(c *campaign) {
	type key struct {
		place  string
		during bool
	}
	sums := map[key]*Cost{}
	for _, p := range c.fleet.All() {
		at := p.Costs()
		for i := 1; i < len(at); i++ {
			a, b := at[i-1], at[i]
			if a.At.Before(c.calmFrom) || b.At.After(c.ended) {
				continue
			}
			k := key{p.Name, c.touchesFault(a.At, b.At)}
			if sums[k] == nil {
				sums[k] = &Cost{Place: k.place, During: k.during}
			}
			sums[k].add(a, b)
		}
	}
	for _, s := range sums { // order-free: sorted below
		s.CPUPercent, s.SentPerS, s.ReceivedPerS = 100*s.CPUPercent/s.Seconds, s.SentPerS/s.Seconds, s.ReceivedPerS/s.Seconds
		r.Costs = append(r.Costs, *s)
	}
	slices.SortFunc(r.Costs, func(a, b Cost) int {
		switch {
		case a.Place != b.Place:
			return strings.Compare(a.Place, b.Place)
		case a.During:
			return 1
		}
		return -1
	})
}

// add adds the time between two reports; the rates are sums until the end.
func (s *Cost) add(a, b fleet.CostAt) {
	s.Seconds += b.At.Sub(a.At).Seconds()
	s.CPUPercent += (b.CPUMS - a.CPUMS) / float64(time.Second/time.Millisecond)
	s.MemoryMaxBytes = max(s.MemoryMaxBytes, b.MemoryBytes)
	s.SentPerS += counterGrowth(a.SentBytes, b.SentBytes)
	s.ReceivedPerS += counterGrowth(a.ReceivedBytes, b.ReceivedBytes)
}

// counterGrowth returns by how much a counter grew. It begins at 0 again with each incarnation.
func counterGrowth(from, to uint64) float64 {
	if to < from {
		return float64(to)
	}
	return float64(to - from)
}

func (c *campaign) touchesFault(from, to clock.Instant) bool {
	for i := range c.faults.Rounds {
		if ro := &c.faults.Rounds[i]; ro.From.Before(to) && from.Before(ro.To) {
			return true
		}
	}
	return false
}
