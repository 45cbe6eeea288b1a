package load

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

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
					Clock: clock.Func(func() clock.Instant { return now }),
				}
				wait := l.untilTurn(i)
				if wait <= 0 || wait > members*every {
					t.Errorf("at %d member %d waits %v", now, place, wait)
				}
				next[(time.Duration(now)+wait)%(every/counters)]++
				l.Clock = clock.Func(func() clock.Instant { return now.Add(wait) })
				if again := l.untilTurn(i); again != members*every {
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
