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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
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

// chaosConfig holds the flags of `peerage chaos`.
type chaosConfig struct {
	rounds   int
	seed     uint64
	nodes    int
	counters int
	shards   int
	replicas int
	every    time.Duration
	calm     time.Duration
	rolling  bool
	inPlace  bool
	version  bool
	enforce  bool
	kinds    string
	// apartFrom is the network namespace that a run with cuts must not touch.
	apartFrom string
	json      string
	keep      string
}

func (c *chaosConfig) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.rounds >= 1 && c.rounds <= 10_000, "--rounds is %d: choose 1 to 10000", c.rounds)
	check(c.nodes >= 2 && c.nodes <= 9, "--nodes is %d: choose 2 to 9", c.nodes)
	check(c.counters >= 1 && c.counters <= 1000, "--counters is %d: choose 1 to 1000", c.counters)
	check(c.shards >= 1 && c.shards <= 4096, "--shards is %d: choose 1 to 4096", c.shards)
	check(c.replicas >= 0 && c.replicas <= c.nodes, "--replicas is %d: choose 0 to --nodes, %d", c.replicas, c.nodes)
	check(c.every >= time.Millisecond && c.every <= time.Second, "--every is %v: choose 1ms to 1s", c.every)
	check(c.calm >= 0 && c.calm <= time.Minute, "--calm is %v: choose 0 to 1m", c.calm)
	for _, k := range c.faultKinds() {
		check(k != faultRing || c.nodes >= 4, "--faults ring needs --nodes 4 or more, not %d", c.nodes)
		_, ok := faults[k]
		check(ok, "--faults names %q: choose of %s,%s,%s", k, defaultFaults, netFaults, nodeFaults)
		check(!k.needsFiles() || !c.rolling, "--faults %s: not with --rolling", k)
	}
	return errors.Join(errs...)
}

func parseChaos(args []string, stderr io.Writer) (*chaosConfig, error) {
	c := &chaosConfig{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, chaosUsage); flags.PrintDefaults() }
	flags.IntVar(&c.rounds, "rounds", 100, "number of faults, one after the other")
	flags.Uint64Var(&c.seed, "seed", 0, "selects the faults, their places and durations (0: draw one and print it)")
	flags.IntVar(&c.nodes, "nodes", 5, "number of processes")
	flags.IntVar(&c.counters, "counters", 32, "number of counters to ask")
	flags.IntVar(&c.shards, "shards", 64, "number of shards of the counters")
	flags.IntVar(&c.replicas, "replicas", 0, "number of processes that keep each count: killing less than half of them must lose none (0: only its home keeps it)")
	flags.DurationVar(&c.every, "every", 20*time.Millisecond, "interval of the asks to each counter")
	flags.DurationVar(&c.calm, "calm", 300*time.Millisecond, "time without faults between two faults")
	flags.BoolVar(&c.rolling, "rolling", false, "replace the processes one by one instead: no ask may fail, no shard move more than twice")
	flags.BoolVar(&c.inPlace, "in-place", false, "rolling: end each process before its successor starts at its address, not after the successor is ready elsewhere; moves are then printed, not checked")
	flags.BoolVar(&c.version, "new-version", false, "rolling: the new processes have a newer version of the application")
	flags.BoolVar(&c.enforce, "enforce-bounds", false, "fail when an answer takes longer than the advertised bound")
	flags.StringVar(&c.kinds, "faults", defaultFaults, "kinds of faults, equally likely; also "+netFaults+","+nodeFaults)
	flags.StringVar(&c.apartFrom, "apart-from", "", "set by chaos itself when it restarts in its own namespaces for cuts or disks: its original `namespace`")
	flags.StringVar(&c.json, "json", "", "also write the report to this `file`, in JSON")
	flags.StringVar(&c.keep, "keep", "", "keep the recorded histories in this new `directory`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if c.seed == 0 {
		c.seed = rand.Uint64N(1_000_000) + 1
	}
	return c, c.validate()
}

func chaos(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseChaos(args, stderr)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "peerage chaos:", err)
		}
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if (cfg.cuts() || cfg.disks()) && cfg.apartFrom == "" {
		code, err := inNamespacesOfItsOwn(ctx, args, cfg.cuts(), stdout, stderr)
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
	return runChaos(ctx, cfg, dir, stdout, stderr)
}

// faultKinds are those of --faults.
func (c *chaosConfig) faultKinds() (out []faultKind) {
	for _, k := range strings.Split(c.kinds, ",") {
		out = append(out, faultKind(k))
	}
	return out
}

// cuts reports whether the run needs a wall.
func (c *chaosConfig) cuts() bool {
	return !c.rolling && slices.ContainsFunc(c.faultKinds(), faultKind.breaksNetwork)
}

// disks reports whether the run needs disks of its own.
func (c *chaosConfig) disks() bool {
	return !c.rolling && slices.ContainsFunc(c.faultKinds(), faultKind.needsDisks)
}

// files reports whether the processes keep files.
func (c *chaosConfig) files() bool {
	return !c.rolling && slices.ContainsFunc(c.faultKinds(), faultKind.needsFiles)
}

// registersUsed is how many registers the processes write in runs with files.
const registersUsed = 8

// chaosRun is one run of `peerage chaos`.
type chaosRun struct {
	cfg    *chaosConfig
	fleet  *fleet
	rng    *rand.Rand
	out    io.Writer
	began  time.Time
	rounds []round
	// calmFrom is when the load stood and nothing was hurt yet, ended when it was over.
	calmFrom, ended clock.Instant
}

func runChaos(ctx context.Context, cfg *chaosConfig, dir string, stdout, stderr io.Writer) int {
	c := &chaosRun{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 0)), out: stdout, began: time.Now(),
		fleet: &fleet{dir: dir, counters: cfg.counters, shards: cfg.shards, replicas: cfg.replicas, every: cfg.every},
	}
	if cfg.version {
		c.fleet.version = 1
	}
	if c.fleet.files, c.fleet.disks = cfg.files(), cfg.disks(); cfg.files() {
		c.fleet.registers = registersUsed
	}
	defer c.fleet.end()
	c.say("seed %d: repeat with `%s`", cfg.seed, cfg.command())
	err := c.script(ctx)
	c.ended = clock.Boot().Now()
	c.fleet.end()
	records, readErr := c.fleet.records()
	if readErr != nil {
		fmt.Fprintln(stderr, "peerage chaos:", readErr)
		return exitFailed
	}
	r := c.report(records, err)
	r.print(stdout)
	if err := r.save(cfg.json); err != nil {
		fmt.Fprintln(stderr, "peerage chaos:", err)
		return exitFailed
	}
	return r.exitCode()
}

// command is how to repeat the run.
func (c *chaosConfig) command() string {
	s := fmt.Sprintf("peerage chaos --seed %d --nodes %d --counters %d --shards %d --every %v --calm %v", c.seed, c.nodes, c.counters, c.shards, c.every, c.calm)
	if c.replicas > 0 {
		s += fmt.Sprintf(" --replicas %d", c.replicas)
	}
	if c.rolling {
		return s + fmt.Sprintf(" --rolling --in-place=%v --new-version=%v", c.inPlace, c.version)
	}
	return s + fmt.Sprintf(" --rounds %d --faults %s", c.rounds, c.kinds)
}

// say prints a line of progress.
func (c *chaosRun) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%7.2fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// script starts the fleet, and plays as many rounds of faults as configured.
func (c *chaosRun) script(ctx context.Context) error {
	if c.cfg.disks() {
		if err := privateMounts(c.cfg.apartFrom); err != nil {
			return err
		}
	}
	if c.cfg.cuts() {
		var err error
		if c.fleet.wall, err = newWall(ctx, c.cfg.apartFrom, c.cfg.nodes); err != nil {
			return err
		}
	}
	if err := c.fleet.up(ctx, c.cfg.nodes); err != nil {
		return err
	}
	c.calmFrom = clock.Boot().Now()
	c.say("%d nodes are up: asking %d counters every %v", c.cfg.nodes, c.cfg.counters, c.cfg.every)
	if err := pause(ctx, max(c.cfg.calm, warmUp)); err != nil {
		return err
	}
	if c.cfg.rolling {
		return c.roll(ctx)
	}
	kinds := c.cfg.faultKinds()
	for i := range c.cfg.rounds {
		kind := kinds[c.rng.IntN(len(kinds))]
		r := round{Kind: kind, Number: i + 1}
		err := c.play(ctx, &r, faults[kind])
		c.rounds = append(c.rounds, r)
		if err != nil {
			return fmt.Errorf("round %d, %s of %s: %w", r.Number, r.Kind, r.places(), err)
		}
		c.say("round %d of %d: %s of %s%s, all agree again after %v", r.Number, c.cfg.rounds, r.Kind, r.places(), r.detail(), toMS(r.span().To.Sub(r.span().From)))
		if err := pause(ctx, c.cfg.calm); err != nil {
			return err
		}
	}
	return nil
}

// warmUp is how long the counters are asked at least before the first fault.
const warmUp = time.Second

func (c *chaosRun) play(ctx context.Context, r *round, fault func(context.Context, *chaosRun, *round) error) error {
	r.From = clock.Boot().Now()
	err := fault(ctx, c, r)
	r.To = clock.Boot().Now()
	return err
}

func toMS(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func (r *round) span() history.Span { return history.Span{From: r.From, To: r.To} }
