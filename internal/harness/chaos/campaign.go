package chaos

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/harness/namespace"
	"github.com/peerage-go/peerage/internal/harness/service"
	"github.com/peerage-go/peerage/internal/history"
)

// campaign is one run of `peerage chaos`.
type campaign struct {
	cfg    *Config
	fleet  *fleet.Fleet
	faults *faults.Injector
	out    io.Writer
	began  time.Time
	// machine is what was seen of the machine meanwhile.
	machine machine.Summary
	// client asks the service, nil in runs of nodes; stopClient ends it.
	client     *service.Client
	stopClient func()
	// calmFrom is when the load stood and nothing was hurt yet, ended when it was over.
	calmFrom, ended clock.Instant
}

// say prints a line of progress.
func (c *campaign) say(format string, args ...any) {
	fmt.Fprintf(c.out, "%7.2fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// playRounds starts the fleet, and plays as many rounds of faults as configured.
func (c *campaign) playRounds(ctx context.Context) error {
	if c.cfg.Disks() {
		if err := namespace.PrivateMounts(c.cfg.ApartFrom); err != nil {
			return err
		}
	}
	if c.cfg.Cuts() {
		var err error
		if c.fleet.Wall, err = namespace.NewWall(ctx, c.cfg.ApartFrom, c.cfg.Nodes); err != nil {
			return err
		}
	}
	if err := c.fleet.Up(ctx, c.cfg.Nodes); err != nil {
		return err
	}
	if c.cfg.Service != nil {
		if err := c.startClient(); err != nil {
			return err
		}
		if err := c.awaitService(ctx, &faults.Round{}); err != nil {
			return err
		}
	}
	c.calmFrom = clock.Boot().Now()
	answered := c.totals().Answered
	began := time.Now()
	c.say("%d processes are up: asking %d counters every %v", c.cfg.Nodes, c.cfg.Counters, c.cfg.Every)
	if err := harness.Pause(ctx, max(c.cfg.Calm, WarmUp)); err != nil {
		return err
	}
	if err := awaitLoad(ctx, c.cfg.rate(), began, func() uint64 { return c.totals().Answered - answered }); err != nil {
		return err
	}
	if c.cfg.Rolling {
		return c.roll(ctx)
	}
	kinds := c.cfg.faultKinds()
	for range c.cfg.Rounds {
		r, err := c.faults.Play(ctx, kinds[c.faults.Rng.IntN(len(kinds))])
		if err == nil {
			err = c.awaitService(ctx, r)
		}
		if err != nil {
			return fmt.Errorf("round %d, %s: %w", r.Number, r.Text(), err)
		}
		c.say("round %d of %d: %s; all agreed again after %v", r.Number, c.cfg.Rounds, r.Text(), toMS(r.Span().To.Sub(r.Span().From)))
		if err := harness.Pause(ctx, c.cfg.Calm); err != nil {
			return err
		}
	}
	return harness.Pause(ctx, healedFor)
}

// awaitLoad waits until so many requests were answered since the begin that the load stands, for
// loadPatience at most: a machine that was busy for a tenth of a second makes no void run. If the load does
// not stand by then, the run goes on, and checkLoad reports it.
func awaitLoad(ctx context.Context, rate float64, began time.Time, answered func() uint64) error {
	for deadline := time.Now().Add(loadPatience); ; {
		due := rate * time.Since(began).Seconds()
		if float64(answered()) >= loadEnough*due || time.Now().After(deadline) {
			return nil
		}
		if err := harness.Pause(ctx, loadPoll); err != nil {
			return err
		}
	}
}

const (
	// loadPatience bounds awaitLoad, loadPoll is its pause between two looks.
	loadPatience = 5 * time.Second
	loadPoll     = 20 * time.Millisecond
	// loadEnough is the part of the target that awaitLoad waits for. It is above loadLeast, since the
	// reports of the processes are up to 50 ms old.
	loadEnough = (1 + loadLeast) / 2
)

// roll restarts the processes one after the other, as an update does that goes on
// when the new node is ready.
func (c *campaign) roll(ctx context.Context) error {
	if c.cfg.Version {
		c.fleet.Version++
	}
	for i := range c.cfg.Nodes {
		r, err := c.faults.Renew(ctx, i, c.cfg.InPlace || c.cfg.Service != nil)
		if err == nil {
			err = c.awaitService(ctx, r)
		}
		if err != nil {
			return fmt.Errorf("restart of %s: %w", r.PlaceNames(), err)
		}
		c.say("%s; all agreed again after %v", r.Text(), toMS(r.Span().To.Sub(r.From)))
		if err := harness.Pause(ctx, c.cfg.Calm); err != nil {
			return err
		}
	}
	return harness.Pause(ctx, rollEnd)
}

// rollEnd is how long a rolling restart is watched after its last step: what it set
// in motion has ended then.
const rollEnd = 3 * time.Second

// WarmUp is how long the counters are asked at least before the first fault.
const WarmUp = time.Second

func toMS(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func (c *campaign) steps() int {
	if c.cfg.Rolling {
		return c.cfg.Nodes
	}
	return c.cfg.Rounds
}

// holds returns which nodes were held, and when.
func (c *campaign) holds() []history.Hold {
	var out []history.Hold
	for _, r := range c.faults.Rounds {
		for _, id := range r.Nodes {
			if r.HeldTo != 0 {
				out = append(out, history.Hold{Node: id, Span: history.Span{From: r.HeldFrom, To: r.HeldTo}})
			}
		}
	}
	return out
}

// formatViolations formats each violation with its time and its round.
func formatViolations[V fmt.Stringer](c *campaign, violations []V, at func(V) clock.Instant) []string {
	var out []string
	for _, v := range violations {
		out = append(out, c.when(at(v))+" "+v.String())
	}
	return out
}

// when names the round in which an instant lies.
func (c *campaign) when(at clock.Instant) string {
	for i := range c.faults.Rounds {
		if r := &c.faults.Rounds[i]; at.Before(r.To) {
			if at.Before(r.From) {
				return fmt.Sprintf("before round %d (%s):", r.Number, r.Text())
			}
			return fmt.Sprintf("in round %d (%s), %v after it began:", r.Number, r.Text(), toMS(at.Sub(r.From)))
		}
	}
	return "after the last round:"
}

// watched is the time from the begin of round i until the next one.
func (c *campaign) watched(i int) history.Span {
	to := c.ended
	if i+1 < len(c.faults.Rounds) {
		to = c.faults.Rounds[i+1].From
	}
	return history.Span{From: c.faults.Rounds[i].From, To: to}
}

// records reads what the processes, or the client of a service, have recorded.
func (c *campaign) records() ([]history.Record, error) {
	if c.client != nil {
		return c.client.Records()
	}
	return c.fleet.Records()
}

// totals returns what all callers saw.
func (c *campaign) totals() harness.Totals {
	if c.client != nil {
		return c.client.Totals()
	}
	return c.fleet.Totals()
}

// inFlightMax is how many requests a process, or the client of a service, may have in flight.
func (c *campaign) inFlightMax() int { return cmp.Or(c.cfg.InFlight, load.InFlightMax) }
