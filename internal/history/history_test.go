package history

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

func run(entity uint32, node, term, seq uint64, start, end clock.Instant) Record {
	return Record{Op: Handled, Entity: entity, Node: node, Term: term, Seq: seq, Start: start, End: end}
}

func TestRecordsSurviveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Record{
		{Op: Handled, Entity: 7, Node: 1 << 63, Term: 3, Seq: 4, Value: 5, Start: 6, End: 9, Sender: 10, Sent: 11},
		{Op: Failed, Entity: 8, Node: 2, Start: 1, End: 2},
	}
	for _, r := range want {
		w.Write(r)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// A kill may cut the last record off.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%v\nwant\n%v", got, want)
	}
	if _, err := Create(path); err == nil {
		t.Error("Create overwrote a history")
	}
}

func TestDoublesAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"one after the other":        {[]Record{run(1, 1, 1, 1, 10, 20), run(1, 2, 2, 1, 30, 40)}, 0},
		"other entities may overlap": {[]Record{run(1, 1, 1, 1, 10, 20), run(2, 2, 1, 2, 15, 40)}, 0},
		"overlap":                    {[]Record{run(1, 1, 1, 1, 10, 20), run(1, 2, 2, 1, 15, 40)}, 1},
		"overlap with a long one":    {[]Record{run(1, 1, 1, 1, 10, 90), run(1, 1, 1, 1, 15, 20), run(1, 2, 2, 1, 50, 60)}, 2},
		"the old one acts again":     {[]Record{run(1, 1, 1, 1, 10, 20), run(1, 2, 2, 1, 30, 40), run(1, 1, 1, 1, 50, 60)}, 1},
		"one token on two nodes":     {[]Record{run(1, 1, 1, 1, 10, 20), run(1, 2, 1, 1, 30, 40)}, 1},
		"killed in a handler": {[]Record{
			{Op: HandlerStarted, Entity: 1, Node: 1, Term: 1, Seq: 1, Start: 50}, run(1, 2, 2, 1, 30, 40)}, 1},
		"started and ended is one run": {[]Record{
			{Op: HandlerStarted, Entity: 1, Node: 1, Term: 1, Seq: 1, Start: 10}, run(1, 1, 1, 1, 10, 20)}, 0},
	} {
		if got := Doubles(tc.records); len(got) != tc.want {
			t.Errorf("%s: %d doubles, want %d: %v", name, len(got), tc.want, got)
		}
	}
}

func TestFailoverCountsAnswersOfNewInstancesOnly(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	answered := func(entity uint32, node uint64, start, end clock.Instant) Record {
		return Record{Op: Answered, Entity: entity, Node: node, Start: start, End: end}
	}
	records := []Record{
		run(1, 9, 1, 1, 10*ms, 11*ms), run(2, 9, 1, 2, 10*ms, 11*ms), run(3, 2, 1, 3, 10*ms, 11*ms),
		answered(1, 2, 98*ms, 101*ms), // sent by the dead before it died
		run(1, 2, 2, 1, 150*ms, 151*ms),
		answered(1, 2, 99*ms, 152*ms),
		answered(1, 2, 153*ms, 160*ms),
	}
	f := Failovers(records, map[uint64]bool{9: true}, 100*ms, clock.Never)
	if f.Moved != 2 || len(f.Times) != 1 || f.Times[0] != 52*time.Millisecond {
		t.Errorf("moved %d, times %v; want 2 moved, one answer after 52ms", f.Moved, f.Times)
	}
	if len(f.Unanswered) != 1 || f.Unanswered[0] != 2 {
		t.Errorf("unanswered %v, want [2]", f.Unanswered)
	}
}
