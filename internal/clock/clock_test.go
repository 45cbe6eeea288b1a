package clock

import (
	"testing"
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
