package faults

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// Injector deals faults to a fleet, as a random source decides.
type Injector struct {
	Fleet *fleet.Fleet
	Rng   *rand.Rand
	// Spared is how many places, from the first, keep their processes to the end of the run:
	// kills, drains and restarts choose among the others.
	Spared int
	// Rounds are the faults so far.
	Rounds []Round
}

// deal deals one fault, and adds its round to the rounds.
func (in *Injector) deal(ctx context.Context, kind Kind, fault func(context.Context, *Injector, *Round) error) (*Round, error) {
	r := Round{Kind: kind, Number: len(in.Rounds) + 1, From: clock.Boot().Now()}
	err := fault(ctx, in, &r)
	r.To = clock.Boot().Now()
	in.Rounds = append(in.Rounds, r)
	return &in.Rounds[len(in.Rounds)-1], err
}

// fillPlace starts a process at an empty place and waits until it listens.
func (in *Injector) fillPlace(ctx context.Context, i int, listen string) error {
	p, err := in.Fleet.Start(i, listen)
	if err != nil {
		return err
	}
	return p.WaitReady(ctx)
}

// fillElsewhere starts a process at an empty place and at a new address, and waits until it
// listens.
func (in *Injector) fillElsewhere(ctx context.Context, i int) error {
	addr, err := in.Fleet.FreeAddr(i)
	if err != nil {
		return err
	}
	return in.fillPlace(ctx, i, addr)
}

const (
	heldMin = 300 * time.Millisecond
	HeldMax = 4 * time.Second
)

// heldFor is shorter or longer than a lease and the time after which a node is removed.
func (in *Injector) heldFor() time.Duration {
	return heldMin + time.Duration(in.Rng.Int64N(int64(HeldMax-heldMin)))
}

// finish ends a process in order, and fails if it did not end well.
func (in *Injector) finish(p *fleet.Process, i int) error {
	in.Fleet.Now[i] = nil
	return p.Finish()
}

// minority draws some places, less than half of all, and returns them and the rest.
func (in *Injector) minority() (some, others []int) {
	places, n := in.Rng.Perm(in.Fleet.Size()), 1+in.Rng.IntN(max(1, (in.Fleet.Size()-1)/2))
	return places[:n], places[n:]
}

// drawMortal returns the places whose processes may end, in random order.
func (in *Injector) drawMortal() []int {
	places := in.Rng.Perm(in.Fleet.Size() - in.Spared)
	for i := range places {
		places[i] += in.Spared
	}
	return places
}

// drawOneMortal draws one of the places whose processes may end.
func (in *Injector) drawOneMortal() int { return in.Spared + in.Rng.IntN(in.Fleet.Size()-in.Spared) }

// drawMortalCount draws how many processes end together: never all of the fleet.
func (in *Injector) drawMortalCount() int {
	return 1 + in.Rng.IntN(min(in.Fleet.Size()-1, in.Fleet.Size()-in.Spared))
}

// turnOf counts the rounds of a kind before this one: its variants take turns, so that
// short runs play them all.
func (in *Injector) turnOf(k Kind) (n int) {
	for i := range in.Rounds {
		if in.Rounds[i].Kind == k {
			n++
		}
	}
	return n
}

// oldest returns the place of the leader, or 0 if no process reports to be leader.
func (in *Injector) oldest() int {
	for _, i := range in.Fleet.Living() {
		if last, _ := in.Fleet.Now[i].Snapshot(); last.Leader {
			return i
		}
	}
	return 0
}
