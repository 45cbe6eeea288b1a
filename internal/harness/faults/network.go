package faults

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/namespace"
)

// pathsOf returns the paths from each place in one list to each place in the other.
// If both is set, it also returns the paths back.
func pathsOf(some, others []int, both bool) (out []namespace.Path) {
	for _, i := range some {
		for _, j := range others {
			out = append(out, namespace.Path{From: i, To: j})
			if both {
				out = append(out, namespace.Path{From: j, To: i})
			}
		}
	}
	return out
}

// ringPaths returns the directions between places that are not neighbours.
func ringPaths(places []int) (out []namespace.Path) {
	n := len(places)
	for a := range n {
		for b := range n {
			if apart := (b - a + n) % n; apart > 1 && apart < n-1 {
				out = append(out, namespace.Path{From: places[a], To: places[b]})
			}
		}
	}
	return out
}

// step is one stage of a network fault.
type step struct {
	how   namespace.Breakage
	paths []namespace.Path
	lasts time.Duration
}

func (in *Injector) playCut(ctx context.Context, r *Round) error {
	some, others := in.minority()
	return in.breakNetwork(ctx, r, some, step{namespace.DropAll, pathsOf(some, others, true), in.heldFor()})
}

func (in *Injector) playCutPair(ctx context.Context, r *Round) error {
	places := in.Rng.Perm(in.Fleet.Size())
	r.Other = fleet.PlaceName(places[1])
	return in.breakNetwork(ctx, r, places[:1], step{namespace.DropAll, pathsOf(places[:1], places[1:2], true), in.heldFor()})
}

func (in *Injector) playReject(ctx context.Context, r *Round) error {
	some, others := in.minority()
	ways := []namespace.Breakage{namespace.ResetTCP, namespace.ResetTCP, namespace.ProhibitAll, namespace.NoRouteToAll}
	how := ways[in.Rng.IntN(len(ways))]
	paths := pathsOf(some, others, true)
	variant := in.Rng.IntN(4)
	r.How = string(how)
	switch variant {
	case 0:
		paths = pathsOf(some, others, false)
		r.How += ", from there only"
	case 1:
		paths = pathsOf(others, some, false)
		r.How += ", towards there only"
	}
	rejected := step{how, paths, in.heldFor()}
	if variant == 2 { // connections end in silence, and dials are then refused
		r.How = "dropped, then dials reset"
		return in.breakNetwork(ctx, r, some, step{namespace.DropAll, paths, in.heldFor() / 4}, step{namespace.ResetDials, paths, rejected.lasts})
	}
	return in.breakNetwork(ctx, r, some, rejected)
}

func (in *Injector) playOneWay(ctx context.Context, r *Round) error {
	some, others := in.minority()
	if in.Rng.IntN(2) == 0 {
		r.How = "from there only"
		return in.breakNetwork(ctx, r, some, step{namespace.DropAll, pathsOf(some, others, false), in.heldFor()})
	}
	r.How = "towards there only"
	return in.breakNetwork(ctx, r, some, step{namespace.DropAll, pathsOf(others, some, false), in.heldFor()})
}

func (in *Injector) playRing(ctx context.Context, r *Round) error {
	places := in.Rng.Perm(in.Fleet.Size())
	return in.breakNetwork(ctx, r, places, step{namespace.DropAll, ringPaths(places), in.heldFor()})
}

func (in *Injector) playLoss(ctx context.Context, r *Round) error {
	some, others := in.minority()
	how := namespace.LoseFew
	if in.turnOf(Loss)%2 == 1 {
		how = namespace.LoseMany
	}
	r.How = string(how)
	return in.breakNetwork(ctx, r, some, step{how, pathsOf(some, others, true), in.heldFor()})
}

// lateMin is about the time until an unresponsive node is removed.
const lateMin = 2 * time.Second

func (in *Injector) playLate(ctx context.Context, r *Round) error {
	some, others := in.Rng.Perm(in.Fleet.Size())[:1], []int(nil)
	for i := range in.Fleet.Size() {
		if i != some[0] {
			others = append(others, i)
		}
	}
	r.How = "from there only"
	paths := pathsOf(some, others, false)
	if in.Rng.IntN(2) == 0 { // its packets arrive, and no acknowledgement reaches it
		r.How, paths = "towards there only", pathsOf(others, some, false)
	}
	lasts := lateMin + time.Duration(in.Rng.Int64N(int64(time.Second)))
	return in.breakNetwork(ctx, r, some, step{namespace.DropAll, paths, lasts})
}

// breakNetwork plays the stages of a fault, heals the network and waits until all
// processes agree again. The fault took effect if its rules hit packets.
func (in *Injector) breakNetwork(ctx context.Context, r *Round, hurt []int, steps ...step) error {
	for _, i := range hurt {
		r.hurts(in.Fleet.Now[i])
	}
	r.From = clock.Boot().Now()
	var errs []error
	for _, s := range steps {
		r.HeldMS += float64(s.lasts.Milliseconds())
		if err := in.Fleet.Wall.BreakPaths(ctx, s.how, s.paths); err != nil {
			errs = append(errs, err)
			break
		}
		errs = append(errs, harness.Pause(ctx, s.lasts), in.Fleet.Wall.Unbreak(context.WithoutCancel(ctx)))
	}
	hit, err := in.Fleet.Wall.Heal(context.WithoutCancel(ctx))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	r.TookEffect = hit > 0
	return in.Fleet.Settle(ctx)
}
