package peerage

import (
	"testing"
	"time"
)

// The pause before a removed node joins again doubles while incarnations die young.
func TestRejoinPauses(t *testing.T) {
	const base = 200 * time.Millisecond
	r := rejoin{base: base}
	for i, c := range []struct {
		lived time.Duration
		want  time.Duration // in units of base
	}{
		{time.Hour, 1}, {time.Second, 2}, {time.Second, 4}, {0, 8}, {0, 16}, {0, 30}, {6 * time.Second, 30},
		{6*time.Second + 1, 1}, {0, 2},
	} {
		if got := r.next(c.lived); got != c.want*base {
			t.Errorf("pause %d, after a life of %v: %v, want %v", i, c.lived, got, c.want*base)
		}
	}
}
