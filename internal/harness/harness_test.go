package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// serve returns the address of a server that answers each request by answer.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestFetchReturnsTheBodyOrTheReason(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		io.WriteString(w, "body of "+r.URL.Path)
	})
	if body, err := Fetch(t.Context(), http.MethodPost, "http://"+addr+"/drain"); err != nil || string(body) != "body of /drain" {
		t.Errorf("POST: %q, %v", body, err)
	}
	_, err := Fetch(t.Context(), http.MethodGet, "http://"+addr+"/drain")
	if err == nil || !strings.Contains(err.Error(), "405") || !strings.HasSuffix(err.Error(), ": only POST") {
		t.Errorf("GET: %v, want the status and the body without its line end", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(ctx, http.MethodPost, "http://"+addr); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := Fetch(t.Context(), http.MethodGet, "http://bad host/"); err == nil {
		t.Error("a URL with a space is fetched")
	}
}

func TestDrainAtRefusesAnswersOfOtherPrograms(t *testing.T) {
	answer := `{"name":"a","node":"1f","took_ms":12.5}`
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method+r.URL.Path != "POST/drain" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, answer)
	})
	if d, err := DrainAt(t.Context(), addr); err != nil || d != (Drained{Name: "a", Node: "1f", TookMS: 12.5}) {
		t.Errorf("%+v, %v", d, err)
	}
	answer = "hello\n"
	if _, err := DrainAt(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "not like a node: hello") {
		t.Errorf("an answer that is no JSON: %v", err)
	}
}

func TestQuantilesAreOfTheSortedTimes(t *testing.T) {
	if q := HistogramOf(nil).Quantiles(); q != (Quantiles{}) {
		t.Errorf("of no times: %+v", q)
	}
	if q := HistogramOf([]time.Duration{1500 * time.Microsecond}).Quantiles(); q != (Quantiles{1, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5}) {
		t.Errorf("of one time: %+v", q)
	}
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(100-i) * time.Millisecond
	}
	if q := HistogramOf(times).Quantiles(); q != (Quantiles{N: 100, P50: 50, P90: 90, P99: 99, P999: 100, P9999: 100, Max: 100}) {
		t.Errorf("of 1 to 100 ms: %+v", q)
	}
	h := HistogramOf(append(slices.Clone(times), -time.Second, time.Hour))
	if h.N() != 102 || h.Percentile(0.1) != 0 || h.Percentile(100) != histogramMax {
		t.Errorf("times out of range: %d counted, %v to %v", h.N(), h.Percentile(0.1), h.Percentile(100))
	}
	curve := HistogramOf(times).Curve()
	if last := curve[len(curve)-1]; last != (Step{100, 100}) || HistogramOf(nil).Curve() != nil {
		t.Errorf("the curve ends with %v", last)
	}
}

// TestHistogramsOfAnyLengthHaveTheSameBuckets checks that the longest of the times, for which the memory of
// a histogram is made, changes no other figure.
func TestHistogramsOfAnyLengthHaveTheSameBuckets(t *testing.T) {
	var times []time.Duration
	for d := time.Duration(1); d < 2*time.Second; d += 1 + d/7 {
		times = append(times, d)
	}
	longer := HistogramOf(append(slices.Clone(times), histogramMax))
	if short := HistogramOf(times[:1]); short.N() != 1 || short.Percentile(100) != 1 {
		t.Errorf("of 1 ns: %d, %v", short.N(), short.Percentile(100))
	}
	shorter := HistogramOf(times)
	for i := range times {
		if a, b := shorter.counts.ValueAtQuantile(100*float64(i+1)/float64(len(times))), longer.counts.ValueAtQuantile(100*float64(i+1)/float64(len(times)+1)); a != b {
			t.Errorf("the time at %d of %d is %d, beside a longer one %d", i+1, len(times), a, b)
		}
	}
}

func TestReasonsListTheMostFrequentFirst(t *testing.T) {
	if got := Reasons(nil); got != "none" {
		t.Errorf("without a failed attempt: %q", got)
	}
	got := Reasons(map[string]uint64{"timeout": 2, "no home": 7, "buffer full": 2})
	if want := "no home 7, buffer full 2, timeout 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if Within(true) != "met" || Within(false) != "not met" {
		t.Errorf("a bound is %q or %q", Within(true), Within(false))
	}
}

// The README promises less time for a fault that leaves a majority, and most for a silent node.
func TestBoundsAreInTheOrderOfTheirFaults(t *testing.T) {
	bounds := []time.Duration{BoundOrderly, BoundMajority, BoundEmergency, boundSilent, BoundFrozen, BoundServed}
	if !slices.IsSorted(bounds) || len(slices.Compact(slices.Clone(bounds))) != len(bounds) {
		t.Errorf("the bounds are %v", bounds)
	}
}

func TestReportsAreReadAsTheyWereWritten(t *testing.T) {
	want := []Report{
		{Kind: "ready", Name: "a", Node: "1f", Listen: "127.0.0.1:1", HTTP: "127.0.0.1:2"},
		{Kind: "stats", Name: "a", Members: 3, Epoch: "2.5", Lease: true, Leader: true, Shards: 4,
			Load: Totals{Asked: 9, Answered: 8, GaveUp: 1, Tries: map[string]uint64{"timeout": 1}}},
	}
	var out bytes.Buffer
	for _, r := range want {
		if err := WriteReport(&out, r); err != nil {
			t.Fatal(err)
		}
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != len(want) {
		t.Errorf("%d reports are %d lines", len(want), n)
	}
	var got []Report
	read := func(r io.Reader) error {
		got = nil
		return ReadReports(r, func(r Report) { got = append(got, r) })
	}
	cutOff := strings.NewReader(out.String() + `{"kind":"sta`)
	if err := read(iotest.OneByteReader(cutOff)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with a last line that a kill cut off: %+v, %v", got, err)
	}
	if err := read(strings.NewReader(out.String() + "panic: oh\n")); err == nil || !strings.Contains(err.Error(), "panic: oh") || len(got) != 2 {
		t.Errorf("a line that is no report, after %d: %v", len(got), err)
	}
	broken := errors.New("broken pipe")
	if err := read(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("an input that fails: %v", err)
	}
	if err := WriteReport(failingWriter{broken}, want[0]); !errors.Is(err, broken) {
		t.Errorf("an output that fails: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestTotalsAreSums(t *testing.T) {
	var sum Totals
	first := Totals{Asked: 1, Answered: 2, GaveUp: 3, Tries: map[string]uint64{"timeout": 4}}
	sum.Add(first)
	sum.Add(Totals{Asked: 10, Tries: map[string]uint64{"timeout": 1, "no home": 2}})
	want := Totals{Asked: 11, Answered: 2, GaveUp: 3, Tries: map[string]uint64{"timeout": 5, "no home": 2}}
	if !reflect.DeepEqual(sum, want) {
		t.Errorf("%+v, want %+v", sum, want)
	}
	if first.Tries["timeout"] != 4 {
		t.Error("the sum shares the map of its first summand")
	}
}

func TestPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Pause(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Pause(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v, with a context that ended: %v", time.Since(began), err)
		}
	})
}

func TestTheContextEndsWithTheInput(t *testing.T) {
	in, out := io.Pipe()
	lines := make(chan string)
	ctx := UntilClosed(t.Context(), in, func(line string) { lines <- line })
	for _, want := range []string{WallOffset + "3s", ""} {
		io.WriteString(out, want+"\n")
		if got := <-lines; got != want {
			t.Errorf("the line %q is handed over as %q", want, got)
		}
	}
	if ctx.Err() != nil {
		t.Error("the context ended before the input")
	}
	out.Close()
	<-ctx.Done()
}

func TestTheEnvironmentNamesTheBuild(t *testing.T) {
	if commit, modified := Commit(nil); commit != "" || modified {
		t.Errorf("without build information: %q, %v", commit, modified)
	}
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "3c9d714"}, {Key: "vcs.modified", Value: "true"}}}
	if commit, modified := Commit(info); commit != "3c9d714" || !modified {
		t.Errorf("of a modified tree: %q, %v", commit, modified)
	}
	if e := ThisEnvironment(); e.Go != runtime.Version() || e.OS != runtime.GOOS+"/"+runtime.GOARCH || e.CPUs < 1 {
		t.Errorf("%+v", e)
	}
}

// `go run` records no commit in what it builds: it is that of the checkout.
func TestACheckoutNamesItsCommit(t *testing.T) {
	dir := t.TempDir()
	write := func(module string) {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if commit, _ := commitOf(dir); commit != "" {
		t.Errorf("without a repository: %q", commit)
	}
	git("init", "-q")
	write(modulePath)
	git("add", "go.mod")
	git("commit", "-q", "-m", "begin")
	head := git("rev-parse", "HEAD")
	if commit, modified := commitOf(dir); commit != head || modified {
		t.Errorf("%q, modified %v; want %q", commit, modified, head)
	}
	write(modulePath + "\n\ngo 1.26")
	if commit, modified := commitOf(dir); commit != head || !modified {
		t.Errorf("after a change: %q, modified %v; want %q", commit, modified, head)
	}
	write("module example.com/service")
	if commit, _ := commitOf(dir); commit != "" {
		t.Errorf("of another module: %q", commit)
	}
}

// TestTimesAreInTheUnitThatPeopleUse checks that equal times look equal everywhere, without digits
// that say nothing, and that no rounding leads to 1000 ms or 10.00 s.
func TestTimesAreInTheUnitThatPeopleUse(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "0 ms", 0.25: "0.25 ms", 1: "1 ms", 9.94: "9.9 ms", 9.96: "10 ms", 38.4: "38 ms", 999.4: "999 ms", 999.6: "1 s",
		1000: "1 s", 1500: "1.5 s", 2810: "2.81 s", 9994: "9.99 s", 9996: "10 s", 12_000: "12 s", 120_000: "120 s",
	} {
		if got := FormatMillis(ms); got != want {
			t.Errorf("%v ms is %q, want %q", ms, got, want)
		}
	}
	if got := FormatInterval(&Interval{Low: 31, High: 1250}); got != " (31 ms to 1.25 s)" || FormatInterval(nil) != "" {
		t.Errorf("an interval is %q", got)
	}
}
