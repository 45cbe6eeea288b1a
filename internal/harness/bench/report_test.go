package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

func TestFiguresHaveAboutThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.456: "0.46", 99.99: "99.99", 100: "100", 9999: "9999", 1e4: "10 k", 123456: "123 k", 1e6: "1.00 M", 12.345e6: "12.35 M",
	} {
		if got := figure(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	if us(1500*time.Nanosecond) != 1.5 || median([]float64{1, 2, 9}) != 2 {
		t.Errorf("1,500 ns are %v us; the median of 1, 2, 9 is %v", us(1500*time.Nanosecond), median([]float64{1, 2, 9}))
	}
}

func TestPercentilesAreOfSortedTimes(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i)*time.Millisecond)
	}
	q := harness.HistogramOf(times).Percentile
	if q(50) != 50*time.Millisecond || q(99) != 99*time.Millisecond || q(100) != 100*time.Millisecond {
		t.Errorf("p50 %v, p99 %v, max %v of 1 to 100 ms", q(50), q(99), q(100))
	}
	if none := harness.HistogramOf(nil).Percentile; none(99) != 0 {
		t.Errorf("p99 of no times is %v", none(99))
	}
}

// newSuite returns a suite of a quick run, and what it prints.
func newSuite(t *testing.T, only ...string) (*Suite, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	b, err := New(&Config{Only: only, Quick: true}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return b, &out
}

// A rate is met at its part of the raw limit, or at its floor; a time at its multiple, or bound.
func TestTargetsAreMetAtTheirBounds(t *testing.T) {
	b, out := newSuite(t)
	b.atLeast("part", []float64{30, 40, 90}, 100, 0.4, 0, "")
	b.atLeast("below part", []float64{39.9}, 100, 0.4, 0, "")
	b.atLeast("floor", []float64{4e6}, 100, 0, 4e6, "")
	b.atLeast("below floor", []float64{3.9e6}, 100, 0, 4e6, "")
	b.atMost("times", 2*time.Millisecond, time.Millisecond, 2, 0)
	b.atMost("above times", 2001*time.Microsecond, time.Millisecond, 2, 0)
	b.atMost("bound", time.Microsecond, time.Hour, 0, time.Microsecond)
	b.atMost("above bound", 1001, time.Hour, 0, time.Microsecond)
	for i, r := range b.rows {
		if r.Met != (i%2 == 0) || r.Ratio != r.Value/r.Raw {
			t.Errorf("%s: %v of %v is met %v, ratio %v", r.Name, r.Value, r.Raw, r.Met, r.Ratio)
		}
	}
	targets := []string{"at least 40 % of the raw limit", "at least 4.00 M /s", "at most 2 times the raw one", "at most 1.00 us"}
	for i, want := range targets {
		if got := b.rows[2*i].Target; got != want {
			t.Errorf("the target is %q, want %q", got, want)
		}
	}
	if b.rows[0].Value != 40 || !slices.Equal(b.rows[0].Runs, []float64{30, 40, 90}) {
		t.Errorf("of three runs the middle does not count: %+v", b.rows[0])
	}
	if lines := strings.Count(out.String(), "\n"); lines != len(b.rows) || !strings.Contains(out.String(), "    part: 40.00 /s, target at least 40 % of the raw limit: met\n") {
		t.Errorf("%d rows are shown as\n%s", len(b.rows), out)
	}
}

func TestRunsAreRepeatedAndSorted(t *testing.T) {
	b, _ := newSuite(t)
	b.cfg.Quick = false
	n := 0.0
	runs, err := b.repeat(func() (float64, error) { n++; return -n, nil })
	if err != nil || !slices.Equal(runs, []float64{-5, -4, -3, -2, -1}) {
		t.Errorf("runs %v: %v", runs, err)
	}
	failed := errors.New("lost")
	if _, err := b.repeat(func() (float64, error) { return 0, failed }); !errors.Is(err, failed) {
		t.Errorf("a run that fails: %v", err)
	}
	b.cfg.Quick = true
	if runs, _ := b.repeat(func() (float64, error) { return 1, nil }); len(runs) != 1 {
		t.Errorf("a quick run repeats %d times", len(runs))
	}
}

func TestTheTableHasALineForEachRow(t *testing.T) {
	var out strings.Builder
	printTable(&out, harness.Environment{Go: "go1.26", OS: "linux/amd64", CPUs: 2, Load: "0.10"}, []Row{
		{Name: "rate", Unit: "/s", Value: 5e5, Raw: 1e6, Ratio: 0.5, Target: "at least 40 %", Met: true},
		{Name: "pause", Unit: "ms", Value: 60, Target: "at most 50ms", Note: "3 joins"},
	})
	want := `
go1.26, linux/amd64, 2 CPUs, load average 0.10

| measure | measured | raw limit | ratio | target | |
|---|---|---|---|---|---|
| rate | 500 k /s | 1.00 M /s | 0.50 | at least 40 % | met |
| pause | 60.00 ms |  |  | at most 50ms | not met; 3 joins |
`
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
}

func TestOnlyNamesChooseMeasuresInTheirOrder(t *testing.T) {
	b, _ := newSuite(t, "idle", "remote-tell")
	if len(b.chosen) != 2 || b.chosen[0].name != "idle" || b.chosen[1].name != "remote-tell" {
		t.Errorf("%+v", b.chosen)
	}
	if b, _ := newSuite(t); len(b.chosen) != len(measures()) || len(b.chosen) != strings.Count(MeasureNames(), ", ")+1 {
		t.Errorf("without names %d of %d measures are chosen", len(b.chosen), len(measures()))
	}
	if _, err := New(&Config{Only: []string{"idle", "dance"}}, nil); err == nil || !strings.Contains(err.Error(), `"dance"`) || !strings.Contains(err.Error(), "cold-start") {
		t.Errorf("an unknown measure: %v, want its name and the list", err)
	}
}

func TestAMeasureThatFailsEndsTheRun(t *testing.T) {
	b, out := newSuite(t)
	var ran []string
	step := func(name string, err error) measure {
		return measure{name, func(ctx context.Context, b *Suite) error {
			ran = append(ran, name)
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > measurePatience {
				t.Errorf("%s may take until %v", name, deadline)
			}
			b.addRow(Row{Name: name, Met: true})
			return err
		}}
	}
	b.chosen = []measure{step("one", nil), step("two", nil)}
	r, err := b.Run(t.Context())
	if err != nil || len(r.Rows) != 2 || r.Schema != 1 || !r.Quick || !strings.Contains(out.String(), "| two | 0.00  |") {
		t.Fatalf("%+v: %v\n%s", r, err, out)
	}
	lost := errors.New("lost")
	b.chosen = []measure{step("three", lost), step("four", nil)}
	if _, err := b.Run(t.Context()); !errors.Is(err, lost) || !strings.HasPrefix(err.Error(), "three: ") {
		t.Errorf("a measure that fails: %v", err)
	}
	if !slices.Equal(ran, []string{"one", "two", "three"}) {
		t.Errorf("ran %q", ran)
	}
}

func TestReportsAreSavedAsJSON(t *testing.T) {
	want := &Report{Schema: 1, TookMS: 2.5, Rows: []Row{{Name: "rate", Value: 3, Met: true}}}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := want.Save(file); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(body, &got); err != nil || got.TookMS != 2.5 || len(got.Rows) != 1 || got.Rows[0].Name != "rate" || !strings.HasSuffix(string(body), "}\n") {
		t.Errorf("%+v: %v", got, err)
	}
	if err := want.Save(""); err != nil {
		t.Errorf("no file is asked for: %v", err)
	}
	if err := want.Save(filepath.Join(file, "below")); err == nil {
		t.Error("a report below a file is saved")
	}
}
