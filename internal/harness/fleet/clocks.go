package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

// SetWall sets the wall clock of the process at a place, and waits until it reports so.
func (f *Fleet) SetWall(ctx context.Context, i int, ahead time.Duration) error {
	f.Ahead[i] = ahead
	if err := f.Now[i].command(fmt.Sprintf("%s%v\n", harness.WallOffset, ahead)); err != nil {
		return err
	}
	return f.SeesWall(ctx, i)
}

// RightWalls sets all wall clocks right.
func (f *Fleet) RightWalls(ctx context.Context) error {
	for i := range f.Ahead {
		if err := f.SetWall(ctx, i, 0); err != nil {
			return err
		}
	}
	return nil
}

// wallSlack is how old a report may be.
const wallSlack = 5 * time.Second

// SeesWall waits until the process at a place reports the wall time that was set.
func (f *Fleet) SeesWall(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, SettlePatience)
	defer cancel()
	for {
		r, _ := f.Now[i].Snapshot()
		want := time.Now().Add(f.Ahead[i])
		if time.UnixMilli(r.WallMillis).Sub(want).Abs() < wallSlack {
			return nil
		}
		if err := harness.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s reports the wall time %v, not %v: %w", f.Now[i].Name, time.UnixMilli(r.WallMillis), want, err)
		}
	}
}
