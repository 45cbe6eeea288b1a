package demo

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/peerage-go/peerage/internal/harness/fleet"
)

var colours = regexp.MustCompile("\x1b\\[[0-9]*m")

// The rows of a demo at its largest figures, and of one that has just begun.
var rowsOfADemo = []row{
	{name: "a", state: "killed"},
	{name: "b", state: "leader", members: 9, shards: 4096, entities: 10_000, rate: 123456, tries: 1234567, gaveUp: 123456},
	{name: "c", state: "joining"},
	{name: "d", state: "paused", members: 2, shards: 1, entities: 1, rate: 100},
	{name: "e", state: "up", members: 2, shards: 16, entities: 5, rate: 99.6},
}

func TestTheTableFitsIntoEightyColumns(t *testing.T) {
	for _, live := range []bool{true, false} {
		s := &screen{live: live}
		lines := strings.Split(strings.TrimSuffix(s.table(rowsOfADemo), "\n"), "\n")
		if len(lines) != len(rowsOfADemo)+1 {
			t.Fatalf("%d rows are %d lines", len(rowsOfADemo), len(lines))
		}
		header := strings.Fields(lines[0])
		for i, line := range lines {
			shown := colours.ReplaceAllString(line, "")
			if n := utf8.RuneCountInString(shown); n > 80 {
				t.Errorf("line %d has %d columns: %s", i, n, shown)
			}
			if i > 0 && live != (shown != line) {
				t.Errorf("live %v, and line %d is %q", live, i, line)
			}
		}
		got := strings.Fields(colours.ReplaceAllString(lines[5], ""))
		want := "e up 2 16 5 100 0 0 ▇▇"
		if strings.Join(got, " ") != want || strings.Join(header, " ") != "node state members shards entities asks/s retries given up" {
			t.Errorf("below %v stands %v, want %s", header, got, want)
		}
	}
}

func TestBarsGrowWithTheShards(t *testing.T) {
	for shards, want := range map[int]int{0: 0, 1: 1, 8: 1, 9: 2, 64: 8, 4096: 8} {
		if got := utf8.RuneCountInString(bar(shards)); got != want {
			t.Errorf("%d shards are %d cells, want %d", shards, got, want)
		}
	}
}

// screenOn returns a screen of processes that have not reported yet, which the test draws.
func screenOn(out *strings.Builder, live bool, names ...string) *screen {
	c := &cluster{}
	for _, name := range names {
		c.nodes = append(c.nodes, &fleet.Process{Name: name})
	}
	return &screen{out: out, cluster: c, live: live, began: time.Now(), before: map[string]uint64{}, beforeAt: time.Now()}
}

// On a terminal the table stands below the events: each event erases exactly the lines that
// are drawn, and so does the table when it is drawn again.
func TestEventsPushTheTableDown(t *testing.T) {
	var out strings.Builder
	s := screenOn(&out, true, "a", "b")
	s.event("two nodes are up")
	if first := out.String(); strings.Contains(first, "\x1b[J") || !strings.HasSuffix(first, "two nodes are up\x1b[0m\n") {
		t.Errorf("the first event writes %q", first)
	}
	s.draw()
	out.Reset()
	s.event("SIGKILL: [a]")
	if second := out.String(); !strings.HasPrefix(second, "\x1b[3A\x1b[J") {
		t.Errorf("an event above a table of 3 lines writes %q", second)
	}
	out.Reset()
	if s.draw(); strings.Contains(out.String(), "\x1b[J") {
		t.Errorf("a table that an event has erased is erased again: %q", out.String())
	}
	out.Reset()
	if s.draw(); !strings.HasPrefix(out.String(), "\x1b[3A\x1b[J") || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("the table is drawn again as %q", out.String())
	}
}

func TestAPipeGetsPlainLines(t *testing.T) {
	var out strings.Builder
	s := screenOn(&out, false)
	if s.draw(); out.Len() > 0 {
		t.Errorf("without a process %q is written", out.String())
	}
	s = screenOn(&out, false, "a", "b")
	s.event("%d nodes are up", 2)
	s.draw()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "s  2 nodes are up") || strings.Contains(out.String(), "\x1b") {
		t.Fatalf("%q", out.String())
	}
	want := "a killed | b leader shards=4 entities=5 asks/s=100 retries=6 given-up=7"
	got := plain([]row{{name: "a", state: "killed"}, {name: "b", state: "leader", members: 2, shards: 4, entities: 5, rate: 99.7, tries: 6, gaveUp: 7}})
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A process without a view has the state joining, whatever it reports beside.
func TestAProcessWithoutAViewIsJoining(t *testing.T) {
	var out strings.Builder
	s := screenOn(&out, false, "a")
	if rows := s.rows(); len(rows) != 1 || rows[0].state != "joining" || rows[0].name != "a" {
		t.Errorf("%+v", rows)
	}
}

func TestTheScreenStopsDrawingWhenItIsClosed(t *testing.T) {
	var out strings.Builder
	s := newScreen(&out, &cluster{})
	s.close()
	s.close() // again: Run closes the screen before it prints, and when it returns
	if s.live || out.Len() > 0 {
		t.Errorf("a screen that is no terminal is live %v, and has written %q", s.live, out.String())
	}
}
