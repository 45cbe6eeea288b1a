package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/harness/namespace"
	"github.com/peerage-go/peerage/internal/harness/page"
	"github.com/peerage-go/peerage/internal/harness/service"
)

const chaosHelp = `Starts node processes on 127.0.0.1 that ask counters on each other, and hurts them: one
fault after the other, as a seed decides. Each process records every handler run and every
request in a file. At the end all records are checked together.

To begin:  peerage chaos --preset n-1 --rounds 3 --report out.html

A preset is a choice of faults (--preset):

%s
The faults (--faults); from cut on, they need Linux and root, except for clock:

%s
With clock or disk, replicated registers and entries are written and read at a majority, on
disk. With --rolling, each process is replaced by a new one instead.

Each promise has a verdict: PASS, FAIL, or UNKNOWN if the run does not prove it: it was
interrupted, a fault had no effect, or the load was below its target before the first
fault. --plant gives the nodes a defect, so that a check fails.`

// chaosFlags are the flags of `peerage chaos`.
type chaosFlags struct {
	chaos.Config
	out    string
	report string
	preset string
	keep   string
	// service is the file that describes a program of the user.
	service string
}

func (p *program) chaosCommand() *cobra.Command {
	c := &chaosFlags{}
	cmd := &cobra.Command{
		Use: "chaos", Short: "kill, pause and restart processes, and check their records",
		Long: fmt.Sprintf(chaosHelp, chaos.Presets(), faults.Kinds()), Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.runChaos(c) },
	}
	c.register(cmd.Flags())
	for _, other := range []string{"faults", "rolling"} {
		cmd.MarkFlagsMutuallyExclusive("preset", other)
	}
	return cmd
}

func (c *chaosFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&c.Rounds, "rounds", 100, "number of faults, one after the other")
	flags.Uint64Var(&c.Seed, "seed", 0, "selects the faults, their places and durations (0: draw one and print it)")
	flags.IntVar(&c.Nodes, "nodes", 5, "number of processes, up to 64")
	flags.IntVar(&c.Counters, "counters", 32, "number of counters to ask")
	flags.IntVar(&c.Shards, "shards", 64, "number of shards of the counters")
	flags.IntVar(&c.Replicas, "replicas", 0, "number of processes that keep each count: killing less than a majority of them must lose none (0: only its home keeps it)")
	flags.DurationVar(&c.Every, "every", 20*time.Millisecond, "interval of the asks to each counter")
	flags.IntVar(&c.InFlight, "in-flight", load.InFlightMax, "number of asks that one process may have in flight; more that are due are not sent, and count as not available")
	flags.DurationVar(&c.Calm, "calm", 300*time.Millisecond, "time without faults between two faults")
	flags.BoolVar(&c.Rolling, "rolling", false, "replace the processes one by one instead: no ask may fail, no shard move more than twice")
	flags.BoolVar(&c.InPlace, "in-place", false, "rolling: end each process before its successor starts at its address, not after the successor is ready elsewhere; moves are then printed, not checked")
	flags.BoolVar(&c.Version, "new-version", false, "rolling: the new processes have a newer version of the application")
	flags.BoolVar(&c.Enforce, "enforce-bounds", false, "fail when an answer takes longer than the advertised bound")
	flags.StringVar(&c.Kinds, "faults", faults.DefaultKinds, "kinds of faults, equally likely, with commas between them, see above (default "+spaced(faults.DefaultKinds)+")")
	flags.Lookup("faults").DefValue = "" // the help has it, in words that wrap
	flags.StringVar(&c.ApartFrom, "apart-from", "", "set by chaos itself when it restarts in its own namespaces for cuts or disks: its original `namespace`")
	flags.StringVar(&c.out, "out", "", "also write the report to this `file`, in JSON")
	flags.StringVar(&c.report, "report", "", "also write the report to this `file`, as one page of HTML that needs no network")
	flags.StringVar(&c.keep, "keep", "", "keep the recorded histories in this new `directory`; those of a run that fails are always kept")
	flags.StringVar(&c.Work, "workload", chaos.DefaultWork, "`workloads` besides the counters, of "+chaos.Workloads+": counts kept by three processes, replicated registers, a replicated set, reliable messages to counters")
	flags.StringVar(&c.service, "service", "", "hurt the program that this `file` describes, in place of nodes: see docs/CHAOS.md")
	flags.StringVar(&c.preset, "preset", "", "play the faults of this `preset`, see above, in place of --faults")
	flags.StringVar((*string)(&c.Plant), "plant", "", "give the nodes this `defect`, to see that the checks find it; needs a build with -tags plant")
	// RunApart sets it.
	_ = flags.MarkHidden("apart-from")
}

func (p *program) runChaos(c *chaosFlags) error {
	c.Program = startedAs()
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1_000_000) + 1
	}
	if c.preset != "" {
		if err := c.UsePreset(c.preset); err != nil {
			return usageError(err)
		}
	}
	if err := c.readService(); err != nil {
		return usageError(err)
	}
	if err := c.Validate(); err != nil {
		return usageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if (c.Cuts() || c.Disks()) && c.ApartFrom == "" {
		code, err := namespace.RunApart(ctx, []string{"chaos"}, p.argsAfter("chaos"), c.Cuts(), p.stdout, p.stderr)
		if err != nil {
			return usageError(err)
		}
		return verdictError(code)
	}
	dir, remove, err := c.directory()
	if err != nil {
		return err
	}
	out := p.progress()
	r, err := chaos.Run(ctx, &c.Config, dir, out)
	out.Stop()
	if err != nil {
		remove()
		return err
	}
	if r.Verdict == chaos.Failed || c.keep != "" {
		r.Histories = dir
	} else {
		remove()
	}
	return p.writeReport(c, r)
}

// readService reads the file of --service.
func (c *chaosFlags) readService() (err error) {
	if c.service == "" {
		return nil
	}
	if c.Service, err = service.Read(c.service); err != nil {
		return fmt.Errorf("--service: %w", err)
	}
	c.Counters = c.Service.Keys()
	if c.Kinds == faults.DefaultKinds {
		c.Kinds = chaos.DefaultServiceKinds
	}
	return nil
}

// writeReport writes a report in all forms that were asked for, and returns its verdict.
func (p *program) writeReport(c *chaosFlags, r *chaos.Report) error {
	p.printReport(r)
	if p.json {
		if err := p.printJSON(r); err != nil {
			return err
		}
	}
	if err := r.Save(c.out); err != nil {
		return err
	}
	if r.Histories != "" {
		if err := r.Save(filepath.Join(r.Histories, chaos.ReportFile)); err != nil {
			return err
		}
		if err := r.SaveHistograms(r.Histories); err != nil {
			return err
		}
		fmt.Fprintf(p.text(), "Histories: %s\n", r.Histories)
	}
	if c.report != "" {
		if err := page.Save(c.report, r); err != nil {
			return err
		}
		fmt.Fprintf(p.text(), "Report: %s\n", c.report)
	}
	return verdictError(chaosExitCode(r.Verdict))
}

// directory makes the directory of the recorded histories. Remove ends it unless it is kept.
func (c *chaosFlags) directory() (dir string, remove func(), err error) {
	if c.keep != "" {
		if err := os.Mkdir(c.keep, 0o777); err != nil {
			return "", nil, usageError(fmt.Errorf("--keep: %w", err))
		}
		return c.keep, func() {}, nil
	}
	dir, err = os.MkdirTemp("", "peerage-chaos-")
	return dir, func() { os.RemoveAll(dir) }, err
}

// chaosExitCode returns the exit code of a verdict, as the help documents.
func chaosExitCode(verdict string) int {
	switch verdict {
	case chaos.Passed:
		return exitOK
	case chaos.Failed:
		return exitFailed
	}
	return exitUsage // the run proves nothing
}

// spaced puts a space behind each comma, so that a help text wraps.
func spaced(list string) string { return strings.ReplaceAll(list, ",", ", ") }
