package faults

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// drainProcess takes a process out by its HTTP API, ends it, and starts another.
func (in *Injector) drainProcess(ctx context.Context, r *Round, i int) error {
	p := in.Fleet.Now[i]
	r.hurts(p)
	last, _ := p.Snapshot()
	ctx, cancel := context.WithTimeout(ctx, fleet.SettlePatience)
	defer cancel()
	d, err := harness.DrainAt(ctx, last.HTTP)
	if err != nil {
		return err
	}
	r.DrainMS = d.TookMS
	if err := in.finish(p, i); err != nil {
		return err
	}
	r.TookEffect = true
	if err := in.Fleet.Settle(ctx); err != nil {
		return err
	}
	if err := in.fillElsewhere(ctx, i); err != nil {
		return err
	}
	return in.Fleet.Settle(ctx)
}

// restart ends a process in order, and immediately starts another at its address.
func (in *Injector) restart(ctx context.Context, r *Round, i int) error {
	p := in.Fleet.Now[i]
	r.hurts(p)
	last, _ := p.Snapshot()
	if err := in.finish(p, i); err != nil {
		return err
	}
	r.DrainMS = float64(clock.Boot().Now().Sub(r.From).Microseconds()) / 1000
	r.TookEffect = true
	if err := in.fillPlace(ctx, i, last.Listen); err != nil {
		return err
	}
	return in.Fleet.Settle(ctx)
}

// restartMany ends processes in order, all at the same instant. When all have ended, it
// starts new processes at their addresses.
func (in *Injector) restartMany(ctx context.Context, r *Round, places []int) error {
	listen := make(map[int]string, len(places))
	for _, i := range places {
		r.hurts(in.Fleet.Now[i])
		last, _ := in.Fleet.Now[i].Snapshot()
		listen[i] = last.Listen
	}
	ended := make(chan error)
	for _, i := range places {
		p := in.Fleet.Now[i]
		in.Fleet.Now[i] = nil
		go func() { ended <- p.Finish() }()
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
		if err := in.fillPlace(ctx, i, listen[i]); err != nil {
			return err
		}
	}
	return in.Fleet.Settle(ctx)
}

// replaceProcess ends a process, and waits until the next one at its address is ready.
func (in *Injector) replaceProcess(ctx context.Context, r *Round, i int) error {
	if err := in.restart(ctx, r, i); err != nil {
		return err
	}
	return in.Fleet.Now[i].WaitForReadiness(ctx)
}

// overtake starts the next process, waits until it is ready, and ends the old one.
func (in *Injector) overtake(ctx context.Context, r *Round, i int) error {
	old := in.Fleet.Now[i]
	r.hurts(old)
	if err := in.fillElsewhere(ctx, i); err != nil {
		return err
	}
	next := in.Fleet.Now[i]
	if err := next.WaitForReadiness(ctx); err != nil {
		return err
	}
	began := clock.Boot().Now()
	err := in.finish(old, i)
	in.Fleet.Now[i] = next
	if err != nil {
		return err
	}
	r.DrainMS = harness.Milliseconds(clock.Boot().Now().Sub(began))
	r.TookEffect = true
	return in.Fleet.Settle(ctx)
}
