package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/sim"
)

const simHelp = `Plays seeds of the simulator: all protocol cores of a small cluster on virtual
time, with faults, checked after every event. The same seed and commit give the
same run. Ends with the first seed that fails.`

// simulation is a run of `peerage sim`: its settings, and what was played.
type simulation struct {
	first, seeds uint64
	nodes        int
	verbose      bool

	virtual time.Duration
	marks   map[string]bool
	// weakened counts the seeds with settings that void some guarantees, by setting.
	weakened map[string]uint64
	// strict counts the seeds in which all checkers judged in their strict forms.
	strict uint64
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
	// Failure is why the last of the seeds failed.
	Failure string `json:"failure,omitempty"`
}

func (p *program) simCommand() *cobra.Command {
	s := &simulation{marks: map[string]bool{}, weakened: map[string]uint64{}}
	cmd := &cobra.Command{
		Use: "sim", Short: "run seeds of the simulator", Long: simHelp, Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.runSim(s) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&s.first, "seed", 1, "first seed")
	flags.Uint64Var(&s.seeds, "seeds", 1, "number of seeds to play, one after the other")
	flags.IntVar(&s.nodes, "nodes", 0, "number of hosts (0: the seed selects 1 to 7)")
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "print every event")
	return cmd
}

func (p *program) runSim(s *simulation) error {
	if s.seeds == 0 || s.nodes < 0 || s.nodes > 26 {
		return usageError(errors.New("--seeds must be at least 1, --nodes 0 to 26"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	out := p.progress()
	played, failure, err := s.play(ctx, out)
	out.Stop()
	if err != nil {
		return err
	}
	took := time.Since(began)
	if failure == nil {
		fmt.Fprintf(p.text(), "%d seeds passed: %v of virtual time in %v, %d rare states seen\n%s\n",
			played, s.virtual.Round(time.Second), took.Round(time.Millisecond), len(s.marks), s.describeJudges())
	}
	if p.json {
		r := simReport{
			Schema: 1, Verdict: "PASS", FirstSeed: s.first, Seeds: played,
			VirtualMS: harness.Milliseconds(s.virtual), TookMS: harness.Milliseconds(took), RareStates: len(s.marks),
			Strict: s.strict, Weakened: s.weakened,
		}
		if failure != nil {
			r.Verdict, r.Failure = "FAIL", failure.Error()
		}
		if err := p.printJSON(r); err != nil {
			return err
		}
	}
	if failure != nil {
		return verdictError(exitFailed)
	}
	return nil
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

// play plays seeds until one fails, and returns how many it has played.
func (s *simulation) play(ctx context.Context, out io.Writer) (played uint64, failure, err error) {
	for played < s.seeds {
		if ctx.Err() != nil {
			return played, nil, fmt.Errorf("interrupted after %d seeds", played)
		}
		cfg := sim.Config{Seed: s.first + played, Nodes: s.nodes}
		if s.verbose {
			cfg.Trace = out
		}
		r := sim.Run(cfg)
		played++
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
		if r.Failure != nil {
			fmt.Fprintf(out, "seed %d FAILED after %v of virtual time: %v\n", r.Seed, r.Virtual, r.Failure)
			return played, r.Failure, nil
		}
		if s.seeds == 1 {
			fmt.Fprintf(out, "seed %d: %d nodes, ending %q, %d events, hash %016x\n", r.Seed, r.Nodes, r.Ending, r.Events, r.Hash)
		}
	}
	return played, nil, nil
}
