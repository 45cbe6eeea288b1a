package chaos

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// The events of a round are the first of their kind, of members that were not hurt, about those that
// were. A cut that was healed after the last agreement counts as healed then.
func TestEventsOfRoundsAreMarked(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	c, records := planted(Config{Nodes: 3})
	c.calmFrom = 1000 * ms
	c.faults.Rounds[1].HeldMS = 900
	records = append(records,
		history.Record{Op: history.Suspected, Node: 1, Sender: 1, Start: 2001 * ms}, // by a process that was hurt
		history.Record{Op: history.Suspected, Node: 3, Sender: 7, Start: 2002 * ms}, // of another one
		history.Record{Op: history.Suspected, Node: 3, Sender: 1, Start: 2004 * ms},
		history.Record{Op: history.Suspected, Node: 2, Sender: 1, Start: 2006 * ms},
		history.Record{Op: history.Excluded, Node: 2, Sender: 1, Start: 2010 * ms},
		history.Record{Op: history.Created, Node: 2, Start: 2011 * ms},
		history.Record{Op: history.HandlerStarted, Node: 2, Start: 2012 * ms},
		history.Record{Op: history.Answered, Node: 9, Value: 1, Start: 2001 * ms, End: 2013 * ms},
	)
	slices.SortStableFunc(records, func(a, b history.Record) int { return cmp.Compare(a.Start, b.Start) })
	var r Report
	r.markEvents(c, records)
	want := []Event{
		{1, eventDetected, 1004}, {1, eventView, 1010}, {1, eventHome, 1011}, {1, eventAnswered, 1013}, {2, eventHealed, 5500},
	}
	if !slices.Equal(r.Events, want) {
		t.Errorf("%+v, want %+v", r.Events, want)
	}
}

// The latencies are written in the text form of HdrHistogram.
func TestHistogramsAreSaved(t *testing.T) {
	dir := t.TempDir()
	r := Report{Before: latencyOf([]time.Duration{time.Millisecond, 3 * time.Millisecond})}
	if err := r.SaveHistograms(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "latency-before.hgrm"))
	if err != nil || !bytes.Contains(text, []byte("Percentile")) || !bytes.Contains(text, []byte("3.000")) || !bytes.Contains(text, []byte("Total count    =            2")) {
		t.Errorf("%v:\n%s", err, text)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}
