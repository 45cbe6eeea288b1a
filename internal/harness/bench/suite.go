package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/machine"
)

// Config holds the settings of a run.
type Config struct {
	Only  []string
	Quick bool
}

// scale picks the size of a measure.
func scale[T any](c *Config, full, quick T) T {
	if c.Quick {
		return quick
	}
	return full
}

// measure is one measurement of bench.
type measure struct {
	name string
	run  func(ctx context.Context, b *Suite) error
}

// Suite gathers the rows of a run.
type Suite struct {
	cfg    *Config
	chosen []measure
	out    io.Writer
	began  time.Time
	rows   []Row
}

// Run measures one after the other, and prints the table.
func (b *Suite) Run(ctx context.Context) (*Report, error) {
	for _, m := range b.chosen {
		b.say("%s ..", m.name)
		one, cancel := context.WithTimeout(ctx, measurePatience)
		err := m.run(one, b)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	env := harness.ThisEnvironment()
	printTable(b.out, env, b.rows)
	return &Report{Schema: 1, Env: env, TookMS: harness.Milliseconds(time.Since(b.began)), Quick: b.cfg.Quick, Rows: b.rows}, nil
}

const measurePatience = 5 * time.Minute

func (b *Suite) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%7.2fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// processor sums the processor time of what is measured: of this process, and of pids.
type processor struct {
	pids              []int
	seconds, messages float64
}

// measureUsage calls f, which returns a rate, and counts what it used for so many messages; 0
// stands for as many as the rate gives in its time.
func (p *processor) measureUsage(messages int, f func() (float64, error)) (float64, error) {
	began, before := time.Now(), machine.ProcessorSeconds(p.pids...)
	rate, err := f()
	p.seconds += machine.ProcessorSeconds(p.pids...) - before
	if p.messages += float64(messages); messages == 0 {
		p.messages += rate * time.Since(began).Seconds()
	}
	return rate, err
}

// perMessage returns the processor time of a message, for a row.
func (p *processor) perMessage() string {
	return fmt.Sprintf("%.0f ns of processor time each", p.seconds/p.messages*1e9)
}

// repeat measures several times and returns the runs, sorted: the middle counts.
func (b *Suite) repeat(f func() (float64, error)) ([]float64, error) {
	var runs []float64
	for range scale(b.cfg, 5, 1) {
		v, err := f()
		if err != nil {
			return nil, err
		}
		runs = append(runs, v)
	}
	slices.Sort(runs)
	return runs, nil
}

// addRow appends a row and shows it.
func (b *Suite) addRow(r Row) {
	if r.Raw != 0 {
		r.Ratio = r.Value / r.Raw
	}
	b.rows = append(b.rows, r)
	b.say("    %s: %s %s, target %s: %s", r.Name, figure(r.Value), r.Unit, r.Target, harness.Within(r.Met))
}

func median(runs []float64) float64 { return runs[len(runs)/2] }

// atLeast is a row of a rate that is to reach a part of the raw limit, or a number.
func (b *Suite) atLeast(name string, runs []float64, raw, part, floor float64, note string) {
	r := Row{Name: name, Unit: "/s", Value: median(runs), Runs: runs, Raw: raw, Note: note}
	if part > 0 {
		r.Target, r.Met = fmt.Sprintf("at least %.0f %% of the raw limit", part*100), r.Value >= part*raw
	} else {
		r.Target, r.Met = fmt.Sprintf("at least %s /s", figure(floor)), r.Value >= floor
	}
	b.addRow(r)
}

// atMost is a row of a time in microseconds that may be so many times the raw one,
// or a number.
func (b *Suite) atMost(name string, value, raw time.Duration, times float64, most time.Duration) {
	r := Row{Name: name, Unit: "us", Value: us(value), Raw: us(raw)}
	if times > 0 {
		r.Target, r.Met = fmt.Sprintf("at most %.0f times the raw one", times), r.Value <= times*r.Raw
	} else {
		r.Target, r.Met = fmt.Sprintf("at most %s us", figure(us(most))), value <= most
	}
	b.addRow(r)
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
