package chaos

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheFirstFaultWaitsForTheLoad checks that the warm-up lasts until the load stands, that a load that
// never stands ends it too, and that it ends with its context.
func TestTheFirstFaultWaitsForTheLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		// The machine answers nothing between from and to, then all that was due.
		from, to, want time.Duration
	}{
		"it stands":                    {time.Hour, time.Hour, 0},
		"the machine was busy":         {900 * time.Millisecond, 1200 * time.Millisecond, 200 * time.Millisecond},
		"the machine is busy for long": {0, time.Hour, loadPatience + loadPoll},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				answered := func() uint64 {
					at := time.Since(began)
					if at > tc.from && at < tc.to {
						at = tc.from
					}
					return uint64(1000 * at.Seconds())
				}
				<-time.After(WarmUp)
				if err := awaitLoad(t.Context(), 1000, began, answered); err != nil || time.Since(began) != WarmUp+tc.want {
					t.Errorf("after %v: %v; want %v more than the warm-up", time.Since(began), err, tc.want)
				}
			})
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitLoad(ended, 1000, time.Now().Add(-time.Second), func() uint64 { return 0 }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
