package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/mutant"
)

// Config selects the run to play. The zero Config plays seed 0.
type Config struct {
	// Seed decides everything: configuration, schedule, faults.
	Seed uint64
	// Nodes fixes the number of hosts, at most 26; 0 lets the seed draw 1 to 7.
	Nodes int
	// Trace, if set, gets one line per event.
	Trace io.Writer
	// Tail is how many of the newest lines a failure reports. It slows runs down, so
	// Run plays a failed seed again with a tail of its own when it is 0.
	Tail int
	// ViewsOnly leaves the replicator and sharding out.
	ViewsOnly bool
	// Mutant plants a bug; tests of the checkers use it.
	Mutant mutant.Kind

	// onView, set by tests, gets every new view core: to plant bugs.
	onView func(*view.Core)
	// orderly, set by tests, has nothing happen but joins, leaves and moves.
	orderly bool
	again   bool
	// apart, set by tests, has every run be one of two clusters that meet.
	apart bool
	// clocks, set by tests, has the clocks of stamps jump in every run.
	clocks bool
	// trouble, set by tests, has frames be damaged and handlers block in every run.
	trouble bool
	// rings, set by tests, has cuts be rings in every run.
	rings bool
	// disks, set by tests, has every run be one with durable words.
	disks bool
	// aim, set by tests, is the aim of every run.
	aim aim
}

// Result is the outcome of a run.
type Result struct {
	Seed uint64
	// Hash is the hash of all events: equal seeds give equal hashes.
	Hash uint64
	// Events counts traced events, Delivered handled frames.
	Events, Delivered int
	// Virtual is how much time passed in the run.
	Virtual time.Duration
	// Marks counts the rare states that were seen.
	Marks Marks
	// Nodes and Ending are what the seed drew.
	Nodes  int
	Ending string
	// Failure is nil when every check held.
	Failure *Failure
}

// Failure describes a violation and how to replay it.
type Failure struct {
	What string
	// States are all processes at that moment, one a line.
	States string
	// Tail are the newest events.
	Tail string
	// Stack is set when a core panicked.
	Stack string
	// Replay is the command that plays the run again.
	Replay string
}

func (f *Failure) Error() string {
	s := f.What + "\n\nlast events:\n" + f.Tail + "\n\nstates:\n" + f.States
	if f.Stack != "" {
		s += "\n" + f.Stack
	}
	return s + "\nreplay: " + f.Replay
}

// Run plays one seed to its end. It is deterministic: the same Config, built from
// the same commit, gives the same Result. It uses the calling goroutine only.
func Run(cfg Config) Result {
	w := newWorld(&cfg)
	f := w.guarded()
	r := Result{
		Seed: cfg.Seed, Hash: w.hash, Events: w.lines, Delivered: w.delivered,
		Virtual: time.Duration(w.now), Marks: Marks{}, Nodes: w.swarm.nodes, Ending: w.swarm.ending.String(),
	}
	for m, n := range w.marks {
		if n > 0 {
			r.Marks[mark(m).String()] = n
		}
	}
	if f == nil {
		return r
	}
	if cfg.Tail == 0 && !cfg.again {
		again := cfg
		again.Tail, again.again, again.Trace = 120, true, nil
		return Run(again)
	}
	test := "TestSeeds"
	switch {
	case cfg.orderly:
		test = "TestOrderly"
	case cfg.apart:
		test = "TestApart"
	case cfg.trouble:
		test = "TestTrouble"
	case cfg.clocks:
		test = "TestClocks"
	case cfg.disks:
		test = "TestDisks"
	case cfg.rings:
		test = "TestRings"
	case cfg.aim != aimNone:
		test = "TestAimed/" + cfg.aim.String()
	}
	r.Failure = &Failure{
		What: fmt.Sprintf("seed %d: %s", cfg.Seed, f.what), States: w.states(), Tail: w.lastLines(), Stack: f.stack,
		Replay: fmt.Sprintf("PEERAGE_SEED=%d go test ./internal/sim -run %s -v", cfg.Seed, test),
	}
	return r
}
