// Package invariant holds the checkers of SCENARIOS.md: small machines that receive
// facts, one at a time on one common time axis, and return a *Violation for a fact that
// breaks an invariant. The simulator feeds them after every event, tests of the shells
// from their observers, and the tests of processes from recorded histories.
//
// A checker receives facts and no protocol state: it checks the guarantees independently of
// the cores. Checkers are not safe for concurrent use.
package invariant

import (
	"fmt"
	"time"
)

// Violation describes which invariant broke, when and how.
type Violation struct {
	// ID is the invariant's name in SCENARIOS.md: "S1", "S6", ...
	ID     string
	At     time.Duration
	Detail string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s broken at %v: %s", v.ID, v.At, v.Detail)
}

func broken(id string, at time.Duration, format string, args ...any) *Violation {
	return &Violation{ID: id, At: at, Detail: fmt.Sprintf(format, args...)}
}
