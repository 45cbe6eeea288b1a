package demo

import (
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/terminal"
)

// The rows of a demo at its largest figures, and of one that has just begun.
var rowsOfADemo = []row{
	{name: "a", state: stateKilled},
	{name: "b", state: stateLeader, shards: 4096, entities: 10_000, rate: 123456},
	{name: "c", state: stateJoining},
	{name: "d", state: statePaused, shards: 1, entities: 1, rate: 100},
	{name: "e", state: stateUp, shards: 16, entities: 5, rate: 99.6},
}

func TestTheTableFitsIntoSixtyColumns(t *testing.T) {
	s := &show{screen: terminal.New(io.Discard), shards: 4096}
	lines := s.table(rowsOfADemo, 60)
	if len(lines) != len(rowsOfADemo)+2 {
		t.Fatalf("%d rows are %d lines", len(rowsOfADemo), len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n >= 60 {
			t.Errorf("line %d has %d columns: %s", i, n, line)
		}
	}
	header, got := strings.Fields(lines[1]), strings.Join(strings.Fields(lines[6]), " ")
	if want := "e up 16 5 99 █"; got != want || strings.Join(header, " ") != "node state shards entities asks/s" {
		t.Errorf("below %v stands %s, want %s", header, got, want)
	}
}

// On a terminal of 40 columns no figure is cut off: 9 asks/s must not be the begin of 912.
func TestANarrowTableHasWholeFigures(t *testing.T) {
	s := &show{screen: terminal.New(io.Discard), shards: 4096}
	for i, line := range s.table(rowsOfADemo, 40)[1:] {
		if figures := strings.TrimRight(line, " █"); utf8.RuneCountInString(figures) > 34 || len(strings.Fields(figures)) != 4 {
			t.Errorf("line %d is %q", i, line)
		}
	}
}

func TestBarsGrowWithTheShards(t *testing.T) {
	for shards, want := range map[int]int{0: 0, 1: 1, 8: 2, 32: 8, 63: 15, 64: 15, 4096: 15} {
		if got := utf8.RuneCountInString(bar(shards, 64)); got != want {
			t.Errorf("%d of 64 shards are %d cells, want %d", shards, got, want)
		}
	}
}

// showOn returns a show of processes that have not reported yet, which the test draws.
func showOn(out *strings.Builder, names ...string) *show {
	c := &cluster{cfg: Config{Nodes: 5, Counters: 64, Every: 10 * time.Millisecond}}
	for _, name := range names {
		c.nodes = append(c.nodes, &fleet.Process{Name: name})
	}
	return &show{screen: terminal.New(out), cluster: c, began: time.Now(), rates: map[string]rate{}}
}

func TestAPipeGetsPlainLines(t *testing.T) {
	var out strings.Builder
	s := showOn(&out)
	if s.draw(); out.Len() > 0 {
		t.Errorf("without a process %q is written", out.String())
	}
	s = showOn(&out, "a", "b")
	s.introduce()
	if text := out.String(); !strings.Contains(text, "five processes ask 64 counters 6,400 times a second") || !strings.Contains(text, "end four of the") {
		t.Errorf("the introduction is %q", text)
	}
	out.Reset()
	s.event("%d nodes are up", 2)
	s.draw()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], " s  2 nodes are up") || strings.Contains(out.String(), "\x1b") {
		t.Fatalf("%q", out.String())
	}
	want := "a killed | b leader: 4 shards, 100 asks/s"
	got := plain([]row{{name: "a", state: stateKilled}, {name: "b", state: stateLeader, shards: 4, entities: 5, rate: 99.7}})
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Below the table stands what happens now, or next and when.
func TestTheOutlook(t *testing.T) {
	s := showOn(&strings.Builder{}, "a")
	if got := s.outlook(); got != nil {
		t.Errorf("before the first event: %q", got)
	}
	s.expect("they agree")
	if got := strings.Join(s.outlook(), ""); !strings.Contains(got, "now  they agree") {
		t.Errorf("%q", got)
	}
	if err := s.waitFor(t.Context(), "killing a", 0); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.outlook(), ""); !strings.Contains(got, "next  killing a in 0.0 s") {
		t.Errorf("%q", got)
	}
}

// A process without a view has the state joining, whatever it reports beside.
func TestAProcessWithoutAViewIsJoining(t *testing.T) {
	s := showOn(&strings.Builder{}, "a")
	if rows := s.rows(); len(rows) != 1 || rows[0].state != stateJoining || rows[0].name != "a" {
		t.Errorf("%+v", rows)
	}
}

// TestStatesOfProcesses checks the word for what a process has last reported.
func TestStatesOfProcesses(t *testing.T) {
	for want, r := range map[string]harness.Report{
		stateUp: {Members: 3, Lease: true}, stateLeader: {Members: 3, Lease: true, Leader: true},
		stateJoining: {Members: 3}, statePaused: {Members: 3, Load: harness.Totals{Answered: 1}},
	} {
		if got := stateOf(r); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

func TestTheShowStopsDrawingWhenItIsClosed(t *testing.T) {
	var out strings.Builder
	s := newShow(&out, &cluster{}, 1)
	s.close()
	s.close() // again: Run closes the show before it prints, and when it returns
	if out.Len() > 0 {
		t.Errorf("a show without processes has written %q", out.String())
	}
}
