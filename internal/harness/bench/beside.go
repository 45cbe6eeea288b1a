package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

// The load beside which asks are measured: senders of a flood, and callers with large requests.
const (
	floodSenders = 64
	largeCallers = 4
)

// measureAskBesideTells measures lone asks while a flood of tells uses the same connection.
func measureAskBesideTells(ctx context.Context, b *Suite) error {
	r, err := startRemote(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	half := len(r.refs) / 2
	before, err := r.meter(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	times, err := r.askBeside(ctx, scale(b.cfg, 5*time.Second, time.Second), half, floodSenders, func(i int) func() error {
		body := make([]byte, rawBody)
		k := i * 31
		return func() error {
			k++
			return r.refs[k%half].Tell(ctx, body)
		}
	})
	if err != nil {
		return err
	}
	after, err := r.meter(ctx)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("beside %s tells/s handled, %d dropped", figure(float64(after.handled-before.handled)/time.Since(began).Seconds()), after.dropped-before.dropped)
	b.besideRow("remote Ask by id, 1 caller, beside 64 senders of Tells", times, 5*time.Millisecond, note)
	return nil
}

// measureAskBesideLarge measures small asks while callers ask with large requests.
func measureAskBesideLarge(ctx context.Context, b *Suite) error {
	r, err := startRemote(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	for _, bytes := range []int{1 << 20, 3 << 20} {
		var sent atomic.Uint64
		d := scale(b.cfg, 5*time.Second, time.Second)
		times, err := r.askBeside(ctx, d, largeCallers, largeCallers, func(i int) func() error {
			body := make([]byte, bytes)
			return func() error {
				sent.Add(1)
				_, err := r.refs[i].Ask(ctx, body)
				return err
			}
		})
		if err != nil {
			return err
		}
		note := fmt.Sprintf("beside %.0f MB/s", float64(sent.Load())*float64(bytes)/1e6/d.Seconds())
		b.besideRow(fmt.Sprintf("remote Ask by id, 1 caller, beside 4 with %d MiB each", bytes>>20), times, 3*time.Millisecond, note)
	}
	return nil
}

// besideRow adds the rows of asks beside a load.
func (b *Suite) besideRow(name string, times []time.Duration, most time.Duration, note string) {
	q := harness.HistogramOf(times).Percentile
	p50, p99 := harness.Milliseconds(q(50)), harness.Milliseconds(q(99))
	b.addRow(Row{Name: name + ", p50", Unit: "ms", Value: p50, Target: "none", Met: true, Note: fmt.Sprintf("%d asks, %s", len(times), note)})
	b.addRow(Row{Name: name + ", p99", Unit: "ms", Value: p99, Target: fmt.Sprintf("at most %v", most), Met: p99 <= harness.Milliseconds(most)})
}

// askBeside returns the times of the asks of one caller, of the entities from first on, while
// others repeat what load returns.
func (r *remote) askBeside(ctx context.Context, d time.Duration, first, callers int, load func(i int) func() error) ([]time.Duration, error) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		do := load(i)
		wg.Go(func() {
			for !stop.Load() && errs[i] == nil {
				errs[i] = do()
			}
		})
	}
	var times []time.Duration
	var err error
	body := make([]byte, rawBody)
	for end, i := time.Now().Add(d), 0; err == nil && time.Now().Before(end); i++ {
		began := time.Now()
		_, err = r.refs[first+i%(len(r.refs)-first)].Ask(ctx, body)
		times = append(times, time.Since(began))
	}
	stop.Store(true)
	wg.Wait()
	return times, errors.Join(append(errs, err)...)
}
