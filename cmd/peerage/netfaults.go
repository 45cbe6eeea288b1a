package main

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// These faults break the network between processes. They need root and Linux.
const (
	// faultCut: some places, less than half, lose the rest. faultCutPair: two places lose
	// each other.
	faultCut     faultKind = "cut"
	faultCutPair faultKind = "cut-pair"
	// faultReject: as cut or cut-pair, but the network answers for living processes, with
	// resets or ICMP errors, in one direction or both, immediately or after a silence.
	faultReject faultKind = "reject"
	// faultOneWay: packets pass in one direction only.
	faultOneWay faultKind = "oneway"
	// faultRing: each place reaches only its neighbours in a ring.
	faultRing faultKind = "ring"
	// faultLate: one place is cut off in one direction for about as long as it takes to
	// remove it. Its kernel then delivers what it still holds, beside its next incarnation.
	faultLate faultKind = "late"

	netFaults = "cut,cut-pair,reject,oneway,ring,late"
)

// breaksNetwork reports whether a fault needs the wall.
func (k faultKind) breaksNetwork() bool {
	switch k {
	case faultCut, faultCutPair, faultReject, faultOneWay, faultRing, faultLate:
		return true
	}
	return false
}

// breakage is a way to break a direction between two places.
type breakage string

const (
	dropAll      breakage = "dropped"
	resetTCP     breakage = "reset"
	resetDials   breakage = "dials reset"
	prohibitAll  breakage = "prohibited"
	noRouteToAll breakage = "unreachable"
)

// path is one direction between two places.
type path struct{ from, to int }

// pathsOf returns the paths from each place in one list to each place in the other.
// If both is set, it also returns the paths back.
func pathsOf(some, others []int, both bool) (out []path) {
	for _, i := range some {
		for _, j := range others {
			out = append(out, path{i, j})
			if both {
				out = append(out, path{j, i})
			}
		}
	}
	return out
}

// ringPaths returns the directions between places that are not neighbours.
func ringPaths(places []int) (out []path) {
	n := len(places)
	for a := range n {
		for b := range n {
			if apart := (b - a + n) % n; apart > 1 && apart < n-1 {
				out = append(out, path{places[a], places[b]})
			}
		}
	}
	return out
}

// step is one stage of a network fault.
type step struct {
	how   breakage
	paths []path
	lasts time.Duration
}

// minority draws some places, less than half of all, and returns them and the rest.
func (c *chaosRun) minority() (some, others []int) {
	places, n := c.rng.Perm(c.cfg.nodes), 1+c.rng.IntN(max(1, (c.cfg.nodes-1)/2))
	return places[:n], places[n:]
}

func (c *chaosRun) playCut(ctx context.Context, r *round) error {
	some, others := c.minority()
	return c.breakNetwork(ctx, r, some, step{dropAll, pathsOf(some, others, true), c.heldFor()})
}

func (c *chaosRun) playCutPair(ctx context.Context, r *round) error {
	places := c.rng.Perm(c.cfg.nodes)
	r.Other = placeName(places[1])
	return c.breakNetwork(ctx, r, places[:1], step{dropAll, pathsOf(places[:1], places[1:2], true), c.heldFor()})
}

func (c *chaosRun) playReject(ctx context.Context, r *round) error {
	some, others := c.minority()
	ways := []breakage{resetTCP, resetTCP, prohibitAll, noRouteToAll}
	how := ways[c.rng.IntN(len(ways))]
	paths := pathsOf(some, others, true)
	variant := c.rng.IntN(4)
	r.How = string(how)
	switch variant {
	case 0:
		paths = pathsOf(some, others, false)
		r.How += ", from there only"
	case 1:
		paths = pathsOf(others, some, false)
		r.How += ", towards there only"
	}
	rejected := step{how, paths, c.heldFor()}
	if variant == 2 { // connections end in silence, and dials are then refused
		r.How = "dropped, then dials reset"
		return c.breakNetwork(ctx, r, some, step{dropAll, paths, c.heldFor() / 4}, step{resetDials, paths, rejected.lasts})
	}
	return c.breakNetwork(ctx, r, some, rejected)
}

func (c *chaosRun) playOneWay(ctx context.Context, r *round) error {
	some, others := c.minority()
	if c.rng.IntN(2) == 0 {
		r.How = "from there only"
		return c.breakNetwork(ctx, r, some, step{dropAll, pathsOf(some, others, false), c.heldFor()})
	}
	r.How = "towards there only"
	return c.breakNetwork(ctx, r, some, step{dropAll, pathsOf(others, some, false), c.heldFor()})
}

func (c *chaosRun) playRing(ctx context.Context, r *round) error {
	places := c.rng.Perm(c.cfg.nodes)
	return c.breakNetwork(ctx, r, places, step{dropAll, ringPaths(places), c.heldFor()})
}

// lateMin is about the time until an unresponsive node is removed.
const lateMin = 2 * time.Second

func (c *chaosRun) playLate(ctx context.Context, r *round) error {
	some, others := c.rng.Perm(c.cfg.nodes)[:1], []int(nil)
	for i := range c.cfg.nodes {
		if i != some[0] {
			others = append(others, i)
		}
	}
	r.How = "from there only"
	paths := pathsOf(some, others, false)
	if c.rng.IntN(2) == 0 { // its packets arrive, and no acknowledgement reaches it
		r.How, paths = "towards there only", pathsOf(others, some, false)
	}
	lasts := lateMin + time.Duration(c.rng.Int64N(int64(time.Second)))
	return c.breakNetwork(ctx, r, some, step{dropAll, paths, lasts})
}

// breakNetwork plays the stages of a fault, heals the network and waits until all
// processes agree again. The fault took effect if its rules hit packets.
func (c *chaosRun) breakNetwork(ctx context.Context, r *round, hurt []int, steps ...step) error {
	for _, i := range hurt {
		r.hurts(c.fleet.now[i])
	}
	r.From = clock.Boot().Now()
	var errs []error
	for _, s := range steps {
		r.HeldMS += float64(s.lasts.Milliseconds())
		if err := c.fleet.wall.breakPaths(ctx, s.how, s.paths); err != nil {
			errs = append(errs, err)
			break
		}
		errs = append(errs, pause(ctx, s.lasts), c.fleet.wall.unbreak(context.WithoutCancel(ctx)))
	}
	hit, err := c.fleet.wall.heal(context.WithoutCancel(ctx))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	r.TookEffect = hit > 0
	return c.fleet.settle(ctx)
}
