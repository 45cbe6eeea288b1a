package history

import (
	"testing"

	"github.com/peerage-go/peerage/internal/clock"
)

func TestStaleReadsAreFound(t *testing.T) {
	wrote := func(value uint64, start, end clock.Instant) Record {
		return Record{Op: Wrote, Entity: 1, Value: value, Start: start, End: end}
	}
	read := func(value uint64, start, end clock.Instant) Record {
		return Record{Op: Seen, Entity: 1, Value: value, Start: start, End: end}
	}
	for name, tc := range map[string]struct {
		records       []Record
		lost          []Span
		away, setBack []Span
		want, checked int
	}{
		"the newest":                              {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(2, 50, 60)}, nil, nil, nil, 0, 1},
		"an older one":                            {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, nil, nil, 1, 1},
		"in any order of the records":             {[]Record{read(1, 50, 60), wrote(2, 30, 40), wrote(1, 10, 20)}, nil, nil, nil, 1, 1},
		"writes that overlap":                     {[]Record{wrote(1, 10, 35), wrote(2, 30, 40), read(1, 50, 60)}, nil, nil, nil, 0, 1},
		"the newer one was not done":              {[]Record{wrote(1, 10, 20), wrote(2, 30, 55), read(1, 50, 60)}, nil, nil, nil, 0, 1},
		"nothing, after a write":                  {[]Record{wrote(1, 10, 20), read(0, 50, 60)}, nil, nil, nil, 1, 1},
		"nothing, before":                         {[]Record{wrote(1, 10, 20), read(0, 5, 60)}, nil, nil, nil, 0, 1},
		"of a write that failed":                  {[]Record{wrote(1, 10, 20), read(9, 50, 60)}, nil, nil, nil, 0, 0},
		"another register":                        {[]Record{wrote(1, 10, 20), {Op: Seen, Entity: 2, Start: 50, End: 60}}, nil, nil, nil, 0, 1},
		"too many were lost in between":           {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, []Span{{45, 48}}, nil, nil, 0, 1},
		"too many were lost before":               {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, []Span{{21, 29}}, nil, nil, 1, 1},
		"an old one behind two newer":             {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), wrote(3, 41, 45), read(1, 50, 60)}, nil, nil, nil, 1, 1},
		"the second newest, writes overlap":       {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), wrote(3, 35, 45), read(2, 50, 60)}, nil, nil, nil, 0, 1},
		"too few disks are back at the read":      {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, []Span{{45, 55}}, []Span{{45, 55}}, 0, 1},
		"too few disks were back at the write":    {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, []Span{{35, 45}}, []Span{{35, 45}}, 0, 1},
		"the disks are back, of earlier writes":   {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, []Span{{41, 49}}, []Span{{41, 49}}, 1, 1},
		"too few disks were back at an older one": {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, []Span{{15, 25}}, []Span{{15, 25}}, 1, 1},
		"too few disks were back, clocks went on": {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, []Span{{35, 45}}, nil, 1, 1},
		"clocks were set back, disks are back":    {[]Record{wrote(1, 10, 20), wrote(2, 30, 40), read(1, 50, 60)}, nil, nil, []Span{{45, 55}}, 1, 1},
	} {
		if got, checked := StaleReads(tc.records, tc.lost, tc.away, tc.setBack); len(got) != tc.want || checked != tc.checked {
			t.Errorf("%s: %d stale of %d, want %d of %d: %v", name, len(got), checked, tc.want, tc.checked, got)
		}
	}
}

func TestMissingEntriesAreFound(t *testing.T) {
	records := []Record{
		{Op: Appended, Entity: 1, Sender: 7, Start: 10, End: 20},
		{Op: ReadBack, Entity: 1, Sender: 7, Value: 0, Start: 15, End: 30}, // not acknowledged yet
		{Op: ReadBack, Entity: 1, Sender: 7, Value: 1, Start: 40, End: 50},
		{Op: ReadBack, Entity: 1, Sender: 7, Value: 0, Start: 60, End: 70},
		{Op: ReadBack, Entity: 2, Sender: 7, Value: 0, Start: 60, End: 70}, // never acknowledged
		{Op: ReadBack, Entity: 1, Sender: 8, Value: 0, Start: 60, End: 70}, // of another process
	}
	if got, checked := Missing(records); len(got) != 1 || checked != 2 || got[0].Start != 60 {
		t.Errorf("%d checked, missing %v", checked, got)
	}
}

func TestRegressionsOfTokensAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"rising":                 {[]Record{run(1, 1, 1, 1, 10, 20), run(1, 1, 1, 1, 21, 22), run(1, 2, 1, 2, 30, 40), run(1, 3, 2, 1, 50, 60)}, 0},
		"back in a later life":   {[]Record{run(1, 1, 9, 1, 10, 20), run(1, 2, 8, 7, 30, 40), run(1, 2, 8, 7, 50, 60)}, 2},
		"again on another node":  {[]Record{run(1, 1, 9, 1, 10, 20), run(1, 2, 9, 1, 30, 40)}, 1},
		"other entities":         {[]Record{run(1, 1, 9, 1, 10, 20), run(2, 2, 8, 1, 30, 40)}, 0},
		"in any order of a file": {[]Record{run(1, 2, 10, 1, 30, 40), run(1, 1, 9, 1, 10, 20)}, 0},
	} {
		if got := Regressions(tc.records); len(got) != tc.want {
			t.Errorf("%s: %v, want %d", name, got, tc.want)
		}
	}
}
