package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

func benchRemoteTell(ctx context.Context, b *benchRun) error {
	r, err := startRemote(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	const senders = 64
	n := scale(b.cfg, 2_000_000, 200_000)
	var raws []float64
	runs, err := b.repeat(func() (float64, error) {
		raw, err := rawOneWay(r.host.Raw, senders, 2*n)
		if err != nil {
			return 0, err
		}
		raws = append(raws, raw)
		return r.tells(ctx, senders, n)
	})
	if err != nil {
		return err
	}
	slices.Sort(raws)
	b.atLeast("remote Tell by id, 100 B, 64 senders", runs, median(raws), 0.4, 0)
	return nil
}

func benchRemoteAsk(ctx context.Context, b *benchRun) error {
	r, err := startRemote(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	d := scale(b.cfg, 2*time.Second, 300*time.Millisecond)
	var raw, times []time.Duration
	// In turns: the kernel moves the two processes between one processor and two as it
	// likes, which is worth a factor of two, and both sides shall meet the same.
	const turns = 20
	for range turns {
		rawTurn, err := rawPingPong(r.host.Raw, d/turns)
		if err != nil {
			return err
		}
		turn, err := r.askTimes(ctx, d/turns)
		if err != nil {
			return err
		}
		raw, times = append(raw, rawTurn...), append(times, turn...)
	}
	rq, q := percentiles(raw), percentiles(times)
	b.atMost("remote Ask by id, 1 caller, p50", q(50), rq(50), 2, 0)
	b.atMost("remote Ask by id, 1 caller, p99", q(99), rq(99), 3, 0)
	for _, callers := range []int{64, 256} {
		var raws []float64
		runs, err := b.repeat(func() (float64, error) {
			raw, err := rawPipelined(r.host.Raw, callers, d)
			if err != nil {
				return 0, err
			}
			raws = append(raws, raw)
			return r.askRate(ctx, callers, d)
		})
		if err != nil {
			return err
		}
		slices.Sort(raws)
		b.atLeast(fmt.Sprintf("remote Ask by id, %d callers", callers), runs, median(raws), 0.5, 0)
	}
	return nil
}

func percentiles(times []time.Duration) func(float64) time.Duration {
	slices.Sort(times)
	return history.Failover{Times: times}.Percentile
}

func benchLocalTell(ctx context.Context, b *benchRun) error {
	l, err := startLocal(ctx)
	if err != nil {
		return err
	}
	defer l.node.Close()
	n := scale(b.cfg, 5_000_000, 300_000)
	for _, c := range []struct {
		entities int
		floor    float64
	}{{1, 10e6}, {1000, 4e6}} {
		var raws []float64
		runs, err := b.repeat(func() (float64, error) {
			raws = append(raws, rawQueue(n))
			return l.tells(ctx, c.entities, n)
		})
		if err != nil {
			return err
		}
		slices.Sort(raws)
		b.atLeast(fmt.Sprintf("local Tell by id, %d entities", c.entities), runs, median(raws), 0, c.floor)
	}
	return nil
}

func benchLocalAsk(ctx context.Context, b *benchRun) error {
	l, err := startLocal(ctx)
	if err != nil {
		return err
	}
	defer l.node.Close()
	n := scale(b.cfg, 1_000_000, 100_000)
	raw := percentiles(rawSwitch(n))
	times, err := l.askTimes(ctx, n)
	if err != nil {
		return err
	}
	b.atMost("local Ask by id, p50", percentiles(times)(50), raw(50), 0, time.Microsecond)
	return nil
}

func benchIdle(ctx context.Context, b *benchRun) error {
	l, err := startLocal(ctx)
	if err != nil {
		return err
	}
	defer l.node.Close()
	n := scale(b.cfg, 1_000_000, 100_000)
	each, err := l.idle(ctx, n)
	if err != nil {
		return err
	}
	b.add(benchRow{Name: fmt.Sprintf("idle entity, of %d on a node", n), Unit: "B", Value: each, Target: "at most 300 B of heap and stacks", Met: each <= 300})
	b.add(benchRow{Name: "all of them", Unit: "GB", Value: each * float64(n) / 1e9, Target: "1 million in at most 0.4 GB", Met: each*1e6 <= 0.4e9})
	return nil
}

// play runs rounds of one kind of fault and returns its report.
func (b *benchRun) play(ctx context.Context, kind faultKind, nodes, rounds int) (*chaosReport, error) {
	dir, err := os.MkdirTemp("", "peerage-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cfg := &chaosConfig{rounds: rounds, seed: 1, nodes: nodes, counters: 64, shards: 64, every: 10 * time.Millisecond, calm: 500 * time.Millisecond, kinds: string(kind)}
	c := &chaosRun{
		cfg: cfg, rng: rand.New(rand.NewPCG(1, 0)), out: io.Discard, began: time.Now(),
		fleet: &fleet{dir: dir, counters: cfg.counters, shards: cfg.shards, every: cfg.every},
	}
	defer c.fleet.end()
	err = c.script(ctx)
	c.ended = clock.Boot().Now()
	c.fleet.end()
	records, readErr := c.fleet.records()
	if readErr != nil {
		return nil, readErr
	}
	r := c.report(records, err)
	if r.Verdict != passed {
		return nil, fmt.Errorf("%s: %s: %+v", kind, r.Verdict, r.Invariants)
	}
	return r, nil
}

// boundFrozen is RemoveAfter and half a second, and a lease more when it was the leader.
const boundFrozen = boundSilent + time.Second

func benchFailover(ctx context.Context, b *benchRun) error {
	for _, c := range []struct {
		name   string
		kind   faultKind
		rounds int
		p50    time.Duration
		p99    time.Duration
	}{
		{"SIGKILL of a host, a majority lives", faultKill, scale(b.cfg, 30, 3), 100 * time.Millisecond, boundMajority},
		{"SIGKILL of all but one together", faultKillRest, scale(b.cfg, 30, 3), 0, boundEmergency},
		{"SIGSTOP of a host", faultFreeze, scale(b.cfg, 10, 1), 0, boundFrozen},
	} {
		r, err := b.play(ctx, c.kind, 5, c.rounds)
		if err != nil {
			return err
		}
		q := r.Recovery[0].quantiles
		note := fmt.Sprintf("%d rounds, %d counters, max %.0f ms", c.rounds, q.N, q.Max)
		if c.p50 > 0 {
			b.add(benchRow{Name: c.name + ", p50", Unit: "ms", Value: q.P50, Target: fmt.Sprintf("at most %v", c.p50), Met: q.P50 <= ms(c.p50), Note: note})
		}
		b.add(benchRow{Name: c.name + ", p99", Unit: "ms", Value: q.P99, Target: fmt.Sprintf("at most %v", c.p99), Met: q.P99 <= ms(c.p99), Note: note})
	}
	return nil
}

func benchLeave(ctx context.Context, b *benchRun) error {
	r, err := b.play(ctx, faultDrain, 5, scale(b.cfg, 10, 2))
	if err != nil {
		return err
	}
	lost := uint64(0)
	for _, n := range r.FailedAttempts { // order-free: a sum
		lost += n
	}
	q := r.Recovery[0].quantiles
	b.add(benchRow{Name: "graceful leave under load, failed calls", Unit: "calls", Value: float64(lost), Target: "none", Met: lost == 0, Note: fmt.Sprintf("of %d, %d leaves", r.Counters["asked"], len(r.Rounds))})
	b.add(benchRow{Name: "graceful leave under load, p99 pause of a counter", Unit: "ms", Value: q.P99, Target: fmt.Sprintf("at most %v", boundOrderly), Met: q.P99 <= ms(boundOrderly), Note: "the pace of the load, 10 ms, included"})
	slowest := 0.0
	for _, ro := range r.Rounds {
		slowest = max(slowest, ro.DrainMS)
	}
	b.add(benchRow{Name: "graceful leave under load, slowest", Unit: "ms", Value: slowest, Target: "under 1 s", Met: slowest < 1000})
	return nil
}

func benchBalance(ctx context.Context, b *benchRun) error {
	dir, err := os.MkdirTemp("", "peerage-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const ids, nodes = 600, 3
	f := &fleet{dir: dir, counters: ids, shards: sharding.DefaultShards, every: time.Second}
	defer f.end()
	if err := f.up(ctx, nodes); err != nil {
		return err
	}
	for {
		least, most, all := spread(f, func(r report) int { return r.Entities })
		if all < ids {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("%d of %d counters live: %w", all, ids, err)
			}
			continue
		}
		off := max(float64(most)-ids/nodes, ids/nodes-float64(least)) / (ids / nodes) * 100
		b.add(benchRow{Name: "balance of 600 ids over 3 nodes, worst node", Unit: "% off", Value: off, Target: "within 10 %", Met: off <= 10, Note: fmt.Sprintf("%d to %d", least, most)})
		least, most, _ = spread(f, func(r report) int { return r.Shards })
		b.add(benchRow{Name: "balance of their shards", Unit: "apart", Value: float64(most - least), Target: "within 1", Met: most-least <= 1, Note: fmt.Sprintf("%d to %d", least, most)})
		return nil
	}
}

// spread returns the least, the most and the sum of what the nodes report.
func spread(f *fleet, of func(report) int) (least, most, all int) {
	for i, p := range f.now {
		r, _ := p.snapshot()
		n := of(r)
		if all += n; i == 0 {
			least = n
		}
		least, most = min(least, n), max(most, n)
	}
	return least, most, all
}
