package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/namespace"
)

// kill kills n processes at one instant and, once the rest agree, starts replacements.
// A replacement listens at the same address or at a new one.
func (in *Injector) kill(ctx context.Context, r *Round, n int) error {
	f := in.Fleet
	victims := in.drawMortal()[:n]
	again := in.Rng.IntN(2) == 0
	left := in.Fleet.Size() - n
	r.Emergency = 2*left < in.Fleet.Size() || 2*left == in.Fleet.Size()
	for _, i := range victims {
		r.hurts(f.Now[i])
	}
	r.From = clock.Boot().Now()
	for _, i := range victims {
		if err := f.Now[i].Kill(); err != nil {
			return err
		}
	}
	listen := make(map[int]string, n)
	for _, i := range victims {
		<-f.Now[i].Gone
		last, _ := f.Now[i].Snapshot()
		listen[i] = last.Listen
		f.Now[i] = nil
	}
	r.TookEffect = true
	if err := f.Settle(ctx); err != nil {
		return err
	}
	for _, i := range victims {
		at, err := listen[i], error(nil)
		if !again {
			if at, err = f.FreeAddr(i); err != nil {
				return err
			}
		}
		if err := in.fillPlace(ctx, i, at); err != nil {
			return err
		}
	}
	return f.Settle(ctx)
}

// answerMax is how long a paused process of a service is asked for an answer.
const answerMax = 200 * time.Millisecond

// hold stops a process for a while, and lets it go on.
func (in *Injector) hold(ctx context.Context, r *Round, d time.Duration) error {
	p := in.Fleet.Now[in.Rng.IntN(in.Fleet.Size())]
	r.hurts(p)
	r.HeldMS = float64(d.Milliseconds())
	r.From = clock.Boot().Now()
	if err := p.Hold(); err != nil {
		return err
	}
	r.HeldFrom = clock.Boot().Now()
	err := harness.Pause(ctx, d)
	last, _ := p.Snapshot()
	// Its threads stop one after the other. A report from before the hold may be read late.
	r.TookEffect = last.At.Before(r.HeldFrom.Add(d / 2))
	if p.OfService() {
		r.TookEffect = !p.Answers(ctx, answerMax)
	}
	r.HeldTo = clock.Boot().Now()
	if err := errors.Join(err, p.Release()); err != nil {
		return err
	}
	return in.Fleet.Settle(ctx)
}

// slowParts are the parts of a processor that a slowed process has, in turn.
var slowParts = []float64{0.1, 0.03}

// slow gives a process little processor time for a while. It took effect if the kernel
// has throttled the process.
func (in *Injector) slow(ctx context.Context, r *Round) error {
	p := in.Fleet.Now[in.Rng.IntN(in.Fleet.Size())]
	r.hurts(p)
	part, lasts := slowParts[in.turnOf(Slow)%len(slowParts)], in.heldFor()
	r.How, r.HeldMS = fmt.Sprintf("%.0f %% of a processor", 100*part), float64(lasts.Milliseconds())
	r.From = clock.Boot().Now()
	quota, err := namespace.LimitCPU(p.PID(), part)
	if err != nil { // the round has no effect, so the run is not shown to have had it
		r.How += ", not possible here: " + err.Error()
		return nil
	}
	err = harness.Pause(ctx, lasts)
	throttled, err2 := quota.Throttled()
	if err := errors.Join(err, err2, quota.Release()); err != nil {
		return err
	}
	r.TookEffect = throttled > 0
	return in.Fleet.Settle(ctx)
}
