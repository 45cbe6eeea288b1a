package chaos

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/harness/terminal"
	"github.com/peerage-go/peerage/internal/history"
)

// registersUsed is how many registers the processes write.
const registersUsed = 8

// Run plays the rounds of cfg, and checks the records. Its processes keep their
// files in dir. Progress goes to out.
func Run(ctx context.Context, cfg *Config, dir string, out io.Writer) (*Report, error) {
	f := cfg.newFleet(dir)
	c := &campaign{
		cfg: cfg, fleet: f, out: out, began: time.Now(),
		faults: &faults.Injector{Fleet: f, Rng: rand.New(rand.NewPCG(cfg.Seed, 0))},
	}
	defer f.End()
	fmt.Fprintf(out, "%s\n\n", terminal.New(out).Fold(cfg.Summary()))
	c.say("seed %d; to repeat it: %s", cfg.Seed, cfg.command())
	watch := machine.Start(f.PIDs)
	err := c.playRounds(ctx)
	c.ended = clock.Boot().Now()
	c.machine = watch.Stop()
	if c.client != nil {
		c.stopClient()
	}
	f.End()
	c.say("checking the records of all processes")
	records, readErr := c.records()
	if readErr != nil {
		return nil, readErr
	}
	return c.report(records, err), nil
}

// newFleet returns the fleet of a run, before its processes start.
func (c *Config) newFleet(dir string) *fleet.Fleet {
	f := &fleet.Fleet{Dir: dir, Counters: c.Counters, Shards: c.Shards, Replicas: c.replicas(), Every: c.Every, InFlight: c.InFlight}
	if c.Version {
		f.Version = 1
	}
	if f.Files, f.Disks = c.files(), c.Disks(); c.files() || c.works(workRegister) {
		f.Registers = registersUsed
	}
	f.Set, f.Reliable = c.works(workSet), c.works(workReliable)
	if c.Service != nil {
		f.Service = &fleet.Service{Command: c.Service.Command, Ready: c.Service.Ready}
	}
	return f
}

// Check returns the report of a run that has ended, from its settings, its faults, the time for
// which its load stood, its machine, and its records.
func Check(cfg *Config, rounds []faults.Round, stood history.Span, on machine.Summary, records []history.Record) *Report {
	c := &campaign{
		cfg: cfg, fleet: cfg.newFleet(""), began: time.Now(),
		faults: &faults.Injector{Rounds: rounds}, calmFrom: stood.From, ended: stood.To, machine: on,
	}
	return c.report(records, nil)
}

// report checks the records. err is why the script ended early.
func (c *campaign) report(records []history.Record, err error) *Report {
	slices.SortStableFunc(records, func(a, b history.Record) int { return cmp.Compare(a.Start, b.Start) })
	r := &Report{
		Schema: SchemaVersion, At: time.Now().UTC(), Config: *c.cfg, Command: c.cfg.command(), Seed: c.cfg.Seed, Env: harness.ThisEnvironment(), TookMS: harness.Milliseconds(time.Since(c.began)),
		Rounds: c.faults.Rounds, FailedAttempts: c.totals().Tries, Counters: map[string]uint64{}, Machine: c.machine,
		CalmFrom: c.calmFrom, Ended: c.ended,
	}
	if err != nil {
		r.EndedEarly = err.Error()
	}
	r.checkFaults(c, err)
	r.checkLoad(c, records)
	if c.cfg.Service != nil {
		r.serviceSafety(c, records)
	} else {
		r.safety(c, records)
	}
	r.service(c, records)
	r.countRequests(records)
	if c.cfg.Rolling && c.cfg.Service == nil {
		r.rollingRestart(c, records)
	}
	r.latencies(c, records)
	r.timeline(c, records)
	r.failovers(c, records)
	r.markEvents(c, records)
	r.costs(c)
	r.measureHealed(c)
	r.excuseOverload()
	r.Verdict = Passed
	for _, i := range r.Invariants {
		if i.Verdict == Failed || i.Verdict == Unknown && r.Verdict == Passed {
			r.Verdict = i.Verdict
		}
	}
	return r
}
