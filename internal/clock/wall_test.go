package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWallClockCanBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Wall
		before := w.Now()
		if !before.Equal(time.Now()) {
			t.Errorf("%v, not %v", before, time.Now())
		}
		w.Set(-30 * time.Hour)
		if now := w.Now(); now.Sub(before) != -30*time.Hour || !now.Equal(time.Now().Add(w.Ahead())) {
			t.Errorf("%v, %v after %v", now, now.Sub(before), before)
		}
	})
}
