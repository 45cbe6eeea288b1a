package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/bench"
)

const benchUsage = `usage: peerage bench [flags]

Measures nodes on this machine, beside the raw limit of the machine in the same run:
remote and local messages, memory of idle entities, failover, drain, balance and cold
start on real processes. Prints a table and writes JSON. Targets are printed, not
enforced: they hold for two cores without other load.

`

func runBench(args []string, stdout, stderr io.Writer) int {
	if slices.Equal(args, []string{"serve"}) {
		if err := bench.Serve(harness.UntilClosed(context.Background(), os.Stdin, func(string) {}), stdout); err != nil {
			fmt.Fprintln(stderr, "peerage bench serve:", err)
			return exitFailed
		}
		return exitOK
	}
	cfg := &bench.Config{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, benchUsage); flags.PrintDefaults() }
	flags.Var((*list)(&cfg.Only), "only", "measure only this; may be repeated; one of: "+bench.MeasureNames())
	flags.BoolVar(&cfg.Quick, "quick", false, "shorter and smaller: for a first look, not for figures")
	file := flags.String("json", "peerage-bench.json", "write the rows to this `file`; empty writes none")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	b, err := bench.New(cfg, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "peerage bench:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := b.Run(ctx)
	if err == nil {
		err = r.Save(*file)
	}
	if err != nil {
		fmt.Fprintln(stderr, "peerage bench:", err)
		return exitFailed
	}
	return exitOK
}
