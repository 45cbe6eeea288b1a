package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestInstantSaturatesAtNever(t *testing.T) {
	if got := Never.Add(time.Hour); got != Never {
		t.Errorf("Never.Add(1h) = %d, want Never", got)
	}
	if got := (Never - 5).Add(time.Second); got != Never {
		t.Errorf("(Never-5).Add(1s) = %d, want Never", got)
	}
	if got := Instant(10).Add(-3); got != 7 {
		t.Errorf("10.Add(-3ns) = %d, want 7", got)
	}
}

func TestClocksNeverGoBack(t *testing.T) {
	for name, c := range map[string]Clock{"boot": Boot(), "runtime": Runtime()} {
		last := c.Now()
		if last == 0 {
			t.Errorf("%s: the first instant is zero, which means never set", name)
		}
		for range 1000 {
			now := c.Now()
			if now.Before(last) {
				t.Fatalf("%s went back from %d to %d", name, last, now)
			}
			last = now
		}
	}
}

// In a bubble, a timer that is read immediately after it was armed is not due.
func TestAheadTimerIsNotDueImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Hour, 0, 1, time.Second} {
			began := time.Now()
			timer := time.NewTimer(Ahead(d))
			select {
			case <-timer.C:
				t.Errorf("a timer of %v is due immediately", d)
			default:
			}
			<-timer.C
			if took := time.Since(began); took != max(d, 1) {
				t.Errorf("a timer of %v took %v", d, took)
			}
		}
	})
}
