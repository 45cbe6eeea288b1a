package sim

import (
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/script"
	"github.com/peerage-go/peerage/internal/sim/seed"
)

// Config selects the run to play. The zero Config plays seed 0.
type Config struct {
	// Seed decides everything: configuration, schedule, faults.
	Seed uint64
	// Nodes fixes the number of hosts; 0 lets the seed draw 1 to 7.
	Nodes int
	// Shards fixes the number of shards of the first entity type; 0 lets the seed draw 1 to 32.
	Shards int
	// Trace, if set, gets one line per event.
	Trace io.Writer
	// Tail is how many of the newest lines a failure reports. It slows runs down, so
	// Run plays a failed seed again with a tail of its own when it is 0.
	Tail int
	// Brief leaves the newest lines out of a failure instead.
	Brief bool
	// Script, if set, is the run to play; of the other fields, Trace, Tail, Brief and Record count.
	Script *script.Script
	// Record keeps what happens in a form that can be drawn (package record). The hash of the
	// run stays the same.
	Record bool
	// ViewsOnly leaves the replicator and sharding out.
	ViewsOnly bool

	// narrow and noStrangers, set by tests, leave faults out that the fields below do not
	// ask for (seed.Options).
	narrow, noStrangers bool
	// orderly, set by tests, has nothing happen but joins, leaves and moves.
	orderly bool
	// apart, set by tests, has every run be one of two clusters that meet.
	apart bool
	// clocks, set by tests, has the clocks of stamps jump in every run.
	clocks bool
	// edges, set by tests, has the rates of clocks change, pauses strike inside steps, and addresses
	// be reused, in every run.
	edges bool
	// requests, set by tests, has clients of the replicators make all kinds of requests in every run.
	requests bool
	// reliable, set by tests, has reliable producers in every run.
	reliable bool
	// former, set by tests of single seeds, leaves out what seeds draw since November 2026.
	former bool
	// trouble, set by tests, has frames be damaged and handlers block in every run.
	trouble bool
	// rings, set by tests, has cuts be rings in every run.
	rings bool
	// replicated, set by tests, has states replicated in every run.
	replicated bool
	// daemons, set by tests, has a daemon in every run.
	daemons bool
	// remembered, set by tests, has entities that need no message in every run.
	remembered bool
	// weak, set by tests, has a setting of each run void some guarantees.
	weak bool
	// disks, set by tests, has every run be one with durable words.
	disks bool
	// aim, set by tests, is the aim of every run.
	aim seed.Aim
}

// largeNodes is the number of hosts of the runs of TestLargeClusters.
const largeNodes = 40

// options returns what cfg fixes of the configuration that the seed draws.
func (cfg *Config) options() *seed.Options {
	if cfg.Script != nil {
		return &seed.Options{Seed: cfg.Script.Seed, Given: &cfg.Script.Config}
	}
	return &seed.Options{
		Seed: cfg.Seed, Nodes: cfg.Nodes, Shards: cfg.Shards, Narrow: cfg.narrow, NoStrangers: cfg.noStrangers, Orderly: cfg.orderly, Apart: cfg.apart,
		Clocks: cfg.clocks, Trouble: cfg.trouble, Rings: cfg.rings, Disks: cfg.disks, Weak: cfg.weak, Edges: cfg.edges, Requests: cfg.requests, Reliable: cfg.reliable, Replicated: cfg.replicated, Daemons: cfg.daemons, Remembered: cfg.remembered, Former: cfg.former, Aim: cfg.aim,
	}
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
	// Weakened lists the settings that void some guarantees (GUARANTEES.md, G1). If it is empty,
	// all checkers judged in their strict forms.
	Weakened []string
	// Faults, Types and Goal describe what the seed drew, and when the run ends.
	Faults, Types, Goal string
	// Failure is nil when every check held.
	Failure *Failure
	// Script writes the run down, with the faults that struck.
	Script *script.Script
	// Recording is set if the run was recorded.
	Recording *record.Recording
}

// Marks counts hits by name.
type Marks map[string]int

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
	if cfg.Script != nil {
		cfg.Seed, cfg.ViewsOnly = cfg.Script.Seed, cfg.Script.ViewsOnly
	}
	w := newWorld(&cfg)
	played := &script.Script{Seed: cfg.Seed, ViewsOnly: cfg.ViewsOnly, Config: w.run.Config.Clone()}
	stopped := w.playGuarded()
	t := &w.run.Trace
	r := Result{
		Seed: cfg.Seed, Hash: t.Hash(), Events: t.Events(), Delivered: w.net.Delivered(),
		Virtual: time.Duration(w.run.Now()), Marks: w.run.Coverage.Counts(), Nodes: w.run.Config.Nodes, Ending: w.run.Config.Ending.String(),
		Weakened: w.run.Config.Weakens(),
	}
	r.Faults, r.Types, r.Goal = w.run.Config.DescribeFaults(), w.run.Config.DescribeTypes(), w.run.Config.Ending.Goal()
	if played.Faults = w.run.Struck(); cfg.Script != nil {
		played.Comment = cfg.Script.Comment
	}
	r.Script = played
	if stopped == nil {
		r.Recording = w.run.Record.Finish()
		return r
	}
	if cfg.Tail == 0 && !cfg.Brief {
		again := cfg
		again.Tail, again.Brief, again.Trace = 120, true, nil
		return Run(again)
	}
	stopped.What = fmt.Sprintf("seed %d: %s", cfg.Seed, stopped.What)
	w.run.Record.Add(record.Mark{Host: -1, Weight: record.Failure, Kind: "failure", Text: stopped.What})
	r.Recording = w.run.Record.Finish()
	stopped.States, stopped.Tail = w.describeProcesses(), t.LastLines()
	stopped.Replay = fmt.Sprintf("PEERAGE_SEED=%d go test ./internal/sim -run %s -v", cfg.Seed, cfg.test())
	if cfg.Script != nil {
		stopped.Replay = "go run ./cmd/peerage sim -v --script FILE"
	}
	r.Failure = stopped
	return r
}

// test returns the test that plays runs of this kind.
func (cfg *Config) test() string {
	switch {
	case cfg.orderly:
		return "TestOrderly"
	case cfg.apart:
		return "TestApart"
	case cfg.trouble:
		return "TestTrouble"
	case cfg.clocks:
		return "TestClocks"
	case cfg.edges:
		return "TestEdges"
	case cfg.reliable:
		return "TestReliable"
	case cfg.replicated:
		return "TestReplicated"
	case cfg.daemons:
		return "TestDaemons"
	case cfg.remembered:
		return "TestRemembered"
	case cfg.requests:
		return "TestRequests"
	case cfg.disks:
		return "TestDisks"
	case cfg.rings:
		return "TestRings"
	case cfg.Nodes == largeNodes:
		return "TestLargeClusters"
	case cfg.weak:
		return "TestWeakened"
	case cfg.aim != seed.AimNone:
		return "TestAimed/" + cfg.aim.String()
	}
	return "TestSeeds"
}

// playGuarded plays the seed and catches what stops it: a failed check, or a panic in
// a core, which is a failure as well.
func (w *world) playGuarded() (f *Failure) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case run.Failure:
			f = &Failure{What: r.What}
		default:
			f = &Failure{What: fmt.Sprintf("panic: %v", r), Stack: string(debug.Stack())}
		}
	}()
	w.playSeed()
	return nil
}
