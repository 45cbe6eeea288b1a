package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/demo"
)

const demoHelp = `Starts node processes on 127.0.0.1 that ask counters on each other, kills all processes
but one with SIGKILL, and shows which process takes each counter over. Prints a verdict:
PASS if no counter ever had two live instances, every counter answered after the kills,
and every request is accounted for.`

// demoMost bounds a run.
const demoMost = 55 * time.Second

func (p *program) demoCommand() *cobra.Command {
	var cfg demo.Config
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "start five processes, kill four, and watch the last take over", Long: demoHelp, Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.runDemo(cfg, keep) },
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Nodes, "nodes", 5, "number of processes to start")
	flags.IntVar(&cfg.Counters, "counters", 64, "number of counters to ask")
	flags.IntVar(&cfg.Shards, "shards", 64, "number of shards of the counters")
	flags.DurationVar(&cfg.Every, "every", 10*time.Millisecond, "interval of the asks to each counter")
	flags.DurationVar(&cfg.WarmUp, "warm-up", 3*time.Second, "time before the first kill")
	flags.DurationVar(&cfg.Between, "between", 2*time.Second, "time after each kill")
	flags.BoolVar(&cfg.AtOnce, "at-once", false, "kill all but one at the same instant, not one after another")
	flags.BoolVar(&cfg.Enforce, "enforce-bounds", false, "fail when an answer takes longer than the advertised bound (300 ms, 500 ms for an emergency takeover)")
	flags.BoolVar(&cfg.Open, "open", false, "let the last process serve its dashboard until Ctrl-C, then check the records")
	flags.BoolVar(&keep, "keep", false, "keep the recorded histories and print their directory")
	return cmd
}

func (p *program) runDemo(cfg demo.Config, keep bool) error {
	if err := cfg.Validate(); err != nil {
		return usageError(err)
	}
	cfg.Command = startedAs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if cfg.Open {
		return p.demoIn(ctx, cfg, keep)
	}
	// However the run hangs, it ends within a minute.
	ctx, cancel := context.WithTimeoutCause(ctx, demoMost, fmt.Errorf("it takes longer than %v; this machine may be too busy: try --nodes 3 --every 50ms", demoMost))
	defer cancel()
	return p.demoIn(ctx, cfg, keep)
}

// demoIn plays the demo and prints its verdict.
func (p *program) demoIn(ctx context.Context, cfg demo.Config, keep bool) error {
	dir, err := os.MkdirTemp("", "peerage-demo-")
	if err != nil {
		return err
	}
	if keep {
		fmt.Fprintln(p.text(), "histories are kept in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	v, err := demo.Run(ctx, cfg, dir, p.text())
	if err != nil {
		return err
	}
	passed := v.Print(p.text())
	if p.json {
		if err := p.printJSON(v.Result()); err != nil {
			return err
		}
	}
	if !passed {
		return verdictError(exitFailed)
	}
	return nil
}

// startedAs returns how this program was started, for the commands that a text names.
func startedAs() string {
	if harness.StartedByGoRun() {
		return "go run ./cmd/peerage"
	}
	return "peerage"
}
