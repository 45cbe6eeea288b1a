package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/script"
	"github.com/peerage-go/peerage/internal/sim/shrink"
)

const simHelp = `Plays seeds of the simulator: all protocol cores of a small cluster on virtual
time, with faults, checked after every event. The same seed and commit give the
same run.

  peerage sim --seeds 1-20000            plays these seeds, on all processors
  peerage sim --seed 7 --draw out.html   draws one run as a page for a browser
  peerage sim --seed 7 --shrink          shrinks a run that fails to a script
  peerage sim --script FILE              plays a script of --shrink

Ends with the first seed that fails: its failure is printed with the newest
events, and the exit code is 1. --shrink then looks for a smaller run that fails
in the same check: fewer nodes, types, shards and messages, a shorter time, fewer
kinds of faults, and at last fewer single faults. It writes that run down as a
script: a text with one setting or fault on each line. --draw shows what happened,
with --shrink in the small run.`

// nodesMax and shardsMax are the largest numbers of hosts and shards that one can ask for.
const (
	nodesMax  = 200
	shardsMax = 100_000
)

// simulation is a run of `peerage sim`: its settings, and what was played.
type simulation struct {
	seed    uint64
	seeds   string
	nodes   int
	shards  int
	workers int
	verbose bool
	draw    string
	// shrink makes a failure small; file names a script, which is played in place of a seed.
	shrink bool
	file   string
	script *script.Script

	first, last uint64

	mu      sync.Mutex
	next    uint64
	played  uint64
	virtual time.Duration
	marks   map[string]bool
	failed  *sim.Result
	// weakened counts the seeds with settings that void some guarantees, by setting.
	weakened map[string]uint64
	// strict counts the seeds in which all checkers judged in their strict forms.
	strict uint64
	// single is the only run, if there is one seed.
	single *sim.Result
}

// simReport is the JSON of a simulation.
type simReport struct {
	Schema     int     `json:"schema"`
	Verdict    string  `json:"verdict"`
	FirstSeed  uint64  `json:"first_seed"`
	Seeds      uint64  `json:"seeds"`
	VirtualMS  float64 `json:"virtual_ms"`
	TookMS     float64 `json:"took_ms"`
	RareStates int     `json:"rare_states"`
	// Strict counts the seeds in which all checkers judged in their strict forms, and
	// Weakened the other ones, by the setting that voids some guarantees.
	Strict   uint64            `json:"strict_seeds"`
	Weakened map[string]uint64 `json:"weakened_seeds,omitempty"`
	// FailedSeed is the lowest seed that failed, Failure why.
	FailedSeed *uint64 `json:"failed_seed,omitempty"`
	Failure    string  `json:"failure,omitempty"`
}

func (p *program) simCommand() *cobra.Command {
	s := &simulation{marks: map[string]bool{}, weakened: map[string]uint64{}}
	cmd := &cobra.Command{
		Use: "sim", Short: "run seeds of the simulator", Long: simHelp, Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.runSim(s) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&s.seed, "seed", 1, "first seed")
	flags.StringVar(&s.seeds, "seeds", "1", "`number` of seeds to play from --seed on, or a range of seeds: 1-20000")
	flags.IntVar(&s.nodes, "nodes", 0, "number of hosts (0: the seed selects 1 to 7)")
	flags.IntVar(&s.shards, "shards", 0, "number of shards of the first type (0: the seed selects 1 to 32)")
	flags.IntVar(&s.workers, "parallel", runtime.NumCPU(), "number of seeds to play at the same time")
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "print every event")
	flags.BoolVar(&s.shrink, "shrink", false, "make the run that fails small, and write it as a script under testdata/regress")
	flags.StringVar(&s.file, "script", "", "`file` with a script to play in place of a seed")
	flags.StringVar(&s.draw, "draw", "", "`file` to draw the run in, as one page of HTML; of many seeds, the one that fails")
	return cmd
}

// setSeeds sets the first and the last seed from the flags.
func (s *simulation) setSeeds() error {
	from, to, isRange := strings.Cut(s.seeds, "-")
	if !isRange {
		n, err := strconv.ParseUint(s.seeds, 10, 64)
		if err != nil || n == 0 || s.seed+n-1 < s.seed {
			return fmt.Errorf("--seeds %q is neither a number above 0 nor a range such as 1-20000", s.seeds)
		}
		s.first, s.last = s.seed, s.seed+n-1
		return nil
	}
	first, err := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	if err != nil || err2 != nil || last < first || last-first+1 == 0 {
		return fmt.Errorf("--seeds %q is neither a number above 0 nor a range such as 1-20000", s.seeds)
	}
	s.first, s.last = first, last
	return nil
}

func (p *program) runSim(s *simulation) error {
	if err := errors.Join(s.setSeeds(), s.readScript()); err != nil {
		return usageError(err)
	}
	if s.nodes < 0 || s.nodes > nodesMax || s.shards < 0 || s.shards > shardsMax || s.workers < 1 {
		return usageError(errors.New("--nodes must be 0 to 200, --shards 0 to 100000, --parallel at least 1"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	out := p.progress()
	s.playAll(ctx, out)
	out.Stop()
	took := time.Since(began)
	if s.failed == nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d of %d seeds; none of them failed", s.played, s.count())
	}
	s.printOutcome(p.text(), took)
	if err := s.shrinkFailure(ctx, p.text(), shrink.PlaySim); err != nil {
		return err
	}
	if err := s.drawRun(p.text()); err != nil {
		return err
	}
	if p.json {
		if err := p.printJSON(s.newReport(took)); err != nil {
			return err
		}
	}
	if s.failed != nil {
		return verdictError(exitFailed)
	}
	return nil
}

func (s *simulation) count() uint64 { return s.last - s.first + 1 }

// playAll plays the seeds in order, several at the same time, until one fails or ctx ends. All
// seeds below the one that failed have been played then.
func (s *simulation) playAll(ctx context.Context, out io.Writer) {
	s.next = s.first
	workers := min(s.workers, int(min(s.count(), 1024)))
	if s.verbose {
		workers = 1
	}
	// A run makes much garbage and keeps little: this saves a quarter of the time.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	report := newSimProgress(out, s.count())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				seed, more := s.take(ctx)
				if !more {
					return
				}
				cfg := s.config(seed)
				if cfg.Record = s.draw != "" && s.count() == 1; s.verbose {
					cfg.Trace = out
				}
				s.countRun(sim.Run(cfg), report)
			}
		})
	}
	wg.Wait()
}

// take returns the next seed, if there is one to play.
func (s *simulation) take(ctx context.Context) (seed uint64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.failed != nil || s.next > s.last || s.next < s.first {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

// countRun counts a run.
func (s *simulation) countRun(r sim.Result, report *simProgress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.played++
	s.virtual += r.Virtual
	for m := range r.Marks {
		s.marks[m] = true
	}
	if len(r.Weakened) == 0 {
		s.strict++
	}
	for _, setting := range r.Weakened {
		s.weakened[setting]++
	}
	if r.Failure != nil && (s.failed == nil || r.Seed < s.failed.Seed) {
		s.failed = &r
	}
	report.printLine(s.played)
	if s.count() > 1 {
		return
	}
	if s.single = &r; r.Failure == nil {
		report.printRun(&r)
	}
}

// printOutcome prints the verdict for people.
func (s *simulation) printOutcome(out io.Writer, took time.Duration) {
	if r := s.failed; r != nil {
		fmt.Fprintf(out, "seed %d FAILED after %v of virtual time: %v\n", r.Seed, r.Virtual, r.Failure)
		fmt.Fprintf(out, "\nFAIL: seed %d of %d to %d; %d seeds played in %v.\n", r.Seed, s.first, s.last, s.played, took.Round(time.Millisecond))
		fmt.Fprintf(out, "  peerage sim %s --draw seed-%d.html   shows what happened\n", s.source(r.Seed), r.Seed)
		if !s.shrink && s.script == nil {
			fmt.Fprintf(out, "  peerage sim %s --shrink   makes the run small\n", s.source(r.Seed))
		}
		return
	}
	fmt.Fprintf(out, "PASS: %d seeds, %v of virtual time in %v (%.1f s per second), %d rare states seen\n%s\n",
		s.played, s.virtual.Round(time.Second), took.Round(time.Millisecond), s.virtual.Seconds()/took.Seconds(), len(s.marks), s.describeJudges())
}

// describeJudges describes in how many seeds which checkers judged.
func (s *simulation) describeJudges() string {
	text := fmt.Sprintf("%d with all checkers in their strict forms", s.strict)
	for i, setting := range slices.Sorted(maps.Keys(s.weakened)) {
		text += map[bool]string{true: "; by lineage, for settings that void some guarantees: ", false: ", "}[i == 0]
		text += fmt.Sprintf("%d with %s", s.weakened[setting], setting)
	}
	return text
}

// newReport returns the JSON of a simulation.
func (s *simulation) newReport(took time.Duration) simReport {
	r := simReport{
		Schema: 1, Verdict: "PASS", FirstSeed: s.first, Seeds: s.played,
		VirtualMS: harness.Milliseconds(s.virtual), TookMS: harness.Milliseconds(took), RareStates: len(s.marks),
		Strict: s.strict, Weakened: s.weakened,
	}
	if s.failed != nil {
		r.Verdict, r.FailedSeed, r.Failure = "FAIL", &s.failed.Seed, s.failed.Failure.Error()
	}
	return r
}

// simProgress prints how far a simulation is, every few seconds.
type simProgress struct {
	out         io.Writer
	all         uint64
	began, last time.Time
}

// simProgressEvery is the time between two lines of progress.
const simProgressEvery = 2 * time.Second

func newSimProgress(out io.Writer, all uint64) *simProgress {
	now := time.Now()
	return &simProgress{out: out, all: all, began: now, last: now}
}

// printLine prints a line, unless the last one is young.
func (p *simProgress) printLine(played uint64) {
	now := time.Now()
	if now.Sub(p.last) < simProgressEvery || played == p.all {
		return
	}
	p.last = now
	rate := float64(played) / now.Sub(p.began).Seconds()
	left := time.Duration(float64(p.all-played) / rate * float64(time.Second))
	fmt.Fprintf(p.out, "%d of %d seeds passed, %.0f per second, %v left\n", played, p.all, rate, left.Round(time.Second))
}

// printRun prints the facts of a single run.
func (p *simProgress) printRun(r *sim.Result) {
	fmt.Fprintf(p.out, "seed %d: %d nodes, ending %q, %d events, hash %016x\n", r.Seed, r.Nodes, r.Ending, r.Events, r.Hash)
}
