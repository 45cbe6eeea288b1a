package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/peerage-go/peerage/internal/sim"
)

const simUsage = `usage: peerage sim [flags]

Plays seeds of the simulator: all protocol cores of a small cluster on virtual
time, with faults, checked after every event. The same seed and commit give the
same run. Exit code 1 on the first seed that fails, with the line to replay it.

`

func simulate(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, simUsage); flags.PrintDefaults() }
	seed := flags.Uint64("seed", 1, "first seed")
	seeds := flags.Uint64("seeds", 1, "number of seeds to play, one after the other")
	nodes := flags.Int("nodes", 0, "number of hosts (0: the seed selects 1 to 7)")
	verbose := flags.Bool("v", false, "print every event")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if *seeds == 0 || *nodes < 0 || *nodes > 26 {
		fmt.Fprintln(stderr, "peerage sim: --seeds must be at least 1, --nodes 0 to 26")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	var virtual time.Duration
	marks := map[string]int{}
	for i := range *seeds {
		if ctx.Err() != nil {
			fmt.Fprintf(stderr, "interrupted after %d seeds\n", i)
			return exitFailed
		}
		cfg := sim.Config{Seed: *seed + i, Nodes: *nodes}
		if *verbose {
			cfg.Trace = stdout
		}
		r := sim.Run(cfg)
		virtual += r.Virtual
		for m := range r.Marks {
			marks[m]++
		}
		if r.Failure != nil {
			fmt.Fprintf(stdout, "seed %d FAILED after %v of virtual time: %v\n", r.Seed, r.Virtual, r.Failure)
			return exitFailed
		}
		if *seeds == 1 {
			fmt.Fprintf(stdout, "seed %d: %d nodes, ending %q, %d events, hash %016x\n", r.Seed, r.Nodes, r.Ending, r.Events, r.Hash)
		}
	}
	fmt.Fprintf(stdout, "%d seeds passed: %v of virtual time in %v, %d rare states seen\n",
		*seeds, virtual.Round(time.Second), time.Since(began).Round(time.Millisecond), len(marks))
	return exitOK
}
