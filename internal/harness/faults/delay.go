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

// delays are the least and the most that packets are held, in turn: a far or a busy network,
// and one in which leases run out on their way.
var delays = [][2]time.Duration{{50 * time.Millisecond, 300 * time.Millisecond}, {500 * time.Millisecond, 1200 * time.Millisecond}}

// delayHarmless bounds how long packets are held without a node being removed: round trips are
// then shorter than the lease of a node, which lasts a second, and half of what removes it. A
// service may have other bounds.
const delayHarmless = 500 * time.Millisecond

// drawDelay draws how packets between some places and the rest are delayed, the paths that
// this concerns, how many of them a round trip takes, and the words for it.
func (in *Injector) drawDelay(some, others []int) (d namespace.Delay, paths []namespace.Path, ways int, how string) {
	bounds := delays[in.turnOf(Delay)%len(delays)]
	d = namespace.Delay{Base: bounds[0] + time.Duration(in.Rng.Int64N(int64(bounds[1]-bounds[0]))), Seed: in.Rng.Uint64()}
	d.Jitter = time.Duration(in.Rng.Int64N(int64(d.Base / 4)))
	how = fmt.Sprintf("by %d to %d ms, ", d.Base.Milliseconds(), (d.Base + d.Jitter).Milliseconds())
	switch in.Rng.IntN(4) {
	case 0:
		return d, pathsOf(some, others, false), 1, how + "from there only"
	case 1:
		return d, pathsOf(others, some, false), 1, how + "towards there only"
	case 2:
		d.Reorder = true
		how += "out of order, "
	}
	return d, pathsOf(some, others, true), 2, how + "both ways"
}

// playDelay delays packets for a while, and waits until all processes agree again. The delay
// took effect if packets of the processes were held, and the round trip of a datagram took as
// long as the delay has it take.
func (in *Injector) playDelay(ctx context.Context, r *Round) error {
	some, others := in.minority()
	for _, i := range some {
		r.hurts(in.Fleet.Now[i])
	}
	delay, paths, ways, how := in.drawDelay(some, others)
	lasts := delay.Base + in.heldFor()
	r.How = how
	r.From = clock.Boot().Now()
	playing, err := in.Fleet.Wall.DelayPaths(ctx, delay, paths)
	if err != nil { // the round has no effect, so the run is not shown to have had it
		r.How += ", not possible here: " + err.Error()
		return ctx.Err()
	}
	began := time.Now()
	err = errors.Join(playing.RoundTrip(ctx), harness.Pause(ctx, lasts-time.Since(began)))
	r.HeldMS = harness.Milliseconds(time.Since(began))
	did, err2 := playing.End(context.WithoutCancel(ctx))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	r.Delay = &did
	r.KeepsMemory = in.Fleet.Service == nil && did.MaxMS < harness.Milliseconds(delayHarmless)
	// The datagram of the round trip is one of the packets in each direction.
	r.TookEffect = did.Packets > ways && did.DuringMS >= harness.Milliseconds(time.Duration(ways)*delay.Base)
	return in.Fleet.Settle(ctx)
}
