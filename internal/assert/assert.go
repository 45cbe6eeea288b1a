// Package assert states invariants where the cores decide. A build with the tag invariants,
// or with the race detector, checks them and panics with the values if one is broken. In any
// other build Enabled is a false constant, and the compiler removes the checks:
//
//	if assert.Enabled && !old.Less(token) {
//		assert.Broken("S7", "token %v after %v", token, old)
//	}
//
// The ids are those of GUARANTEES.md and docs/TESTING.md, which lists all assertions.
package assert

import "fmt"

// Violation is what Broken panics with.
type Violation struct {
	// ID is the invariant that does not hold.
	ID string
	// Text has the values.
	Text string
}

// Error returns the invariant and the values.
func (v Violation) Error() string { return "assert: " + v.ID + " is broken: " + v.Text }

// Broken panics, since the invariant of that id does not hold.
func Broken(id, format string, args ...any) {
	panic(Violation{id, fmt.Sprintf(format, args...)})
}
