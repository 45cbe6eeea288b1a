package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/internal/harness/demo"
)

const demoUsage = `usage: peerage demo [flags]

Starts node processes on 127.0.0.1 that ask counters on each other, kills all processes
but one with SIGKILL, and shows which process takes each counter over. Prints a verdict.
Exit code 0 if no counter ever had two live instances, every counter answered after the
kills, and every request is accounted for.

`

func runDemo(args []string, stdout, stderr io.Writer) int {
	var cfg demo.Config
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, demoUsage); flags.PrintDefaults() }
	flags.IntVar(&cfg.Nodes, "nodes", 5, "number of processes to start")
	flags.IntVar(&cfg.Counters, "counters", 64, "number of counters to ask")
	flags.IntVar(&cfg.Shards, "shards", 64, "number of shards of the counters")
	flags.DurationVar(&cfg.Every, "every", 10*time.Millisecond, "interval of the asks to each counter")
	flags.DurationVar(&cfg.WarmUp, "warm-up", 3*time.Second, "time before the first kill")
	flags.DurationVar(&cfg.Between, "between", 2*time.Second, "time after each kill")
	flags.BoolVar(&cfg.AtOnce, "at-once", false, "kill all but one at the same instant, not one after another")
	flags.BoolVar(&cfg.Enforce, "enforce-bounds", false, "fail when an answer takes longer than the advertised bound (300 ms, 500 ms for an emergency takeover)")
	keep := flags.Bool("keep", false, "keep the recorded histories and print their directory")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if err := cfg.Validate(); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// However the run hangs, it ends within a minute.
	ctx, cancel := context.WithTimeout(ctx, 55*time.Second)
	defer cancel()
	return demoIn(ctx, cfg, *keep, stdout, stderr)
}

// demoIn plays the demo and prints its verdict.
func demoIn(ctx context.Context, cfg demo.Config, keep bool, stdout, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "peerage-demo-")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if keep {
		fmt.Fprintln(stdout, "histories are kept in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	v, err := demo.Run(ctx, cfg, dir, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return exitFailed
	}
	if !v.Print(stdout) {
		return exitFailed
	}
	return exitOK
}
