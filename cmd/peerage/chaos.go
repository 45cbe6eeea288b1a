package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/namespace"
)

const chaosUsage = `usage: peerage chaos [flags]

Starts node processes on 127.0.0.1 that ask counters on each other, and injects faults,
one after the other, as a seed decides: SIGKILL, SIGSTOP and SIGCONT, drain, and restart
at the same address, of one process or of several together.

With --faults cut,cut-pair,reject,oneway,ring,late (as root), networks drop, reject, pass
traffic one way only, or deliver late. With --faults clock,disk, wall clocks jump by
minutes to decades, also across restarts, and disks fill up (as root), while replicated
registers and entries are written and read at a majority.

Each process records every handler run and every request in a file. At the end, all
records are checked together. With --rolling, each process is replaced by a new one
instead.

Exit code 0: everything held. 1: it did not. 2: invalid flags, or the run proves
nothing: it was interrupted, or a fault had no effect.

`

// chaosFlags are the flags of `peerage chaos`.
type chaosFlags struct {
	chaos.Config
	json string
	keep string
}

func parseChaos(args []string, stderr io.Writer) (*chaosFlags, error) {
	c := &chaosFlags{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, chaosUsage); flags.PrintDefaults() }
	flags.IntVar(&c.Rounds, "rounds", 100, "number of faults, one after the other")
	flags.Uint64Var(&c.Seed, "seed", 0, "selects the faults, their places and durations (0: draw one and print it)")
	flags.IntVar(&c.Nodes, "nodes", 5, "number of processes")
	flags.IntVar(&c.Counters, "counters", 32, "number of counters to ask")
	flags.IntVar(&c.Shards, "shards", 64, "number of shards of the counters")
	flags.IntVar(&c.Replicas, "replicas", 0, "number of processes that keep each count: killing less than half of them must lose none (0: only its home keeps it)")
	flags.DurationVar(&c.Every, "every", 20*time.Millisecond, "interval of the asks to each counter")
	flags.DurationVar(&c.Calm, "calm", 300*time.Millisecond, "time without faults between two faults")
	flags.BoolVar(&c.Rolling, "rolling", false, "replace the processes one by one instead: no ask may fail, no shard move more than twice")
	flags.BoolVar(&c.InPlace, "in-place", false, "rolling: end each process before its successor starts at its address, not after the successor is ready elsewhere; moves are then printed, not checked")
	flags.BoolVar(&c.Version, "new-version", false, "rolling: the new processes have a newer version of the application")
	flags.BoolVar(&c.Enforce, "enforce-bounds", false, "fail when an answer takes longer than the advertised bound")
	flags.StringVar(&c.Kinds, "faults", faults.DefaultKinds, "kinds of faults, equally likely; also "+faults.NetworkKinds+","+faults.MachineKinds)
	flags.StringVar(&c.ApartFrom, "apart-from", "", "set by chaos itself when it restarts in its own namespaces for cuts or disks: its original `namespace`")
	flags.StringVar(&c.json, "json", "", "also write the report to this `file`, in JSON")
	flags.StringVar(&c.keep, "keep", "", "keep the recorded histories in this new `directory`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1_000_000) + 1
	}
	return c, c.Validate()
}

func runChaos(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseChaos(args, stderr)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "peerage chaos:", err)
		}
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if (cfg.Cuts() || cfg.Disks()) && cfg.ApartFrom == "" {
		code, err := namespace.RunApart(ctx, args, cfg.Cuts(), stdout, stderr)
		if err != nil {
			fmt.Fprintln(stderr, "peerage chaos:", err)
			return exitUsage
		}
		return code
	}
	dir := cfg.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "peerage-chaos-"); err != nil {
			fmt.Fprintln(stderr, "peerage chaos:", err)
			return exitFailed
		}
		defer os.RemoveAll(dir)
	} else if err := os.Mkdir(dir, 0o777); err != nil {
		fmt.Fprintln(stderr, "peerage chaos: --keep:", err)
		return exitUsage
	}
	r, err := chaos.Run(ctx, &cfg.Config, dir, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "peerage chaos:", err)
		return exitFailed
	}
	r.Print(stdout)
	if err := r.Save(cfg.json); err != nil {
		fmt.Fprintln(stderr, "peerage chaos:", err)
		return exitFailed
	}
	return chaosExitCode(r.Verdict)
}

// chaosExitCode returns the exit code of a verdict, as the usage documents.
func chaosExitCode(verdict string) int {
	switch verdict {
	case chaos.Passed:
		return exitOK
	case chaos.Failed:
		return exitFailed
	}
	return exitUsage // the run proves nothing
}
