// Package run has what all parts of one simulated run share: time, random numbers, the
// configuration that the seed drew, the trace and the coverage; and the way in which a check
// stops the run.
package run

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/script"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Run is one run.
type Run struct {
	Time     virtual.Schedule
	Rand     Streams
	Config   seed.Config
	Trace    trace.Trace
	Names    trace.Names
	Coverage coverage.Counter
	// Record is nil unless the run is recorded.
	Record *record.Recorder

	// Faults are the faults that the run has come to, if they are gated by Strikes. Only is nil if
	// all of them strike.
	Faults []script.Fault
	Only   map[int]bool

	// Calm is set when faults have ended.
	Calm bool
}

// Streams are the random numbers of a run. Each part draws from a stream of its own.
type Streams struct {
	Setup, Net, Fault, Contact, Decline, Wall, Seal, Stranger, Apart, Disk, Trouble, Clock, Route, Scratch, Rate, Request, Line, Worker, Entity *virtual.Rand
}

// New returns a run that has drawn its configuration.
func New(o *seed.Options) *Run {
	stream := func(n uint64) *virtual.Rand { return virtual.NewRand(o.Seed, n) }
	return &Run{
		Config: seed.Draw(o),
		Rand: Streams{
			Setup: stream(1), Net: stream(2), Fault: stream(3), Contact: stream(4), Decline: stream(7), Wall: stream(10), Seal: stream(21),
			Stranger: stream(31), Apart: stream(41), Disk: stream(43), Trouble: stream(45), Clock: stream(47), Route: stream(51), Scratch: stream(60),
			Rate: stream(62), Request: stream(64), Line: stream(66), Worker: stream(76), Entity: stream(82),
		},
	}
}

// Now returns the present Instant.
func (r *Run) Now() virtual.Instant { return r.Time.Now() }

// After plans do for d from now.
func (r *Run) After(d time.Duration, do func()) { r.Time.After(d, do) }

// Hit counts a rare state.
func (r *Run) Hit(m coverage.Mark) { r.Coverage.Hit(m) }

// Event records an event at a node, which is a label, or "" for an event of the run.
func (r *Run) Event(node, kind string, num uint64, detail func() string) {
	r.Trace.Event(r.Now(), node, kind, num, detail)
	if r.Record != nil {
		r.Record.Note(trace.Slot(node), kind, num, detail)
	}
}

// Strikes counts a fault, and reports whether it strikes.
func (r *Run) Strikes(kind string) bool {
	f := script.Fault{Number: len(r.Faults) + 1, At: time.Duration(r.Now()), Kind: kind}
	r.Faults = append(r.Faults, f)
	return r.Only == nil || r.Only[f.Number]
}

// Struck lists the faults that struck.
func (r *Run) Struck() []script.Fault {
	struck := []script.Fault{}
	for _, f := range r.Faults {
		if r.Only == nil || r.Only[f.Number] {
			struck = append(struck, f)
		}
	}
	return struck
}

// Until plays events up to a time.
func (r *Run) Until(end virtual.Instant) {
	for r.Time.Next(end) {
	}
}

// UntilTrue plays until a condition holds, which it checks after every step, or until the
// limit has passed. It reports whether the condition holds.
func (r *Run) UntilTrue(limit, step time.Duration, ok func() bool) bool {
	end := r.Now().Add(limit)
	for r.Now() < end {
		if ok() {
			return true
		}
		r.Until(min(end, r.Now().Add(step)))
	}
	return ok()
}

// Failure stops a run: the check that finds it panics with it.
type Failure struct{ What string }

// Fail stops the run.
func (r *Run) Fail(id, format string, args ...any) {
	panic(Failure{id + ": " + fmt.Sprintf(format, args...)})
}

// Judge stops the run at a violation.
func (r *Run) Judge(v *invariant.Violation) {
	if v != nil {
		panic(Failure{r.Names.Readable(v.Error())})
	}
}

// Parts reports whether a setting of the run may part a cluster into lineages, and let leases
// overlap. Then the checkers judge each lineage by itself.
func (r *Run) Parts() bool { return len(r.Config.Weakens()) > 0 }

// LeaseOutlives bounds for how long a lease may outlive the removal of its node: a lease is at
// most that long by the clock of the node.
func (r *Run) LeaseOutlives() time.Duration {
	lease, slow := r.Config.Lease, time.Duration(r.Config.DriftPPM)
	if r.Config.DriftBeyond {
		slow *= seed.BeyondFactor
	}
	return lease + lease*slow/(2_000_000-slow) + time.Millisecond
}

// Drift is by how much two clocks may disagree over d.
func (r *Run) Drift(d time.Duration) time.Duration {
	return d * time.Duration(r.Config.DriftPPM) / 1_000_000
}

// Number returns 1 for true.
func Number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
