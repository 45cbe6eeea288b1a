package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// faultKind is a way to hurt a fleet.
type faultKind string

const (
	faultKill     faultKind = "kill"
	faultKillMany faultKind = "kill-many"
	faultStop     faultKind = "stop"
	faultDrain    faultKind = "drain"
	faultRestart  faultKind = "restart"
	// faultRestartMany is an operator in a hurry: it restarts several processes at the same
	// instant, each in order.
	faultRestartMany faultKind = "restart-many"
	// These two are for bench: kill all processes but one at the same instant, and hold a
	// process until it is removed.
	faultKillRest faultKind = "kill-rest"
	faultFreeze   faultKind = "freeze"

	defaultFaults = "kill,kill-many,stop,drain,restart,restart-many"
)

// faults are what the kinds do. Each returns when all processes agree again.
var faults = map[faultKind]func(context.Context, *chaosRun, *round) error{
	faultKill: func(ctx context.Context, c *chaosRun, r *round) error { return c.kill(ctx, r, 1) },
	faultKillMany: func(ctx context.Context, c *chaosRun, r *round) error {
		return c.kill(ctx, r, 1+c.rng.IntN(c.cfg.nodes-1))
	},
	faultKillRest: func(ctx context.Context, c *chaosRun, r *round) error { return c.kill(ctx, r, c.cfg.nodes-1) },
	faultStop: func(ctx context.Context, c *chaosRun, r *round) error {
		return c.hold(ctx, r, c.heldFor())
	},
	faultCut:     func(ctx context.Context, c *chaosRun, r *round) error { return c.playCut(ctx, r) },
	faultCutPair: func(ctx context.Context, c *chaosRun, r *round) error { return c.playCutPair(ctx, r) },
	faultReject:  func(ctx context.Context, c *chaosRun, r *round) error { return c.playReject(ctx, r) },
	faultOneWay:  func(ctx context.Context, c *chaosRun, r *round) error { return c.playOneWay(ctx, r) },
	faultRing:    func(ctx context.Context, c *chaosRun, r *round) error { return c.playRing(ctx, r) },
	faultLate:    func(ctx context.Context, c *chaosRun, r *round) error { return c.playLate(ctx, r) },
	faultClock:   func(ctx context.Context, c *chaosRun, r *round) error { return c.playClock(ctx, r) },
	faultDisk:    func(ctx context.Context, c *chaosRun, r *round) error { return c.playDisk(ctx, r) },
	faultFreeze:  func(ctx context.Context, c *chaosRun, r *round) error { return c.hold(ctx, r, heldMax) },
	faultDrain: func(ctx context.Context, c *chaosRun, r *round) error {
		return c.drain(ctx, r, c.rng.IntN(c.cfg.nodes))
	},
	faultRestart: func(ctx context.Context, c *chaosRun, r *round) error {
		return c.restart(ctx, r, c.rng.IntN(c.cfg.nodes))
	},
	faultRestartMany: func(ctx context.Context, c *chaosRun, r *round) error {
		return c.restartMany(ctx, r, c.rng.Perm(c.cfg.nodes)[:1+c.rng.IntN(c.cfg.nodes-1)])
	},
}

// round is one fault and its observed effects.
type round struct {
	Number int       `json:"number"`
	Kind   faultKind `json:"kind"`
	// Places are the processes that were hurt, Nodes their incarnations until then.
	Places []string `json:"places"`
	Nodes  []uint64 `json:"nodes"`
	// Other is the place that lost the one of Places, in a cut between two.
	Other string `json:"other,omitempty"`
	// Killed is how many processes a fault of the clock or of a disk killed as well.
	Killed int `json:"killed,omitempty"`
	// How is the way in which the network was broken, the clocks were set, or disks failed.
	How string `json:"how,omitempty"`
	// From and To are when the fault began, and when all processes agreed again, on the
	// machine's boot clock, in nanoseconds.
	From clock.Instant `json:"from"`
	To   clock.Instant `json:"to"`
	// Emergency: no majority of the view outlived it.
	Emergency bool `json:"emergency,omitempty"`
	// HeldFrom and HeldTo are when a process was held, on the same clock.
	HeldFrom clock.Instant `json:"held_from,omitempty"`
	HeldTo   clock.Instant `json:"held_to,omitempty"`
	// HeldMS is how long a process was held, or cut off, DrainMS how long its orderly end took.
	HeldMS  float64 `json:"held_ms,omitempty"`
	DrainMS float64 `json:"drain_ms,omitempty"`
	// TookEffect is set if the intended effect of the fault was observed.
	TookEffect bool `json:"took_effect"`
}

func (r *round) places() string { return strings.Join(r.Places, ",") }

func (r *round) detail() string {
	switch {
	case r.Other != "":
		return fmt.Sprintf(" from %s for %.0f ms", r.Other, r.HeldMS)
	case r.How != "":
		if r.HeldMS == 0 {
			return fmt.Sprintf(" (%s)", r.How)
		}
		return fmt.Sprintf(" (%s) for %.0f ms", r.How, r.HeldMS)
	case r.HeldMS > 0:
		return fmt.Sprintf(" for %.0f ms", r.HeldMS)
	case r.DrainMS > 0:
		return fmt.Sprintf(", out after %.0f ms", r.DrainMS)
	}
	return ""
}

// rough reports whether the round may lose state that is in memory only.
func (r *round) rough() bool {
	if r.Kind.needsFiles() {
		return r.Killed > 0
	}
	return r.Kind != faultDrain && r.Kind != faultRestart && r.Kind != faultRestartMany
}

// lost is how many processes a rough round may have taken from the cluster at one time.
func (r *round) lost() int {
	if r.Kind.needsFiles() {
		return r.Killed
	}
	return len(r.Places)
}

func (r *round) hurts(p *process) {
	r.Places = append(r.Places, p.name)
	r.Nodes = append(r.Nodes, p.nodeIDs()...)
}

// kill kills n processes at one instant and, once the rest agree, starts replacements.
// A replacement listens at the same address or at a new one.
func (c *chaosRun) kill(ctx context.Context, r *round, n int) error {
	f := c.fleet
	victims := c.rng.Perm(c.cfg.nodes)[:n]
	again := c.rng.IntN(2) == 0
	left := c.cfg.nodes - n
	r.Emergency = 2*left < c.cfg.nodes || 2*left == c.cfg.nodes
	for _, i := range victims {
		r.hurts(f.now[i])
	}
	r.From = clock.Boot().Now()
	for _, i := range victims {
		if err := f.now[i].kill(); err != nil {
			return err
		}
	}
	listen := make(map[int]string, n)
	for _, i := range victims {
		<-f.now[i].gone
		last, _ := f.now[i].snapshot()
		listen[i] = last.Listen
		f.now[i] = nil
	}
	r.TookEffect = true
	if err := f.settle(ctx); err != nil {
		return err
	}
	for _, i := range victims {
		at := f.anyPort(i)
		if again {
			at = listen[i]
		}
		if err := c.fill(ctx, i, at); err != nil {
			return err
		}
	}
	return f.settle(ctx)
}

// fill starts a process at an empty place and waits until it listens.
func (c *chaosRun) fill(ctx context.Context, i int, listen string) error {
	p, err := c.fleet.start(i, listen)
	if err != nil {
		return err
	}
	return p.waitReady(ctx)
}

const (
	heldMin = 300 * time.Millisecond
	heldMax = 4 * time.Second
)

// hold stops a process for a while, and lets it go on.
func (c *chaosRun) hold(ctx context.Context, r *round, d time.Duration) error {
	p := c.fleet.now[c.rng.IntN(c.cfg.nodes)]
	r.hurts(p)
	r.HeldMS = float64(d.Milliseconds())
	r.From = clock.Boot().Now()
	if err := hold(p.cmd.Process); err != nil {
		return err
	}
	held := time.Now()
	r.HeldFrom = clock.Boot().Now()
	err := pause(ctx, d)
	heard := p.lastHeard()
	r.HeldTo = clock.Boot().Now()
	if err := errors.Join(err, release(p.cmd.Process)); err != nil {
		return err
	}
	// A line from before the hold may still have been in the pipe.
	r.TookEffect = heard.Before(held.Add(d / 2))
	return c.fleet.settle(ctx)
}

// heldFor is shorter or longer than a lease and the time after which a node is removed.
func (c *chaosRun) heldFor() time.Duration {
	return heldMin + time.Duration(c.rng.Int64N(int64(heldMax-heldMin)))
}

// drain takes a process out by its HTTP API, ends it, and starts another.
func (c *chaosRun) drain(ctx context.Context, r *round, i int) error {
	p := c.fleet.now[i]
	r.hurts(p)
	last, _ := p.snapshot()
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	d, err := drainAt(ctx, last.HTTP)
	if err != nil {
		return err
	}
	r.DrainMS = d.TookMS
	if err := c.finish(p, i); err != nil {
		return err
	}
	r.TookEffect = true
	if err := c.fleet.settle(ctx); err != nil {
		return err
	}
	if err := c.fill(ctx, i, c.fleet.anyPort(i)); err != nil {
		return err
	}
	return c.fleet.settle(ctx)
}

// restart ends a process in order, and immediately starts another at its address.
func (c *chaosRun) restart(ctx context.Context, r *round, i int) error {
	p := c.fleet.now[i]
	r.hurts(p)
	last, _ := p.snapshot()
	if err := c.finish(p, i); err != nil {
		return err
	}
	r.DrainMS = float64(clock.Boot().Now().Sub(r.From).Microseconds()) / 1000
	r.TookEffect = true
	if err := c.fill(ctx, i, last.Listen); err != nil {
		return err
	}
	return c.fleet.settle(ctx)
}

// restartMany ends processes in order, all at the same instant. When all have ended, it
// starts new processes at their addresses.
func (c *chaosRun) restartMany(ctx context.Context, r *round, places []int) error {
	listen := make(map[int]string, len(places))
	for _, i := range places {
		r.hurts(c.fleet.now[i])
		last, _ := c.fleet.now[i].snapshot()
		listen[i] = last.Listen
	}
	ended := make(chan error)
	for _, i := range places {
		p := c.fleet.now[i]
		c.fleet.now[i] = nil
		go func() { ended <- p.finish() }()
	}
	var errs []error
	for range places {
		errs = append(errs, <-ended)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.DrainMS = float64(clock.Boot().Now().Sub(r.From).Microseconds()) / 1000
	r.TookEffect = true
	for _, i := range places {
		if err := c.fill(ctx, i, listen[i]); err != nil {
			return err
		}
	}
	return c.fleet.settle(ctx)
}

// finish ends a process in order, and fails if it did not end well.
func (c *chaosRun) finish(p *process, i int) error {
	c.fleet.now[i] = nil
	return p.finish()
}

func (p *process) finish() error {
	p.stop(stopPatience + 5*time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waitErr != nil {
		return fmt.Errorf("%s did not end in order: %w\n%s", p.name, p.waitErr, p.stderr.String())
	}
	return nil
}

// roll restarts the processes one after the other, as an update does that goes on
// when the new node is ready.
func (c *chaosRun) roll(ctx context.Context) error {
	if c.cfg.version {
		c.fleet.version++
	}
	step := c.overtake
	if c.cfg.inPlace {
		step = c.replace
	}
	for i := range c.cfg.nodes {
		r := round{Kind: faultRestart, Number: i + 1}
		err := c.play(ctx, &r, func(ctx context.Context, _ *chaosRun, r *round) error { return step(ctx, r, i) })
		c.rounds = append(c.rounds, r)
		if err != nil {
			return fmt.Errorf("restart of %s: %w", r.places(), err)
		}
		c.say("%s restarted: out after %.0f ms, all agree again after %v", r.places(), r.DrainMS, toMS(r.span().To.Sub(r.From)))
		if err := pause(ctx, c.cfg.calm); err != nil {
			return err
		}
	}
	return pause(ctx, rollEnd)
}

// replace ends a process, and waits until the next one at its address is ready.
func (c *chaosRun) replace(ctx context.Context, r *round, i int) error {
	if err := c.restart(ctx, r, i); err != nil {
		return err
	}
	return c.fleet.now[i].waitForReadiness(ctx)
}

// overtake starts the next process, waits until it is ready, and ends the old one.
func (c *chaosRun) overtake(ctx context.Context, r *round, i int) error {
	old := c.fleet.now[i]
	r.hurts(old)
	if err := c.fill(ctx, i, c.fleet.anyPort(i)); err != nil {
		return err
	}
	next := c.fleet.now[i]
	if err := next.waitForReadiness(ctx); err != nil {
		return err
	}
	began := clock.Boot().Now()
	err := c.finish(old, i)
	c.fleet.now[i] = next
	if err != nil {
		return err
	}
	r.DrainMS = ms(clock.Boot().Now().Sub(began))
	r.TookEffect = true
	return c.fleet.settle(ctx)
}

// rollEnd is how long a rolling restart is watched after its last step: what it set
// in motion has ended then.
const rollEnd = 3 * time.Second

// waitForReadiness polls /readyz until it reports readiness.
func (p *process) waitForReadiness(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	r, _ := p.snapshot()
	for {
		_, err := fetch(ctx, "GET", "http://"+r.HTTP+"/readyz")
		if err == nil {
			return nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%s never became ready: %w", p.name, err)
		}
	}
}
