package history

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/peerage-go/peerage/internal/clock"
)

func written(value uint64, from, to clock.Instant) Record {
	return Record{Op: Wrote, Value: value, Start: from, End: to}
}

func seen(value uint64, from, to clock.Instant) Record {
	return Record{Op: Seen, Value: value, Start: from, End: to}
}

func lostWrite(value uint64, from clock.Instant) Record {
	return Record{Op: Unsure, Value: value, Start: from}
}

func TestContradictions(t *testing.T) {
	kill := []Span{{From: 50, To: 60}}
	for name, tc := range map[string]struct {
		records []Record
		excused []Span
		want    string
	}{
		"one after the other":                     {[]Record{seen(0, 1, 2), written(7, 3, 4), seen(7, 5, 6), written(8, 7, 8), seen(8, 9, 10)}, nil, ""},
		"a read beside a write shows either":      {[]Record{written(7, 1, 2), written(8, 3, 9), seen(7, 4, 5), seen(8, 6, 7)}, nil, ""},
		"a read shows the older one again":        {[]Record{written(7, 1, 2), written(8, 3, 9), seen(8, 4, 5), seen(7, 6, 7)}, nil, ReadAfterOverwritten},
		"a stale read":                            {[]Record{written(7, 1, 2), written(8, 3, 4), seen(7, 5, 6)}, nil, ReadAfterOverwritten},
		"the first value is back":                 {[]Record{seen(0, 1, 2), written(7, 3, 4), seen(0, 5, 6)}, nil, ReadAfterOverwritten},
		"a value out of nowhere":                  {[]Record{written(7, 1, 2), seen(9, 3, 4)}, nil, NeverWritten},
		"a value before its write":                {[]Record{seen(7, 1, 2), written(7, 3, 4)}, nil, ReadTooEarly},
		"a write without an answer took effect":   {[]Record{written(7, 1, 2), lostWrite(8, 3), seen(7, 4, 5), seen(8, 6, 7)}, nil, ""},
		"it took effect, and is gone":             {[]Record{written(7, 1, 2), lostWrite(8, 3), seen(8, 4, 5), seen(7, 6, 7)}, nil, ReadAfterOverwritten},
		"a kill takes the value":                  {[]Record{written(7, 1, 2), written(8, 3, 4), seen(7, 70, 71), written(9, 72, 73), seen(9, 74, 75)}, kill, ""},
		"a kill takes it, and that is no excuse":  {[]Record{written(7, 1, 2), written(8, 3, 4), seen(7, 70, 71)}, nil, ReadAfterOverwritten},
		"after a kill the register has one value": {[]Record{written(7, 1, 2), written(8, 3, 4), seen(7, 70, 71), seen(8, 72, 73)}, kill, NeverWritten},
		"a write of before the kill comes late":   {[]Record{written(7, 1, 2), lostWrite(8, 3), seen(7, 70, 71), seen(8, 72, 73)}, kill, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, checked := Contradictions(tc.records, tc.excused)
			if len(got) > 1 || (len(got) == 1) != (tc.want != "") || len(got) == 1 && got[0].Why != tc.want {
				t.Errorf("%v, want %q", got, tc.want)
			}
			if checked == 0 || len(got) == 1 && (got[0].When() == 0 || got[0].String() == "") {
				t.Errorf("%d checked, %v", checked, got)
			}
		})
	}
}

// The zones and porcupine's search have the same verdict about thousands of short histories.
func TestContradictionsAgreeWithASearch(t *testing.T) {
	model := porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, input, output any) (bool, any) {
			if input.(bool) {
				return true, output
			}
			return state == output, state
		},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	verdicts := map[bool]int{}
	for range 20_000 {
		var records []Record
		var ops []porcupine.Operation
		var values []uint64
		for n := range 2 + rng.IntN(6) {
			from := clock.Instant(1 + rng.IntN(30))
			r := Record{Op: Wrote, Value: uint64(n + 1), Start: from, End: from + clock.Instant(1+rng.IntN(12))}
			switch rng.IntN(5) {
			case 0:
				r.Op = Unsure
				values = append(values, r.Value)
			case 1, 2:
				values = append(values, r.Value)
			default:
				r.Op, r.Value = Seen, append([]uint64{0}, values...)[rng.IntN(len(values)+1)]
			}
			records = append(records, r)
		}
		slices.SortStableFunc(records, func(a, b Record) int { return int(a.Start - b.Start) })
		for i, r := range records {
			op := porcupine.Operation{ClientId: i, Input: r.Op != Seen, Output: r.Value, Call: 2 * int64(r.Start), Return: 2*int64(r.End) + 1}
			if r.Op == Unsure {
				op.Return = 1 << 40
			}
			ops = append(ops, op)
		}
		got, _ := Contradictions(records, nil)
		want := porcupine.CheckOperations(model, ops)
		if verdicts[want]++; (len(got) == 0) != want {
			t.Fatalf("linearizable: %v, but %v of\n%+v", want, got, records)
		}
	}
	if verdicts[true] < 1000 || verdicts[false] < 1000 {
		t.Errorf("the histories are one-sided: %v", verdicts)
	}
}
