package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const benchUsage = `usage: peerage bench [flags]

Measures nodes on this machine, beside the raw limit of the machine in the same run:
remote and local messages, memory of idle entities, failover, drain, balance and cold
start on real processes. Prints a table and writes JSON. Targets are printed, not
enforced: they hold for two cores without other load.

`

// benchConfig holds the flags of `peerage bench`.
type benchConfig struct {
	only  list
	quick bool
	json  string
}

// scale picks the size of a measure.
func scale[T any](c *benchConfig, full, quick T) T {
	if c.quick {
		return quick
	}
	return full
}

// benchRow is one line of the table.
type benchRow struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value is the median of the runs; Raw the raw limit's, if there is one.
	Value float64   `json:"value"`
	Runs  []float64 `json:"runs,omitempty"`
	Raw   float64   `json:"raw,omitempty"`
	// Ratio is Value by Raw.
	Ratio  float64 `json:"ratio,omitempty"`
	Target string  `json:"target"`
	Met    bool    `json:"met"`
	Note   string  `json:"note,omitempty"`
}

// measure is one measurement of bench.
type measure struct {
	name string
	run  func(ctx context.Context, b *benchRun) error
}

// measures are in the order of the table.
func measures() []measure {
	return []measure{
		{"remote-tell", benchRemoteTell}, {"remote-ask", benchRemoteAsk},
		{"local-tell", benchLocalTell}, {"local-ask", benchLocalAsk}, {"idle", benchIdle},
		{"failover", benchFailover}, {"leave", benchLeave}, {"rebalance", benchRebalance},
		{"balance", benchBalance}, {"cold-start", benchColdStart},
	}
}

func measureNames() string {
	var names []string
	for _, m := range measures() {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

// benchRun gathers the rows of a run.
type benchRun struct {
	cfg   *benchConfig
	out   io.Writer
	began time.Time
	rows  []benchRow
}

// benchReport is the JSON of a run.
type benchReport struct {
	Schema int         `json:"schema"`
	Env    environment `json:"environment"`
	TookMS float64     `json:"took_ms"`
	Quick  bool        `json:"quick"`
	Rows   []benchRow  `json:"rows"`
}

func bench(args []string, stdout, stderr io.Writer) int {
	if slices.Equal(args, []string{"serve"}) {
		if err := serveBench(stdout); err != nil {
			fmt.Fprintln(stderr, "peerage bench serve:", err)
			return exitFailed
		}
		return exitOK
	}
	cfg := &benchConfig{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, benchUsage); flags.PrintDefaults() }
	flags.Var(&cfg.only, "only", "measure only this; may be repeated; one of: "+measureNames())
	flags.BoolVar(&cfg.quick, "quick", false, "shorter and smaller: for a first look, not for figures")
	flags.StringVar(&cfg.json, "json", "peerage-bench.json", "write the rows to this `file`; empty writes none")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	chosen, err := cfg.choose()
	if err != nil {
		fmt.Fprintln(stderr, "peerage bench:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &benchRun{cfg: cfg, out: stdout, began: time.Now()}
	for _, m := range chosen {
		b.say("%s ..", m.name)
		one, cancel := context.WithTimeout(ctx, measurePatience)
		err := m.run(one, b)
		cancel()
		if err != nil {
			fmt.Fprintf(stderr, "peerage bench: %s: %v\n", m.name, err)
			return exitFailed
		}
	}
	if err := b.finish(); err != nil {
		fmt.Fprintln(stderr, "peerage bench:", err)
		return exitFailed
	}
	return exitOK
}

const measurePatience = 5 * time.Minute

func (c *benchConfig) choose() ([]measure, error) {
	if len(c.only) == 0 {
		return measures(), nil
	}
	var out []measure
	for _, name := range c.only {
		i := slices.IndexFunc(measures(), func(m measure) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--only %q: choose of %s", name, measureNames())
		}
		out = append(out, measures()[i])
	}
	return out, nil
}

func (b *benchRun) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%7.2fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// add appends a row and shows it.
func (b *benchRun) add(r benchRow) {
	if r.Raw != 0 {
		r.Ratio = r.Value / r.Raw
	}
	b.rows = append(b.rows, r)
	b.say("    %s: %s %s, target %s: %s", r.Name, figure(r.Value), r.Unit, r.Target, within(r.Met))
}

// repeat measures several times and returns the runs, sorted: the middle counts.
func (b *benchRun) repeat(f func() (float64, error)) ([]float64, error) {
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

func median(runs []float64) float64 { return runs[len(runs)/2] }

// atLeast is a row of a rate that is to reach a part of the raw limit, or a number.
func (b *benchRun) atLeast(name string, runs []float64, raw, part, floor float64) {
	r := benchRow{Name: name, Unit: "/s", Value: median(runs), Runs: runs, Raw: raw}
	if part > 0 {
		r.Target, r.Met = fmt.Sprintf("at least %.0f %% of the raw limit", part*100), r.Value >= part*raw
	} else {
		r.Target, r.Met = fmt.Sprintf("at least %s /s", figure(floor)), r.Value >= floor
	}
	b.add(r)
}

// atMost is a row of a time in microseconds that may be so many times the raw one,
// or a number.
func (b *benchRun) atMost(name string, value, raw time.Duration, times float64, most time.Duration) {
	r := benchRow{Name: name, Unit: "us", Value: us(value), Raw: us(raw)}
	if times > 0 {
		r.Target, r.Met = fmt.Sprintf("at most %.0f times the raw one", times), r.Value <= times*r.Raw
	} else {
		r.Target, r.Met = fmt.Sprintf("at most %s us", figure(us(most))), value <= most
	}
	b.add(r)
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// figure prints a number with three digits or so.
func figure(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// finish prints the table and writes the JSON.
func (b *benchRun) finish() error {
	env := thisEnvironment()
	fmt.Fprintf(b.out, "\n%s, %s, %d CPUs, load average %s\n\n", env.Go, env.OS, env.CPUs, env.Load)
	fmt.Fprintln(b.out, "| measure | measured | raw limit | ratio | target | |")
	fmt.Fprintln(b.out, "|---|---|---|---|---|---|")
	for _, r := range b.rows {
		raw, ratio := "", ""
		if r.Raw != 0 {
			raw, ratio = figure(r.Raw)+" "+r.Unit, fmt.Sprintf("%.2f", r.Ratio)
		}
		note := within(r.Met)
		if r.Note != "" {
			note += "; " + r.Note
		}
		fmt.Fprintf(b.out, "| %s | %s %s | %s | %s | %s | %s |\n", r.Name, figure(r.Value), r.Unit, raw, ratio, r.Target, note)
	}
	if b.cfg.json == "" {
		return nil
	}
	body, err := json.MarshalIndent(benchReport{Schema: 1, Env: env, TookMS: ms(time.Since(b.began)), Quick: b.cfg.quick, Rows: b.rows}, "", " ")
	return errors.Join(err, os.WriteFile(b.cfg.json, append(body, '\n'), 0o666))
}
