package page

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/faults"
)

// sample is the report of a run with a broken promise and one that was not shown.
func sample() *chaos.Report {
	times := []time.Duration{time.Millisecond, 2 * time.Millisecond, 40 * time.Millisecond}
	q := harness.HistogramOf(times)
	latency := chaos.Latency{Quantiles: q.Quantiles(), Curve: q.Curve()}
	r := &chaos.Report{
		Schema: chaos.SchemaVersion, Verdict: chaos.Failed, Seed: 7, Command: "peerage chaos --seed 7", TookMS: 4200,
		At: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), Load: chaos.Load{Target: 1600, Before: 1599},
		Invariants: []chaos.Invariant{
			{Name: chaos.SingleInstance, Verdict: chaos.Failed, Checked: 182341, Violations: []string{"entity 3: </script><b>two</b>"}},
			{Name: chaos.NothingLost + "by an instance", Verdict: chaos.Passed, Checked: 182341},
			{Name: "every fault took effect", Verdict: chaos.Unknown, Violations: []string{"1 of 2 faults had an effect"}},
		},
		Config:   chaos.Config{Nodes: 5, Counters: 32, Rounds: 2, Every: 20 * time.Millisecond, Kinds: "kill,cut"},
		Counters: map[string]uint64{"asked": 5000, "answered": 4990, "given_up": 1},
		Before:   latency, During: latency, After: latency,
		Recovery:  []chaos.Recovery{{Kind: "kill", Rounds: 1, Quantiles: q.Quantiles(), BoundMS: 300, Met: true}},
		Failovers: []chaos.Failover{{Kind: "kill", Rounds: 6, Total: q.Quantiles(), P99Interval: &harness.Interval{Low: 31, High: 1250}, Phases: []chaos.Phase{{Name: "detect", Quantiles: q.Quantiles()}}}},
		Costs:     []chaos.Cost{{Place: "a", CPUPercent: 12, MemoryMaxBytes: 30 << 20, SentPerS: 2048, Seconds: 3}},
		Faults:    []chaos.FaultSpan{{Round: 1, Kind: faults.Kill, Detail: "kill of a", FromMS: 1000, ToMS: 1300, TookEffect: true}, {Round: 2, Kind: faults.Cut, Detail: "cut of b", FromMS: 2000, ToMS: 2500}},
		Events:    []chaos.Event{{Round: 1, What: "new view", AtMS: 1020}, {Round: 2, What: "healed", AtMS: 2400}},
		Healed:    chaos.Healed{Places: 5, MemoryBefore: 100 << 20, MemoryAfter: 110 << 20, GoroutinesBefore: 1500, GoroutinesAfter: 1502},
		Linear:    chaos.Linearizability{Picture: "<html><script>draw()</script></html>", PictureOf: "counter 3", Restarts: 12},
	}
	for i := range 40 {
		r.Timeline = append(r.Timeline, chaos.Bin{Due: 160, Prompt: 160 - i, Answered: 160, SlowestMS: float64(i * i)})
	}
	return r
}

func TestThePageAnswersFirstAndNeedsNoNetwork(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, sample()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"✗ FAIL", "entities that lived twice", "1 <span>runs beside another, of 182,341 runs", "✗ Broken promise: " + chaos.SingleInstance, "? Promise that was not shown: every fault took effect",
		"40 ms <span>of 3 counters", "? not observed", "peerage chaos --seed 7", "30 MiB", "of 4,990; 12 counts began again", "one killed <span class=\"soft small\">--faults kill<", "5 processes ask 32 counters, 1,600 requests a second", "round 2: cut of b", "3 counters, 6 rounds", "<br>p99 40 ms (31 ms to 1.25 s)", `<rect class="fault" x="250"`,
		`<line class="event" x1="600"`, "round 1: new view at 1.02 s", "held 110 MiB of memory in 1,502 goroutines; before the first fault, 100 MiB in 1,500",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if at := regexp.MustCompile(`(?i)(https?:)?//[a-z]+\.|ZgotmplZ|@import|<link|NaN|Inf\b`).FindString(page); at != "" {
		t.Errorf("the page contains %q", at)
	}
	if strings.Contains(page, "<b>two</b>") || strings.Count(page, "</script>") != 1 {
		t.Error("a violation is not escaped")
	}
	if i, j := strings.Index(page, "lived twice"), strings.Index(page, "What users saw"); i > j {
		t.Error("the answers do not come first")
	}
}

// An empty report has no charts, and its page says that nothing was shown.
func TestThePageOfARunThatNeverBegan(t *testing.T) {
	r := &chaos.Report{Schema: chaos.SchemaVersion, Verdict: chaos.Unknown, Invariants: []chaos.Invariant{{Name: chaos.SingleInstance, Verdict: chaos.Unknown}}}
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"? UNKNOWN", "Nothing was checked.", "<dd>? <span>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(b.String(), "What users saw") || strings.Contains(b.String(), "NaN") {
		t.Error("there is a chart of nothing")
	}
}

// The page and the JSON hold the same report.
func TestReadReadsBothForms(t *testing.T) {
	dir := t.TempDir()
	page, plain, old := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.json"), filepath.Join(dir, "old.json")
	want := sample()
	if err := Save(page, want); err != nil {
		t.Fatal(err)
	}
	if err := want.Save(plain); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{page, plain} {
		if got, err := Read(file); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v", file, err, got)
		}
	}
	b, err := json.Marshal(map[string]int{"schema": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(old); err == nil || !strings.Contains(err.Error(), "has schema 1; this version of peerage reads schema 2") {
		t.Errorf("another schema: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

func TestFiguresAreInUnitsThatPeopleUse(t *testing.T) {
	for got, want := range map[string]string{
		grouped(999): "999", grouped(1234567): "1,234,567", bytesOf(512): "512 B", bytesOf(160 << 10): "160 KiB", bytesOf(34 << 20): "34 MiB", bytesOf(3 << 19): "1.5 MiB",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
