package harness

import (
	"bufio"
	"context"
	"io"
)

// UntilClosed ends the context when r does, and hands over each line of it.
func UntilClosed(ctx context.Context, r io.Reader, line func(string)) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		// The input ends at its end or at an error.
		for lines := bufio.NewScanner(r); lines.Scan(); {
			line(lines.Text())
		}
	}()
	return ctx
}

// WallOffset begins the line of standard input that sets the wall clock.
const WallOffset = "wall-offset "
