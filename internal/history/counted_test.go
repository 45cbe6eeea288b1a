package history

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/peerage-go/peerage/internal/clock"
)

// tallied is an answered attempt, unanswered one without an answer.
func tallied(value uint64, from, to clock.Instant) Record {
	return Record{Op: Counted, Value: value, Start: from, End: to}
}

func unanswered(from clock.Instant) Record { return Record{Op: Unsure, Start: from} }

func TestMiscounts(t *testing.T) {
	kill := []Span{{From: 50, To: 60}}
	for name, tc := range map[string]struct {
		records []Record
		excused []Span
		want    string
	}{
		"one after the other":                           {[]Record{tallied(1, 1, 2), tallied(2, 3, 4), tallied(3, 5, 6)}, nil, ""},
		"two at the same time, in either order":         {[]Record{tallied(2, 1, 5), tallied(1, 2, 6), tallied(3, 7, 8)}, nil, ""},
		"an attempt without an answer was counted":      {[]Record{tallied(1, 1, 2), unanswered(3), tallied(3, 5, 6)}, nil, ""},
		"one was counted late":                          {[]Record{unanswered(1), tallied(1, 2, 3), tallied(2, 4, 5), tallied(4, 6, 7)}, nil, ""},
		"one was never counted":                         {[]Record{unanswered(1), unanswered(1), tallied(1, 2, 3), tallied(2, 4, 5)}, nil, ""},
		"two callers have the same count":               {[]Record{tallied(1, 1, 2), tallied(1, 1, 3)}, nil, AnsweredTwice},
		"an acknowledged count is lost":                 {[]Record{tallied(1, 1, 2), tallied(2, 3, 4), tallied(3, 5, 6), tallied(2, 7, 8)}, nil, WentBack + "|" + AnsweredTwice},
		"a count that was not asked for":                {[]Record{tallied(1, 1, 2), tallied(3, 3, 4)}, nil, NeverAsked},
		"the first one is not the first":                {[]Record{tallied(2, 1, 2)}, nil, NeverAsked},
		"one attempt was counted twice":                 {[]Record{tallied(1, 1, 2), unanswered(3), tallied(4, 5, 6)}, nil, NeverAsked},
		"an attempt was counted before it began":        {[]Record{tallied(1, 1, 2), tallied(3, 3, 4), unanswered(5)}, nil, NeverAsked},
		"two gaps, and only one attempt in time":        {[]Record{tallied(1, 1, 2), unanswered(3), tallied(3, 4, 5), tallied(5, 6, 7), unanswered(8)}, nil, NeverAsked},
		"a kill takes the count":                        {[]Record{tallied(1, 1, 2), tallied(2, 3, 4), tallied(1, 70, 71), tallied(2, 72, 73)}, kill, ""},
		"a kill takes the count, and that is no excuse": {[]Record{tallied(1, 1, 2), tallied(2, 3, 4), tallied(1, 70, 71)}, nil, WentBack + "|" + AnsweredTwice},
		"after a kill a count is lost without one":      {[]Record{tallied(1, 1, 2), tallied(7, 70, 71), tallied(8, 72, 73), tallied(7, 74, 75)}, kill, WentBack + "|" + AnsweredTwice},
		"what touches a kill may count on either side":  {[]Record{tallied(1, 1, 2), tallied(2, 45, 55), tallied(7, 62, 63), tallied(9, 64, 65), tallied(10, 66, 67)}, kill, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, checked := Miscounts(tc.records, tc.excused)
			var why []string
			for _, m := range got {
				if why = append(why, m.Why); !strings.Contains(m.String(), m.Why) || m.When() != m.Answer.End {
					t.Errorf("%v", m)
				}
			}
			slices.Sort(why)
			want := strings.Split(tc.want, "|")
			slices.Sort(want)
			if strings.Join(why, "|") != strings.Join(want, "|") {
				t.Errorf("%v, want %v", got, want)
			}
			if checked != len(slices.DeleteFunc(slices.Clone(tc.records), func(r Record) bool { return r.Op != Counted })) {
				t.Errorf("%d checked", checked)
			}
		})
	}
}

// The verdict and that of porcupine's search are the same about thousands of short histories.
func TestMiscountsAgreeWithASearch(t *testing.T) {
	model := porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, input, output any) (bool, any) {
			next := state.(uint64) + 1
			return input.(bool) || output == next, next
		},
	}
	rng := rand.New(rand.NewPCG(3, 4))
	verdicts := map[bool]int{}
	for range 20_000 {
		var records []Record
		var ops []porcupine.Operation
		for n := range 2 + rng.IntN(5) {
			from := clock.Instant(1 + 4*n + rng.IntN(8))
			r := Record{Op: Counted, Value: uint64(1 + n + rng.IntN(3) - 1), Start: from, End: from + clock.Instant(1+rng.IntN(12))}
			if rng.IntN(4) == 0 {
				r.Op = Unsure
			}
			r.Value = max(r.Value, 1)
			records = append(records, r)
		}
		slices.SortStableFunc(records, func(a, b Record) int { return int(a.Start - b.Start) })
		for i, r := range records {
			op := porcupine.Operation{ClientId: i, Input: r.Op == Unsure, Output: r.Value, Call: 2 * int64(r.Start), Return: 2*int64(r.End) + 1}
			if r.Op == Unsure {
				op.Return = 1 << 40
			}
			ops = append(ops, op)
		}
		got, _ := Miscounts(records, nil)
		want := porcupine.CheckOperations(model, ops)
		if verdicts[want]++; (len(got) == 0) != want {
			t.Fatalf("linearizable: %v, but %v of\n%+v", want, got, records)
		}
	}
	if verdicts[true] < 1000 || verdicts[false] < 1000 {
		t.Errorf("the histories are one-sided: %v", verdicts)
	}
}
