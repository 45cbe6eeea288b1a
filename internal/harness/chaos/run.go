package chaos

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/history"
)

// registersUsed is how many registers the processes write.
const registersUsed = 8

// Run plays the rounds of cfg, and checks the records. Its processes keep their
// files in dir. Progress goes to out.
func Run(ctx context.Context, cfg *Config, dir string, out io.Writer) (*Report, error) {
	f := &fleet.Fleet{Dir: dir, Counters: cfg.Counters, Shards: cfg.Shards, Replicas: cfg.replicas(), Every: cfg.Every, InFlight: cfg.InFlight}
	c := &campaign{
		cfg: cfg, fleet: f, out: out, began: time.Now(),
		faults: &faults.Injector{Fleet: f, Rng: rand.New(rand.NewPCG(cfg.Seed, 0))},
	}
	if cfg.Version {
		f.Version = 1
	}
	if f.Files, f.Disks = cfg.files(), cfg.Disks(); cfg.files() || cfg.works(workRegister) {
		f.Registers = registersUsed
	}
	f.Set = cfg.works(workSet)
	if cfg.Service != nil {
		f.Service = &fleet.Service{Command: cfg.Service.Command, Ready: cfg.Service.Ready}
	}
	defer f.End()
	c.say("seed %d: repeat with `%s`", cfg.Seed, cfg.command())
	watch := machine.Start(f.PIDs)
	err := c.playRounds(ctx)
	c.ended = clock.Boot().Now()
	c.machine = watch.Stop()
	if c.client != nil {
		c.stopClient()
	}
	f.End()
	records, readErr := c.records()
	if readErr != nil {
		return nil, readErr
	}
	return c.report(records, err), nil
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
	r.costs(c)
	r.excuseOverload()
	r.Verdict = Passed
	for _, i := range r.Invariants {
		if i.Verdict == Failed || i.Verdict == Unknown && r.Verdict == Passed {
			r.Verdict = i.Verdict
		}
	}
	return r
}
