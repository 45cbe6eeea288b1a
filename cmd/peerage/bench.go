package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/bench"
)

const benchHelp = `Measures nodes on this machine, beside the raw limit of the machine in the same run:
remote and local messages, memory of idle entities, failover, drain, balance and cold
start on real processes. Prints a table and writes JSON. Targets are printed, not
enforced: they hold for two cores without other load.`

func (p *program) benchCommand() *cobra.Command {
	cfg, file := &bench.Config{}, ""
	cmd := &cobra.Command{
		Use: "bench", Short: "measure messages, memory and failover beside raw limits", Long: benchHelp, Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.runBench(cfg, file) },
	}
	flags := cmd.Flags()
	flags.Var((*list)(&cfg.Only), "only", "measure only this; may be repeated; one of: "+bench.MeasureNames())
	flags.BoolVar(&cfg.Quick, "quick", false, "shorter and smaller: for a first look, not for figures")
	flags.StringVar(&file, "out", "peerage-bench.json", "write the rows to this `file`, in JSON; empty writes none")
	cmd.AddCommand(p.benchServeCommand())
	return cmd
}

// benchServeCommand is the far end of some measures. Bench starts it by itself.
func (p *program) benchServeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Hidden: true, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return bench.Serve(harness.UntilClosed(context.Background(), os.Stdin, func(string) {}), p.stdout)
		},
	}
}

func (p *program) runBench(cfg *bench.Config, file string) error {
	out := p.progress()
	defer out.Stop()
	b, err := bench.New(cfg, out)
	if err != nil {
		return usageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := b.Run(ctx)
	if err != nil {
		return err
	}
	if p.json {
		if err := p.printJSON(r); err != nil {
			return err
		}
	}
	return r.Save(file)
}
