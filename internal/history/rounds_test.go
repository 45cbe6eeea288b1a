package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// count is a handler run that left a counter at a value.
func count(entity uint32, node, term, value uint64, start, end clock.Instant) Record {
	r := run(entity, node, term, 1, start, end)
	r.Value = value
	return r
}

func TestLossesAreFound(t *testing.T) {
	rough := []Span{{100, 200}}
	moved := []Record{count(1, 1, 1, 7, 110, 111), count(1, 2, 2, 6, 150, 151)}
	if got := Losses(moved, rough, true); len(got) != 0 {
		t.Errorf("the crash took what was not acknowledged yet: %v", got)
	}
	if got := Losses(moved, nil, true); len(got) != 1 {
		t.Errorf("an orderly move lost something: %v", got)
	}
	moved[1].Value = 9
	if got := Losses(moved, rough, true); len(got) != 1 {
		t.Errorf("a count came out of nowhere, with copies: %v", got)
	}
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"counting on":                          {[]Record{count(1, 1, 1, 1, 10, 11), count(1, 1, 1, 2, 12, 13)}, 0},
		"out of order in the file":             {[]Record{count(1, 1, 1, 2, 12, 13), count(1, 1, 1, 1, 10, 11)}, 0},
		"an orderly move carries the count":    {[]Record{count(1, 1, 1, 7, 10, 11), count(1, 2, 2, 8, 12, 13)}, 0},
		"an orderly move loses the count":      {[]Record{count(1, 1, 1, 7, 10, 11), count(1, 2, 2, 1, 12, 13)}, 1},
		"a crash takes the count":              {[]Record{count(1, 1, 1, 7, 110, 111), count(1, 2, 2, 1, 150, 151)}, 0},
		"a crash before the last run":          {[]Record{count(1, 1, 1, 7, 210, 211), count(1, 2, 2, 1, 220, 221)}, 1},
		"an instance forgets":                  {[]Record{count(1, 1, 1, 7, 110, 111), count(1, 1, 1, 7, 112, 113)}, 1},
		"an instance starts over in a crash":   {[]Record{count(1, 1, 1, 7, 110, 111), count(1, 1, 1, 1, 112, 113)}, 1},
		"a count out of nowhere":               {[]Record{count(1, 1, 1, 7, 110, 111), count(1, 2, 2, 9, 150, 151)}, 1},
		"other entities have other counts":     {[]Record{count(1, 1, 1, 7, 10, 11), count(2, 1, 1, 1, 12, 13)}, 0},
		"an unfinished run proves nothing":     {[]Record{count(1, 1, 1, 7, 10, 11), {Op: HandlerStarted, Entity: 1, Node: 1, Term: 1, Seq: 1, Start: 12}}, 0},
		"a run twice (two requests, one seen)": {[]Record{count(1, 1, 1, 1, 10, 11), count(1, 1, 1, 3, 12, 13)}, 1},
	} {
		if got := Losses(tc.records, rough, false); len(got) != tc.want {
			t.Errorf("%s: %d losses, want %d: %v", name, len(got), tc.want, got)
		}
	}
}

func TestCountsThatDoNotBeginAtOneAreFound(t *testing.T) {
	records := []Record{
		count(1, 1, 1, 2, 12, 13), count(1, 1, 1, 1, 10, 11),
		count(2, 1, 1, 8, 10, 11), count(2, 1, 1, 9, 12, 13),
		{Op: HandlerStarted, Entity: 3, Start: 10}, count(3, 1, 1, 1, 20, 21),
	}
	got := WrongBegins(records)
	if len(got) != 1 || got[0].After.Entity != 2 || !strings.Contains(got[0].String(), "the first count is 8") {
		t.Errorf("wrong begins: %v", got)
	}
}

func TestForgottenAnswersAreFound(t *testing.T) {
	beyond := []Span{{100, 200}}
	told := func(entity uint32, value uint64, end clock.Instant) Record {
		return Record{Op: Answered, Entity: entity, Value: value, Start: end - 1, End: end}
	}
	for name, tc := range map[string]struct {
		records []Record
		want    int
	}{
		"counting on":                      {[]Record{count(1, 1, 1, 7, 10, 11), told(1, 7, 20), count(1, 2, 2, 8, 30, 31)}, 0},
		"an acknowledged count is gone":    {[]Record{count(1, 1, 1, 7, 10, 11), told(1, 7, 20), count(1, 2, 2, 7, 30, 31)}, 1},
		"and all runs after it count too":  {[]Record{told(1, 7, 20), count(1, 2, 2, 1, 30, 31), told(1, 1, 32), count(1, 2, 2, 2, 40, 41)}, 2},
		"an unanswered count may be lost":  {[]Record{told(1, 6, 20), count(1, 1, 1, 7, 25, 26), count(1, 2, 2, 7, 30, 31)}, 0},
		"answered while the next one ran":  {[]Record{told(1, 7, 35), count(1, 2, 2, 7, 30, 36)}, 0},
		"an older answer comes late":       {[]Record{told(1, 7, 20), told(1, 5, 21), count(1, 2, 2, 6, 30, 31)}, 1},
		"too many copies were lost":        {[]Record{told(1, 7, 90), count(1, 2, 2, 1, 150, 151)}, 0},
		"answered while copies were lost":  {[]Record{told(1, 7, 150), count(1, 2, 2, 1, 250, 251)}, 0},
		"lost after that":                  {[]Record{told(1, 7, 90), told(1, 1, 210), count(1, 2, 2, 1, 250, 251)}, 1},
		"a higher one from before is void": {[]Record{told(1, 7, 90), told(1, 2, 210), count(1, 2, 2, 3, 250, 251), count(1, 2, 2, 2, 260, 261)}, 1},
		"other entities have other counts": {[]Record{told(1, 7, 20), count(2, 2, 2, 1, 30, 31)}, 0},
	} {
		if got := Forgotten(tc.records, beyond); len(got) != tc.want {
			t.Errorf("%s: %d losses, want %d: %v", name, len(got), tc.want, got)
		}
	}
}

func TestUnfoundedAnswersAreFound(t *testing.T) {
	answer := func(value uint64, start, end clock.Instant) Record {
		return Record{Op: Answered, Entity: 1, Node: 2, Value: value, Start: start, End: end}
	}
	records := []Record{
		count(1, 1, 1, 1, 10, 11), answer(1, 8, 15),
		answer(2, 8, 15),                             // no run counted to 2
		count(1, 1, 1, 3, 30, 31), answer(3, 40, 45), // counted before the question
		count(1, 1, 1, 4, 60, 61), answer(4, 50, 55), // counted after the answer
	}
	if twice := append(slices.Clone(records), answer(1, 7, 16)); len(Unfounded(twice)) != 4 {
		t.Errorf("one run gave two answers: %v", Unfounded(twice))
	}
	// Both runs lie within the wider answer, and only one of them within the other.
	if both := []Record{count(1, 1, 1, 9, 5, 6), count(1, 1, 1, 9, 50, 51), answer(9, 0, 300), answer(9, 10, 200)}; len(Unfounded(both)) != 0 {
		t.Errorf("two runs gave two answers: %v", Unfounded(both))
	}
	got := Unfounded(records)
	if len(got) != 3 || got[0].Value != 2 || got[1].Value != 3 || got[2].Value != 4 {
		t.Errorf("unfounded: %v", got)
	}
}

func TestGapsAreTheLongest(t *testing.T) {
	answered := func(entity uint32, end clock.Instant) Record { return Record{Op: Answered, Entity: entity, End: end} }
	records := []Record{
		answered(0, 150), answered(0, 110), answered(0, 190), answered(0, 500),
		answered(1, 130),
	}
	got := Gaps(records, 3, Span{100, 200})
	for i, want := range []Gap{
		{0, Span{110, 150}, false}, {1, Span{130, 200}, true}, {2, Span{100, 200}, true},
	} {
		if got[i] != want {
			t.Errorf("gap of %d is %+v, want %+v", i, got[i], want)
		}
	}
	if l := got[2].Length(); l != 100*time.Nanosecond {
		t.Errorf("length %v", l)
	}
}

func TestHomesCountsAllocations(t *testing.T) {
	records := []Record{
		count(0, 1, 1, 1, 10, 11), count(0, 1, 1, 2, 12, 13), count(0, 2, 2, 3, 14, 15), count(0, 1, 3, 4, 16, 17),
		count(1, 1, 1, 1, 10, 11), count(1, 2, 2, 1, 90, 91),
	}
	if got := Homes(records, 2, Span{0, 50}); got[0] != 3 || got[1] != 1 {
		t.Errorf("homes %v, want [3 1]", got)
	}
}

func TestHandoffsAreFromTheLastRunToTheNextOnes(t *testing.T) {
	records := []Record{
		count(0, 1, 1, 1, 10, 11), count(0, 2, 2, 3, 30, 33), count(0, 1, 1, 2, 12, 13), count(0, 2, 2, 4, 34, 35),
		count(1, 1, 1, 1, 10, 11), count(1, 2, 2, 2, 90, 91), count(2, 1, 1, 1, 10, 45),
		count(0, 1, 3, 5, 36, 41),
	}
	want := []time.Duration{6, 20}
	if got := Handoffs(records, Span{12, 50}); !slices.Equal(got, want) {
		t.Errorf("handoffs %v, want %v", got, want)
	}
}

func TestLateHandlersAreThoseThatWereHeld(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	holds := []Hold{{Node: 1, Span: Span{1000 * ms, 4000 * ms}}}
	other := run(1, 2, 2, 1, 3000*ms, 3001*ms)
	for name, tc := range map[string]struct {
		held Record
		late int
		want int
	}{
		"running when held":          {run(1, 1, 1, 1, 999*ms, 4001*ms), 1, 0},
		"before":                     {run(1, 1, 1, 1, 998*ms, 999*ms), 0, 0},
		"begun after it went on":     {run(1, 1, 1, 1, 4001*ms, 4002*ms), 0, 1},
		"begun while it was held":    {run(1, 1, 1, 1, 2500*ms, 4001*ms), 0, 1},
		"another node was held":      {run(1, 3, 1, 1, 999*ms, 4001*ms), 0, 1},
		"ended while it was held":    {run(1, 1, 1, 1, 999*ms, 3500*ms), 0, 1},
		"a newer token, begun early": {run(1, 1, 9, 1, 999*ms, 4001*ms), 1, 1},
	} {
		rest, late := Late([]Record{tc.held, other}, holds)
		if got := Doubles(rest); len(late) != tc.late || len(got) != tc.want {
			t.Errorf("%s: %d late, %d doubles, want %d and %d", name, len(late), len(got), tc.late, tc.want)
		}
	}
}

// A node that is held for less than its lease continues: none of its runs is late, and
// none is missing from its counts.
func TestAShortHoldMakesNoRunLate(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	holds := []Hold{{Node: 1, Span: Span{1000 * ms, 1300 * ms}}}
	records := []Record{
		count(1, 1, 1, 7, 900*ms, 901*ms), count(1, 1, 1, 8, 1301*ms, 1302*ms), count(1, 1, 1, 9, 1303*ms, 1304*ms),
		{Op: Answered, Entity: 1, Node: 3, Value: 8, Start: 999 * ms, End: 1303 * ms},
	}
	rest, late := Late(records, holds)
	if len(late) != 0 || len(Losses(rest, nil, false)) != 0 {
		t.Errorf("late %v, losses %v", late, Losses(rest, nil, false))
	}
}

// A handler that begins after its process continued counts as admitted before the hold
// only if its request was sent before the hold and no record contradicts that.
func TestHandlersAdmittedBeforeTheHold(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	holds := []Hold{{Node: 1, Span: Span{1000 * ms, 4000 * ms}}}
	began := func(start clock.Instant, value uint64, sent clock.Instant) []Record {
		r := count(1, 1, 1, value, start, start+1)
		r.Sent = sent
		s := r
		s.Op, s.End, s.Value = HandlerStarted, 0, 0
		return []Record{s, r}
	}
	told := func(value uint64, start, end clock.Instant) Record {
		return Record{Op: Answered, Entity: 1, Node: 3, Value: value, Start: start, End: end}
	}
	successor := count(1, 2, 2, 1, 3000*ms, 3001*ms)
	for name, tc := range map[string]struct {
		records []Record
		late    int
		want    int
	}{
		"sent before the hold":               {append(began(4001*ms, 8, 999*ms), told(8, 999*ms, 4002*ms)), 1, 0},
		"its caller received another answer": {append(began(4001*ms, 8, 999*ms), told(1, 999*ms, 3002*ms)), 1, 0},
		"its caller gave up":                 {append(began(4001*ms, 8, 999*ms), Record{Op: Failed, Entity: 1, Node: 3, Start: 999 * ms, End: 2000 * ms}), 1, 0},
		"sent while it was held":             {append(began(4001*ms, 8, 2000*ms), told(8, 2000*ms, 4002*ms)), 0, 1},
		"sent again while it was held":       {append(began(4001*ms, 8, 2000*ms), told(8, 999*ms, 4002*ms)), 0, 1},
		"of a request without a time":        {append(began(4001*ms, 8, 0), told(8, 999*ms, 4002*ms)), 0, 1},
		"a while after it continued":         {append(began(4101*ms, 8, 999*ms), told(8, 999*ms, 4102*ms)), 0, 1},
		"the second of its instance":         {append(append(began(4001*ms, 8, 2000*ms), began(4002*ms, 9, 999*ms)...), told(9, 999*ms, 4003*ms)), 0, 2},
		"a message":                          {[]Record{{Op: Told, Entity: 1, Node: 1, Term: 1, Seq: 1, Value: 8, Start: 4001 * ms, Sent: 999 * ms}}, 1, 0},
		"a message, and one more":            {append([]Record{{Op: Told, Entity: 1, Node: 1, Term: 1, Seq: 1, Value: 8, Start: 4001 * ms, Sent: 999 * ms}}, began(4002*ms, 8, 999*ms)...), 1, 1},
		"the first, and one more":            {append(append(began(4001*ms, 8, 999*ms), began(4002*ms, 9, 999*ms)...), told(8, 999*ms, 4003*ms)), 1, 1},
	} {
		rest, late := Late(append(tc.records, successor), holds)
		if got := Doubles(rest); len(late) != tc.late || len(got) != tc.want {
			t.Errorf("%s: %d late, %d doubles %v, want %d and %d", name, len(late), len(got), got, tc.late, tc.want)
		}
	}
}

// Few instances can be between their lease check and their handler when a process is
// held. If more begin a handler after it continued, their lease check is wrong.
func TestManyHandlersAfterTheHoldAreDoubles(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	holds := []Hold{{Node: 1, Span: Span{1000 * ms, 4000 * ms}}}
	for _, n := range []uint32{admittedMax, admittedMax + 1} {
		var records []Record
		for entity := range n {
			late := count(entity, 1, 1, 8, 4001*ms, 4002*ms)
			late.Sent = 999 * ms
			records = append(records, late, count(entity, 2, 2, 1, 3000*ms, 3001*ms))
		}
		rest, late := Late(records, holds)
		want := 0
		if n > admittedMax {
			want = int(n)
		}
		if got := Doubles(rest); len(got) != want || len(late) != int(n)-want {
			t.Errorf("%d handlers: %d late, %d doubles, want %d doubles", n, len(late), len(got), want)
		}
	}
}

// The history of a freeze in a bench run at a load of 27: the process continued, counted
// once more beside its successor, and its caller had been told meanwhile that the
// connection was lost.
func TestAHandlerAdmittedBeforeAFreezeIsNoDouble(t *testing.T) {
	const held, continued = 28545588000000, 28547589600000
	lost := count(56, 0x33f6, 105, 1737, 28547589673841, 28547589683933)
	lost.Sent = held - 50_000
	records := []Record{
		count(56, 0x33f6, 105, 1736, held-2_000_000, held-1_990_000),
		count(56, 0x70ee, 176, 207, 28547588911468, 28547588921468), lost,
		count(56, 0x70ee, 176, 208, 28547600068513, 28547600078513),
		{Op: Failed, Entity: 56, Node: 4, Start: held - 60_000, End: held + 1_000_000_000},
	}
	holds := []Hold{{Node: 0x33f6, Span: Span{held, continued}}}
	rough := []Span{{held, 28547588911468}}
	rest, late := Late(records, holds)
	if d := Doubles(rest); len(late) != 1 || len(d) != 0 {
		t.Errorf("%d late, doubles %v", len(late), d)
	}
	if l, r := Losses(rest, rough, true), Regressions(rest); len(l) != 0 || len(r) != 0 {
		t.Errorf("losses %v, regressions %v", l, r)
	}
	// Its request was sent during the freeze: the lease had ended before it was checked.
	records[2].Sent = clock.Instant(held).Add(holdSlack)
	rest, _ = Late(records, holds)
	if d := Doubles(rest); len(d) != 1 {
		t.Errorf("doubles %v, want one", d)
	}
}
