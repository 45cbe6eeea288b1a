// Package shrink makes a script that fails smaller, and keeps it failing in the same check: fewer
// nodes, kinds of faults, types, shards and messages, a shorter run, and only the faults that
// matter.
package shrink

import (
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/script"
)

// Play plays a script. It returns the failure, "" if all checks hold, and the script with the
// faults that struck.
type Play func(*script.Script) (failure string, played *script.Script)

// PlaySim plays a script in the simulator.
func PlaySim(s *script.Script) (failure string, played *script.Script) {
	r := sim.Run(sim.Config{Script: s, Brief: true})
	if r.Failure == nil {
		return "", r.Script
	}
	return r.Failure.What, r.Script
}

// seedsTried is how many seeds are tried with each smaller configuration: another configuration
// makes another run of a seed, which often misses the failure.
const seedsTried = 80

// Shrinker makes one script smaller.
type Shrinker struct {
	play  Play
	check string
	// best is the smallest script so far, and failure how it fails.
	best    *script.Script
	failure string
	// plays counts the runs; the present phase ends with run number until.
	plays, until int
	// onStep is called with each smaller script.
	onStep func(what string, plays int)
}

// Minimize returns the smallest script that fails in the same check as s, how it fails, and how
// many runs that took, at most max. It calls onStep for each step. If s does not fail, the failure
// is "".
func Minimize(s *script.Script, play Play, most int, onStep func(what string, plays int)) (best *script.Script, failure string, plays int) {
	x := &Shrinker{play: play, best: s, until: most, onStep: onStep}
	failure, played := x.playOne(s)
	if failure == "" {
		return s, "", x.plays
	}
	x.best, x.failure, x.check = played, failure, CheckOf(failure)
	x.until = most * 3 / 4 // the faults have the rest
	x.shrinkConfig(seedsTried)
	x.until = most
	x.shrinkFaults()
	for x.shrinkConfig(1) {
		x.shrinkFaults()
	}
	return x.best, x.failure, x.plays
}

// CheckOf returns the name of the check that a failure names first: S1, L6, panic.
func CheckOf(failure string) string {
	if rest, is := strings.CutPrefix(failure, "seed "); is {
		_, failure, _ = strings.Cut(rest, ": ")
	}
	check, _, _ := strings.Cut(failure, ":")
	return check
}

func (x *Shrinker) playOne(s *script.Script) (failure string, played *script.Script) {
	x.plays++
	return x.play(s)
}

// tryScript takes a script as the best if it fails in the same check.
func (x *Shrinker) tryScript(s *script.Script, what string) bool {
	if x.plays >= x.until {
		return false
	}
	failure, played := x.playOne(s)
	if failure == "" || CheckOf(failure) != x.check {
		return false
	}
	x.best, x.failure = played, failure
	x.onStep(what, x.plays)
	return true
}

// shrinkConfig makes the configuration smaller until no step succeeds, and reports whether one
// did. With one seed, the faults that are listed stay.
func (x *Shrinker) shrinkConfig(seeds int) (smaller bool) {
	for again := true; again && x.plays < x.until; {
		again = false
		for _, step := range steps {
			for x.tryStep(step, seeds) {
				again, smaller = true, true
			}
		}
	}
	return smaller
}

func (x *Shrinker) tryStep(step step, seeds int) bool {
	c := x.best.Config.Clone()
	if !step.apply(&c) {
		return false
	}
	first := x.best.Seed
	for i := range seeds {
		s := &script.Script{Seed: first + uint64(i), Config: c.Clone(), ViewsOnly: x.best.ViewsOnly}
		if seeds == 1 {
			s.Faults = x.best.Faults
		}
		if x.tryScript(s, step.name) {
			return true
		}
	}
	return false
}

// shrinkFaults leaves out the faults that the failure does not need (delta debugging): parts of
// the list, ever smaller ones, from its end. A fault that is left out changes nothing before it.
func (x *Shrinker) shrinkFaults() {
	size := max(len(x.best.Faults)/2, 1)
	for x.plays < x.until && len(x.best.Faults) > 0 {
		smaller := false
		for end := len(x.best.Faults); end > 0; end -= size {
			n := len(x.best.Faults)
			end = min(end, n)
			from := max(end-size, 0)
			s := *x.best
			s.Faults = append(append([]script.Fault{}, x.best.Faults[:from]...), x.best.Faults[end:]...)
			smaller = x.tryScript(&s, fmt.Sprintf("%d faults of %d left out", end-from, n)) || smaller
		}
		if !smaller && size == 1 {
			return
		}
		if !smaller {
			size /= 2
		}
		size = max(min(size, len(x.best.Faults)), 1)
	}
}
