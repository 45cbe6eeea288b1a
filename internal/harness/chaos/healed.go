package chaos

import (
	"time"

	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// healedFor is how long a run goes on after its last fault has healed, so that each process reports at
// least once more what it holds.
const healedFor = 1200 * time.Millisecond

// Healed is what the processes held before the first fault, and at the end of the run, when the last
// one had healed. It has the places with reports of both times.
type Healed struct {
	Places           int    `json:"places"`
	MemoryBefore     uint64 `json:"memory_before_bytes"`
	MemoryAfter      uint64 `json:"memory_after_bytes"`
	GoroutinesBefore int    `json:"goroutines_before"`
	GoroutinesAfter  int    `json:"goroutines_after"`
}

// measureHealed compares the last report of each place before the first fault with its last one.
func (r *Report) measureHealed(c *campaign) {
	rounds := c.faults.Rounds
	if len(rounds) == 0 {
		return
	}
	from, to := rounds[0].From, rounds[0].To
	for i := range rounds {
		to = max(to, rounds[i].To)
	}
	before, after := map[string]fleet.CostAt{}, map[string]fleet.CostAt{}
	for _, p := range c.fleet.All() {
		for _, at := range p.Costs() {
			switch {
			case !at.At.Before(c.calmFrom) && at.At.Before(from):
				before[p.Name] = at
			case to.Before(at.At) && at.At.Before(c.ended):
				after[p.Name] = at
			}
		}
	}
	for place, a := range before { // order-free: sums
		b, both := after[place]
		if !both {
			continue
		}
		r.Healed.Places++
		r.Healed.MemoryBefore, r.Healed.MemoryAfter = r.Healed.MemoryBefore+a.MemoryBytes, r.Healed.MemoryAfter+b.MemoryBytes
		r.Healed.GoroutinesBefore, r.Healed.GoroutinesAfter = r.Healed.GoroutinesBefore+a.Goroutines, r.Healed.GoroutinesAfter+b.Goroutines
	}
}
