package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/sharding"
)

func measureRemoteTell(ctx context.Context, b *Suite) error {
	r, err := startRemote(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	const senders = 64
	n := scale(b.cfg, 2_000_000, 200_000)
	var raws []float64
	used, rawUsed := processor{pids: r.pids()}, processor{pids: r.pids()}
	before, err := r.meter(ctx)
	if err != nil {
		return err
	}
	runs, err := b.repeat(func() (float64, error) {
		raw, err := rawUsed.measureUsage(2*n, func() (float64, error) { return rawOneWay(r.host.Raw, senders, 2*n) })
		if err != nil {
			return 0, err
		}
		raws = append(raws, raw)
		return used.measureUsage(n, func() (float64, error) { return r.tells(ctx, senders, n) })
	})
	if err != nil {
		return err
	}
	after, err := r.meter(ctx)
	if err != nil {
		return err
	}
	slices.Sort(raws)
	note := fmt.Sprintf("%s, raw %s; %d dropped", used.perMessage(), rawUsed.perMessage(), after.dropped-before.dropped)
	b.atLeast("remote Tell by id, 100 B, 64 senders", runs, median(raws), 0.4, 0, note)
	return nil
}

func measureRemoteAsk(ctx context.Context, b *Suite) error {
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
	rq, q := harness.HistogramOf(raw).Percentile, harness.HistogramOf(times).Percentile
	b.atMost("remote Ask by id, 1 caller, p50", q(50), rq(50), 2, 0)
	b.atMost("remote Ask by id, 1 caller, p99", q(99), rq(99), 3, 0)
	for _, callers := range []int{64, 256} {
		if err := b.askRates(ctx, r, callers, d); err != nil {
			return err
		}
	}
	return nil
}

// askRates measures many callers, without a time limit and with one for each ask.
func (b *Suite) askRates(ctx context.Context, r *remote, callers int, d time.Duration) error {
	used, limitUsed, rawUsed := processor{pids: r.pids()}, processor{pids: r.pids()}, processor{pids: r.pids()}
	var raws, limited []float64
	runs, err := b.repeat(func() (float64, error) {
		raw, err := rawUsed.measureUsage(0, func() (float64, error) { return rawPipelined(r.host.Raw, callers, d) })
		if err != nil {
			return 0, err
		}
		within, err := limitUsed.measureUsage(0, func() (float64, error) {
			return r.askRate(ctx, callers, d, sharding.Within(time.Minute))
		})
		if err != nil {
			return 0, err
		}
		raws, limited = append(raws, raw), append(limited, within)
		return used.measureUsage(0, func() (float64, error) { return r.askRate(ctx, callers, d) })
	})
	if err != nil {
		return err
	}
	slices.Sort(raws)
	slices.Sort(limited)
	name := fmt.Sprintf("remote Ask by id, %d callers", callers)
	b.atLeast(name, runs, median(raws), 0.5, 0, fmt.Sprintf("%s, raw %s", used.perMessage(), rawUsed.perMessage()))
	row := Row{Name: name + ", a time limit each", Unit: "/s", Value: median(limited), Runs: limited, Target: "at least 95 % of without", Note: limitUsed.perMessage()}
	row.Met = row.Value >= 0.95*median(runs)
	b.addRow(row)
	return nil
}

func measureLocalTell(ctx context.Context, b *Suite) error {
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
		var used processor
		runs, err := b.repeat(func() (float64, error) {
			raws = append(raws, rawQueue(n))
			return used.measureUsage(n, func() (float64, error) { return l.tells(ctx, c.entities, n) })
		})
		if err != nil {
			return err
		}
		slices.Sort(raws)
		b.atLeast(fmt.Sprintf("local Tell by id, %d entities", c.entities), runs, median(raws), 0, c.floor, used.perMessage())
	}
	return nil
}

func measureLocalAsk(ctx context.Context, b *Suite) error {
	l, err := startLocal(ctx)
	if err != nil {
		return err
	}
	defer l.node.Close()
	n := scale(b.cfg, 1_000_000, 100_000)
	raw := harness.HistogramOf(rawSwitch(n))
	times, err := l.askTimes(ctx, n)
	if err != nil {
		return err
	}
	b.atMost("local Ask by id, p50", harness.HistogramOf(times).Percentile(50), raw.Percentile(50), 0, time.Microsecond)
	return nil
}

func measureIdle(ctx context.Context, b *Suite) error {
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
	b.addRow(Row{Name: fmt.Sprintf("idle entity, of %d on a node", n), Unit: "B", Value: each, Target: "at most 96 B of heap and stacks", Met: each <= 96})
	b.addRow(Row{Name: "all of them", Unit: "GB", Value: each * float64(n) / 1e9, Target: "1 million in at most 0.4 GB", Met: each*1e6 <= 0.4e9})
	return nil
}

// play runs rounds of one kind of fault and returns its report.
func (b *Suite) play(ctx context.Context, kind faults.Kind, nodes, rounds int) (*chaos.Report, error) {
	dir, err := os.MkdirTemp("", "peerage-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cfg := &chaos.Config{Rounds: rounds, Seed: 1, Nodes: nodes, Counters: 64, Shards: 64, Every: 10 * time.Millisecond, Calm: 500 * time.Millisecond, Kinds: string(kind)}
	r, err := chaos.Run(ctx, cfg, dir, io.Discard)
	if err != nil {
		return nil, err
	}
	if r.Verdict != chaos.Passed {
		return nil, fmt.Errorf("%s: %s: %+v", kind, r.Verdict, r.Invariants)
	}
	return r, nil
}

func measureFailover(ctx context.Context, b *Suite) error {
	for _, c := range []struct {
		name   string
		kind   faults.Kind
		rounds int
		p50    time.Duration
		p99    time.Duration
	}{
		{"SIGKILL of a host, a majority lives", faults.Kill, scale(b.cfg, 30, 3), 100 * time.Millisecond, harness.BoundMajority},
		{"SIGKILL of all but one together", faults.KillRest, scale(b.cfg, 30, 3), 0, harness.BoundEmergency},
		{"SIGSTOP of a host", faults.Freeze, scale(b.cfg, 10, 1), 0, harness.BoundFrozen},
	} {
		r, err := b.play(ctx, c.kind, 5, c.rounds)
		if err != nil {
			return err
		}
		q := r.Recovery[0].Quantiles
		note := fmt.Sprintf("%d rounds, %d counters, max %.0f ms", c.rounds, q.N, q.Max)
		if c.p50 > 0 {
			b.addRow(Row{Name: c.name + ", p50", Unit: "ms", Value: q.P50, Target: fmt.Sprintf("at most %v", c.p50), Met: q.P50 <= harness.Milliseconds(c.p50), Note: note})
		}
		b.addRow(Row{Name: c.name + ", p99", Unit: "ms", Value: q.P99, Target: fmt.Sprintf("at most %v", c.p99), Met: q.P99 <= harness.Milliseconds(c.p99), Note: note})
	}
	return nil
}

func measureLeave(ctx context.Context, b *Suite) error {
	r, err := b.play(ctx, faults.Drain, 5, scale(b.cfg, 10, 2))
	if err != nil {
		return err
	}
	lost := uint64(0)
	for _, n := range r.FailedAttempts { // order-free: a sum
		lost += n
	}
	q := r.Recovery[0].Quantiles
	b.addRow(Row{Name: "graceful leave under load, failed calls", Unit: "calls", Value: float64(lost), Target: "none", Met: lost == 0, Note: fmt.Sprintf("of %d, %d leaves", r.Counters["asked"], len(r.Rounds))})
	b.addRow(Row{Name: "graceful leave under load, p99 pause of a counter", Unit: "ms", Value: q.P99, Target: fmt.Sprintf("at most %v", harness.BoundOrderly), Met: q.P99 <= harness.Milliseconds(harness.BoundOrderly), Note: "the pace of the load, 10 ms, included"})
	slowest := 0.0
	for _, ro := range r.Rounds {
		slowest = max(slowest, ro.DrainMS)
	}
	b.addRow(Row{Name: "graceful leave under load, slowest", Unit: "ms", Value: slowest, Target: "under 1 s", Met: slowest < 1000})
	return nil
}

func measureBalance(ctx context.Context, b *Suite) error {
	dir, err := os.MkdirTemp("", "peerage-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const ids, nodes = 600, 3
	f := &fleet.Fleet{Dir: dir, Counters: ids, Shards: sharding.DefaultShards, Every: time.Second}
	defer f.End()
	if err := f.Up(ctx, nodes); err != nil {
		return err
	}
	for {
		least, most, all := fleet.Spread(f, func(r harness.Report) int { return r.Entities })
		if all < ids {
			if err := harness.Pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("%d of %d counters live: %w", all, ids, err)
			}
			continue
		}
		off := max(float64(most)-ids/nodes, ids/nodes-float64(least)) / (ids / nodes) * 100
		b.addRow(Row{Name: "balance of 600 ids over 3 nodes, worst node", Unit: "% off", Value: off, Target: "within 10 %", Met: off <= 10, Note: fmt.Sprintf("%d to %d", least, most)})
		least, most, _ = fleet.Spread(f, func(r harness.Report) int { return r.Shards })
		b.addRow(Row{Name: "balance of their shards", Unit: "apart", Value: float64(most - least), Target: "within 1", Met: most-least <= 1, Note: fmt.Sprintf("%d to %d", least, most)})
		return nil
	}
}
