package history

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// ran, sent and had are a run, the acceptance and the confirmation of the message number of
// process 7 to entity 1.
func ran(at clock.Instant, node, number uint64) Record {
	return Record{Op: Delivered, Entity: 1, Node: node, Term: node, Sender: 7, Value: number, Start: at}
}

func sent(at clock.Instant, number uint64) Record {
	return Record{Op: Accepted, Entity: 1, Node: 3, Sender: 7, Value: number, Start: at, End: at + 1}
}

func had(at clock.Instant, number uint64) Record {
	return Record{Op: Confirmed, Entity: 1, Node: 3, Sender: 7, Value: number, Start: at}
}

func TestRerunsAreFound(t *testing.T) {
	rough := []Span{{From: 100, To: 200}}
	other := ran(30, 1, 1)
	other.Sender = 8
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"in order":                     {[]Record{ran(10, 1, 1), ran(20, 1, 2), ran(30, 2, 3)}, 0},
		"two processes":                {[]Record{ran(10, 1, 1), ran(20, 1, 2), other}, 0},
		"twice":                        {[]Record{ran(10, 1, 1), ran(20, 1, 1)}, 1},
		"inverted":                     {[]Record{ran(10, 1, 1), ran(20, 1, 3), ran(30, 1, 2)}, 1},
		"again behind an orderly move": {[]Record{ran(10, 1, 1), ran(20, 1, 2), ran(30, 2, 2)}, 1},
		"again behind a crash":         {[]Record{ran(10, 1, 1), ran(90, 1, 2), ran(150, 2, 1), ran(160, 2, 2)}, 0},
		"again when all agree":         {[]Record{ran(90, 1, 2), ran(250, 2, 1), ran(260, 2, 2)}, 0},
		"twice after a crash":          {[]Record{ran(90, 1, 2), ran(250, 2, 1), ran(260, 2, 1)}, 1},
	} {
		if got, checked := Reruns(tc.records, rough); len(got) != tc.want || checked != len(tc.records) {
			t.Errorf("%s: %v, %d checked, want %d", name, got, checked, tc.want)
		}
	}
}

func TestOmissionsAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"handled, then confirmed":       {[]Record{ran(10, 1, 1), had(11, 1), ran(20, 1, 2), had(21, 2)}, 0},
		"at the same instant":           {[]Record{had(10, 1), ran(10, 1, 1)}, 0},
		"confirmed first":               {[]Record{had(9, 1), ran(10, 1, 1)}, 1},
		"confirmed and never handled":   {[]Record{ran(10, 1, 1), had(11, 2)}, 1},
		"a later one first":             {[]Record{ran(10, 1, 1), ran(20, 1, 3), ran(30, 1, 2)}, 1},
		"the first one left out":        {[]Record{ran(10, 1, 2)}, 1},
		"again, without those between":  {[]Record{ran(10, 1, 1), ran(20, 1, 2), ran(30, 1, 3), ran(40, 2, 1), ran(50, 2, 4)}, 0},
		"left out behind a crash":       {[]Record{ran(10, 1, 1), ran(20, 1, 2), ran(40, 2, 1), ran(50, 2, 4)}, 1},
		"a message without an order":    {[]Record{{Op: Told, Entity: 1, Sender: 7, Value: 9}}, 0},
		"accepted, and its process end": {[]Record{sent(5, 1), ran(10, 1, 1), sent(20, 2)}, 0},
	} {
		if got, _ := Omissions(tc.records); len(got) != tc.want {
			t.Errorf("%s: %v, want %d", name, got, tc.want)
		}
	}
}

func TestDelaysAreFound(t *testing.T) {
	faults, in := []Span{{From: 100, To: 200}, {From: 250, To: 400}}, Span{From: 20, To: 1000}
	for name, tc := range map[string]struct {
		records []Record
		want    time.Duration // the calm part of the wait, 0 for no delay
	}{
		"confirmed soon":                    {[]Record{sent(30, 1), had(60, 1), sent(900, 2)}, 0},
		"confirmed late":                    {[]Record{sent(500, 1), had(620, 1)}, 119},
		"while faults last":                 {[]Record{sent(80, 1), had(420, 1)}, 0},
		"in the calm time between faults":   {[]Record{sent(60, 1), had(432, 1)}, 121},
		"never, and its process lives":      {[]Record{sent(500, 1), sent(650, 2)}, 150},
		"never, and its process ends":       {[]Record{sent(500, 1), sent(590, 2)}, 0},
		"sent before the load stood":        {[]Record{sent(1, 1), had(99, 1)}, 0},
		"confirmed after the run":           {[]Record{sent(950, 1), had(1200, 1)}, 0},
		"the first of several confirmation": {[]Record{sent(500, 1), had(550, 1), had(700, 1)}, 0},
	} {
		got, checked := Delays(tc.records, faults, in, 100)
		if checked == 0 || len(got) > 1 || (len(got) == 1) != (tc.want > 0) || len(got) == 1 && got[0].Calm != tc.want {
			t.Errorf("%s: %v, %d checked, want %v", name, got, checked, tc.want)
		}
	}
}
