package route

import (
	"fmt"

	"github.com/peerage-go/peerage/internal/core/flow"
)

// Check returns an error if an invariant does not hold. Tests call it when Next has returned
// false.
func (r *Route[M]) Check() error {
	bytes := 0
	for i := range r.buf {
		bytes += r.buf[i].Bytes
	}
	waits := r.held.areWaiting() || len(r.held.gates) > 0
	switch {
	case r.due.actions != 0:
		return fmt.Errorf("route: actions %b are due", r.due.actions)
	case r.suspended && !r.open:
		return fmt.Errorf("route: suspended, but not open")
	case bytes != r.bytes:
		return fmt.Errorf("route: buffer holds %d bytes, counted are %d", bytes, r.bytes)
	case waits && !r.reachable():
		return fmt.Errorf("route: callers wait on a route that is %s", r.State())
	case r.local && len(r.held.gates) > 0:
		return fmt.Errorf("route: %d gates, but the home is this node", len(r.held.gates))
	case len(r.back) > 0 && !r.settle.waiting():
		return fmt.Errorf("route: %d refused messages wait for no marker", len(r.back))
	case r.home != 0 && !r.open && len(r.buf) > 0 && !r.asked && !r.settle.waiting():
		return fmt.Errorf("route: %d messages wait, and no home was asked for", len(r.buf))
	}
	return checkCallers(r)
}

// checkCallers fails if a caller waits whose message may leave.
func checkCallers[M any](r *Route[M]) error {
	for class := range r.held.queues {
		first := r.held.queues[class].first
		if first != nil && r.free() && (r.local || r.window.MayLeave(flow.Class(class))) {
			return fmt.Errorf("route: a caller of class %d waits, though its message may leave", class)
		}
	}
	if r.free() && r.held.areWaiting() && !r.blocked {
		return fmt.Errorf("route: callers wait, and the home has no report of it")
	}
	return nil
}
