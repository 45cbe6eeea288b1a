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

// A counter that answers late delays no further request, and each latency counts from the
// instant at which its request was due. Closed callers would have asked once.
func TestTheLoadIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "load.history")
		w, err := history.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		const every, stuck = 10 * time.Millisecond, time.Second
		begun := time.Now()
		var asked atomic.Uint64
		now := clock.Func(func() clock.Instant { return clock.Instant(time.Since(begun)) + 1 })
		l := Callers{
			Counters: 1, Every: every, InFlight: InFlightMax, Clock: now, History: w,
			Turn: func() (int, int) { return 0, 1 }, Leaving: func() bool { return false }, Node: func() uint64 { return 1 },
			Ask: func(context.Context, string) (uint64, error) {
				n := asked.Add(1)
				<-time.After(stuck - time.Since(begun))
				return n, nil
			},
			Tell: func(context.Context, string, uint64) error { return nil }, Reason: func(error) string { return "" },
		}
		ctx, cancel := context.WithTimeout(t.Context(), stuck)
		defer cancel()
		l.Run(ctx)
		records, err := history.Read(file)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		longest, answers := time.Duration(0), 0
		for _, r := range records {
			if r.Op == history.Answered {
				answers, longest = answers+1, max(longest, r.End.Sub(r.Start))
			}
		}
		if want := int(stuck / every); answers < want-1 || answers > want || longest < stuck-2*every {
			t.Errorf("%d answers of %d due, the longest after %v", answers, want, longest)
		}
	})
}

// Members take turns at a counter, one in each interval, in whatever order they start. The
// turns of different counters come at different times.
func TestMembersTakeTurnsAtEachCounter(t *testing.T) {
	const every, members, counters = 20 * time.Millisecond, 5, 4
	for _, now := range []clock.Instant{1, 7e6, 123456789012345} {
		next := map[time.Duration]int{}
		for place := range members {
			for i := range counters {
				l := Callers{
					Counters: counters, Every: every, Turn: func() (int, int) { return place, members },
				}
				wait := l.turnAfter(i, now).Sub(now)
				if wait <= 0 || wait > members*every {
					t.Errorf("at %d member %d waits %v", now, place, wait)
				}
				next[(time.Duration(now)+wait)%(every/counters)]++
				if again := l.turnAfter(i, now.Add(wait)).Sub(now.Add(wait)); again != members*every {
					t.Errorf("member %d has its next turn after %v", place, again)
				}
				next[time.Duration(now)+wait]++
			}
		}
		if n := next[0]; n != members*counters {
			t.Errorf("at %d, %d of %d turns lie where they should", now, n, members*counters)
		}
		if len(next) != 1+members*counters {
			t.Errorf("at %d, %d turns, want one for each member and counter", now, len(next)-1)
		}
	}
}
