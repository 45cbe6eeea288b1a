package load

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// callersOf returns callers of one counter, and a function that returns what they recorded.
func callersOf(t *testing.T, every time.Duration, inFlight int, ask func(ctx context.Context, id string) (uint64, error)) (*Callers, func() []history.Record) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "load.history")
	w, err := history.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	return &Callers{
			Counters: 1, Every: every, InFlight: inFlight, History: w,
			Clock: clock.Func(func() clock.Instant { return clock.Instant(time.Since(begun)) + 1 }),
			Turn:  func() (int, int) { return 0, 1 }, Leaving: func() bool { return false }, Node: func() uint64 { return 1 },
			Ask: ask, Tell: func(context.Context, string, uint64) error { return nil }, Reason: func(error) string { return "no home" },
		}, func() []history.Record {
			records, err := history.Read(file)
			if err = errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			return records
		}
}

// While a counter fails, a process tries as often as its load and one line of retries, however
// many requests wait. When the counter answers again, all of them have their answers within a
// moment, and not all at the same instant.
func TestRetriesOfACounterAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every, down, end = 10 * time.Millisecond, 4 * time.Second, 5 * time.Second
		begun := time.Now()
		var first, after, instants atomic.Int64
		l, records := callersOf(t, every, InFlightMax, func(context.Context, string) (uint64, error) {
			if time.Since(begun) < down {
				first.Add(1)
				return 0, errors.New("no home")
			}
			if at := int64(time.Since(begun)); instants.Swap(at) != at {
				after.Add(1)
			}
			return 1, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), end)
		defer cancel()
		l.Run(ctx)
		due := int64(down / every)
		// 5 ms, 10 ms and so on, then one in 160 ms, of which half may be cut off.
		most := due + 10 + int64(2*down/retryAfterMax)
		if n := first.Load(); n < due-1 || n > most {
			t.Errorf("%d attempts while %d requests were due, want at most %d", n, due, most)
		}
		if n := after.Load(); n < due/2 {
			t.Errorf("the attempts after the failure are at %d instants, of %d requests", n, due)
		}
		answered, latest := int64(0), time.Duration(0)
		for _, r := range records() {
			if r.Op == history.Answered && time.Duration(r.Start) < down {
				answered, latest = answered+1, max(latest, time.Duration(r.End)-down)
			}
		}
		if answered < due-1 || latest > time.Second {
			t.Errorf("%d of %d requests have their answer, the last %v after the counter was back", answered, due, latest)
		}
	})
}

// Requests that are due beyond the limit are not sent, and each is on record with the instant
// at which it was due.
func TestRequestsBeyondTheLimitAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every, end, limit = 10 * time.Millisecond, time.Second, 7
		l, records := callersOf(t, every, limit, func(ctx context.Context, _ string) (uint64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), end)
		defer cancel()
		l.Run(ctx)
		var asked, notSent int
		last := clock.Instant(0)
		for _, r := range records() {
			switch r.Op {
			case history.Asked:
				asked++
			case history.NotSent:
				if notSent++; last != 0 && r.Start.Sub(last) != every {
					t.Errorf("a request was due %v after the one before", r.Start.Sub(last))
				}
				last = r.Start
			}
		}
		due := int(end / every)
		if asked != limit || asked+notSent < due-1 || asked+notSent > due {
			t.Errorf("of %d requests %d were sent and %d were not, with a limit of %d", due, asked, notSent, limit)
		}
		if got := l.Totals(); got.NotSent != uint64(notSent) || got.InFlightMost != limit {
			t.Errorf("%+v", got)
		}
	})
}
