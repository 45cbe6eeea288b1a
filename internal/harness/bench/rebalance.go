package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/history"
)

// pauseRebalance bounds the p99 pause of an entity whose shard moves to even out the
// load, the transfer of its state left out.
const pauseRebalance = 50 * time.Millisecond

// measureRebalance lets a node join those that serve, and measures how long counters pause
// whose shards go there: once with a state of some bytes, once with a large one.
func measureRebalance(ctx context.Context, b *Suite) error {
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
		q := harness.HistogramOf(times).Quantiles()
		b.addRow(Row{
			Name: c.name, Unit: "ms", Value: q.P99, Target: fmt.Sprintf(c.target, pauseRebalance), Met: q.P99 <= harness.Milliseconds(pauseRebalance),
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
	f := &fleet.Fleet{Dir: dir, Counters: counters, Shards: counters, Every: rebalancePace, StateBytes: stateBytes}
	defer f.End()
	if err := f.Up(ctx, 3); err != nil {
		return nil, err
	}
	if err := harness.Pause(ctx, chaos.WarmUp); err != nil {
		return nil, err
	}
	in := history.Span{From: clock.Boot().Now()}
	if err := f.Grow(ctx); err != nil {
		return nil, err
	}
	if err := f.Even(ctx); err != nil {
		return nil, err
	}
	in.To = clock.Boot().Now()
	f.End()
	records, err := f.Records()
	if err != nil {
		return nil, err
	}
	if times := history.Handoffs(records, in); len(times) > 0 {
		return times, nil
	}
	return nil, fmt.Errorf("no counter of %d moved", counters)
}
