package harness

import (
	"context"
	"time"
)

// Pause waits for d, and fails if ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
