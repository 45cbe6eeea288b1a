package route

import (
	"fmt"

	"github.com/peerage-go/peerage/internal/core/flow"
)

// Check returns an error if an invariant does not hold. Tests call it when Next has returned
// false.
func (r *Route[M]) Check() error {
	sum, back := 0, 0
	if b := r.backlog; b != nil {
		back = len(b.back)
		for i := range b.buf {
			sum += b.buf[i].Bytes
		}
	}
	messages, bytes, gates := r.Held()
	waits := r.backlog.callersWait() || gates > 0
	switch {
	case r.Due():
		return fmt.Errorf("route: actions %b are due", r.backlog.due.actions)
	case r.suspended && !r.open:
		return fmt.Errorf("route: suspended, but not open")
	case sum != bytes:
		return fmt.Errorf("route: buffer holds %d bytes, counted are %d", sum, bytes)
	case waits && !r.reachable():
		return fmt.Errorf("route: callers wait on a route that is %s", r.State())
	case r.local && gates > 0:
		return fmt.Errorf("route: %d gates, but the home is this node", gates)
	case back > 0 && !r.backlog.isSettling():
		return fmt.Errorf("route: %d refused messages wait for no marker", back)
	case r.home != 0 && !r.open && messages > 0 && !r.asked && !r.backlog.isSettling():
		return fmt.Errorf("route: %d messages wait, and no home was asked for", messages)
	}
	if b := r.backlog; b != nil && b.isEmpty() && !r.blocked {
		return fmt.Errorf("route: nothing waits, and there is a backlog")
	}
	return checkCallers(r)
}

// checkCallers fails if a caller waits whose message may leave.
func checkCallers[M any](r *Route[M]) error {
	for class := range flow.Control + 1 {
		first := r.backlog.firstCaller(class)
		if first != nil && r.free() && (r.local || r.window.MayLeave(class)) {
			return fmt.Errorf("route: a caller of class %d waits, though its message may leave", class)
		}
	}
	if r.free() && r.backlog.callersWait() && !r.blocked {
		return fmt.Errorf("route: callers wait, and the home has no report of it")
	}
	return nil
}
