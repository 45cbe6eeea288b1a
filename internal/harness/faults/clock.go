package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
)

const year = 365 * 24 * time.Hour

// offsets are how far a wall clock is set ahead. Half of the clocks are set back.
var offsets = []time.Duration{90 * time.Second, 3 * time.Hour, 9 * 24 * time.Hour, year, 30 * year}

func (in *Injector) wallOffset() time.Duration {
	d := offsets[in.Rng.IntN(len(offsets))]
	if in.Rng.IntN(2) == 0 {
		return -d
	}
	return d
}

func (in *Injector) playClock(ctx context.Context, r *Round) error {
	switch in.turnOf(Clock) % 3 {
	case 0:
		return in.restartAll(ctx, r)
	case 1:
		return in.jump(ctx, r)
	}
	return in.restartInASecond(ctx, r)
}

// jump sets the clocks of a minority, twice, and then right again.
func (in *Injector) jump(ctx context.Context, r *Round) error {
	some, _ := in.minority()
	for _, i := range some {
		r.hurts(in.Fleet.Now[i])
	}
	r.From = clock.Boot().Now()
	for range 2 {
		for _, i := range some {
			d := in.wallOffset()
			r.How = strings.TrimPrefix(r.How+", "+ago(d), ", ")
			if err := in.Fleet.SetWall(ctx, i, d); err != nil {
				return err
			}
		}
		held := in.heldFor() / 2
		r.HeldMS += float64(held.Milliseconds())
		if err := harness.Pause(ctx, held); err != nil {
			return err
		}
	}
	r.TookEffect = true // setWall has seen it
	return errors.Join(in.Fleet.RightWalls(ctx), in.Fleet.Settle(ctx))
}

// ago words an offset.
func ago(d time.Duration) string {
	word, size := "days", 24*time.Hour
	switch d = d.Round(time.Second); {
	case d.Abs() >= year:
		word, size = "years", year
	case d < 0 && -d < size:
		return d.String()
	case d < size:
		return "+" + d.String()
	}
	return fmt.Sprintf("%+d %s", d/size, word)
}

// restartInASecond kills a process and starts it again at its address, with another clock.
func (in *Injector) restartInASecond(ctx context.Context, r *Round) error {
	i, d := in.Rng.IntN(in.Fleet.Size()), in.wallOffset()
	p := in.Fleet.Now[i]
	r.hurts(p)
	r.Killed, r.How = 1, "killed and started again, "+ago(d)
	r.From = clock.Boot().Now()
	if err := p.Kill(); err != nil {
		return err
	}
	<-p.Gone
	last, _ := p.Snapshot()
	in.Fleet.Now[i], in.Fleet.Ahead[i] = nil, d
	if err := in.fillPlace(ctx, i, last.Listen); err != nil {
		return err
	}
	if err := in.Fleet.Settle(ctx); err != nil {
		return err
	}
	if err := in.Fleet.SeesWall(ctx, i); err != nil {
		return err
	}
	r.TookEffect = true
	return errors.Join(in.Fleet.RightWalls(ctx), in.Fleet.Settle(ctx))
}

// restartAll kills all processes, sets their clocks back, and starts them again at the
// addresses of their list, which may not be where the last ones listened: to the second in which the present cluster was formed, or by as much for each
// as is drawn. One more of them may stand years ahead. The next cluster's generation must be higher.
func (in *Injector) restartAll(ctx context.Context, r *Round) error {
	f := in.Fleet
	r.Killed, r.Emergency = in.Fleet.Size(), true
	before := uint32(0)
	for _, p := range f.Now {
		r.hurts(p)
		last, _ := p.Snapshot()
		before = max(before, last.Generation)
	}
	offsets := make([]time.Duration, in.Fleet.Size())
	same := time.Until(time.Unix(int64(before), 0))
	r.How = "all killed and started again, "
	if in.turnOf(Clock)%2 == 0 && same < 0 {
		r.How += "in the second in which their cluster was formed"
		for i := range offsets {
			offsets[i] = same
		}
	} else {
		for i := range offsets {
			offsets[i] = -in.wallOffset().Abs()
		}
		r.How += "set back"
		if in.Rng.IntN(2) == 0 {
			offsets[in.Rng.IntN(len(offsets))] = 3 * year
			r.How += ", one ahead"
		}
	}
	r.From = clock.Boot().Now()
	for _, p := range f.Now {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	for i, p := range f.Now {
		<-p.Gone
		f.Now[i], f.Ahead[i] = nil, offsets[i]
	}
	for i, at := range f.List {
		if err := in.fillPlace(ctx, i, at); err != nil {
			return err
		}
	}
	if err := f.Settle(ctx); err != nil {
		return err
	}
	after, _ := f.Now[0].Snapshot()
	if after.Generation <= before {
		return fmt.Errorf("the generation went from %d to %d", before, after.Generation)
	}
	for i := range f.Now {
		if err := f.SeesWall(ctx, i); err != nil {
			return err
		}
	}
	r.TookEffect = true
	return errors.Join(f.RightWalls(ctx), f.Settle(ctx))
}
