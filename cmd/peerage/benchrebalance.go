package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// pauseRebalance bounds the p99 pause of an entity whose shard moves to even out the
// load, the transfer of its state left out.
const pauseRebalance = 50 * time.Millisecond

// benchRebalance lets a node join those that serve, and measures how long counters pause
// whose shards go there: once with a state of some bytes, once with a large one.
func benchRebalance(ctx context.Context, b *benchRun) error {
	for _, c := range []struct {
		bytes        int
		name, target string
	}{
		{0, "rebalance under load, p99 pause of a counter", "at most %v"},
		{stateOfBench, "the same with 64 KiB of state each", "at most %v, and the transfer"},
	} {
		var times []time.Duration
		rounds := scale(b.cfg, 5, 1)
		for range rounds {
			t, err := rebalanceOnce(ctx, scale(b.cfg, 64, 16), c.bytes)
			if err != nil {
				return err
			}
			times = append(times, t...)
		}
		q := quantilesOf(times)
		b.add(benchRow{
			Name: c.name, Unit: "ms", Value: q.P99, Target: fmt.Sprintf(c.target, pauseRebalance), Met: q.P99 <= ms(pauseRebalance),
			Note: fmt.Sprintf("%d counters moved in %d joins, p50 %.0f, max %.0f ms; the pace of the load, %v, included", q.N, rounds, q.P50, q.Max, rebalancePace),
		})
	}
	return nil
}

const (
	stateOfBench  = 64 << 10
	rebalancePace = 10 * time.Millisecond
)

// rebalanceOnce returns the pauses of the counters that moved.
func rebalanceOnce(ctx context.Context, counters, stateBytes int) ([]time.Duration, error) {
	dir, err := os.MkdirTemp("", "peerage-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f := &fleet{dir: dir, counters: counters, shards: counters, every: rebalancePace, stateBytes: stateBytes}
	defer f.end()
	if err := f.up(ctx, 3); err != nil {
		return nil, err
	}
	if err := pause(ctx, warmUp); err != nil {
		return nil, err
	}
	in := history.Span{From: clock.Boot().Now()}
	if err := f.grow(ctx); err != nil {
		return nil, err
	}
	if err := f.even(ctx); err != nil {
		return nil, err
	}
	in.To = clock.Boot().Now()
	f.end()
	records, err := f.records()
	if err != nil {
		return nil, err
	}
	if times := history.Handoffs(records, in); len(times) > 0 {
		return times, nil
	}
	return nil, fmt.Errorf("no counter of %d moved", counters)
}

// grow starts one more process.
func (f *fleet) grow(ctx context.Context) error {
	i := len(f.now)
	f.now = append(f.now, nil)
	p, err := f.start(i, f.anyPort(i))
	if err != nil {
		return err
	}
	if err := p.waitReady(ctx); err != nil {
		return err
	}
	return f.settle(ctx)
}

// even waits until no process has more than one shard more than another.
func (f *fleet) even(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for {
		least, most, _ := spread(f, func(r report) int { return r.Shards })
		if most-least <= 1 {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until shards are even, now %d to %d: %w\n%s", least, most, err, f.describe())
		}
	}
}
