package failure

import (
	"context"
	"errors"
)

// GroupOf returns the group of the first code that err wraps, 0 if it wraps none. The end of a
// context counts as an unknown outcome.
func GroupOf(err error) Group {
	if retried := (*Retried)(nil); errors.As(err, &retried) {
		return OutcomeIsUnknown
	}
	for c := MailboxFull; c < codes; c++ {
		if errors.Is(err, c) {
			return c.Group()
		}
		if c == NotKept && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
			return OutcomeIsUnknown
		}
	}
	return 0
}

// Retryable reports whether the call that returned err may succeed if it is repeated.
func Retryable(err error) bool {
	if r := (*Retried)(nil); errors.As(err, &r) {
		err = r.Last
	}
	switch GroupOf(err) {
	case Overloaded, Unavailable, OutcomeIsUnknown:
		return true
	}
	return false
}

// OutcomeUnknown reports whether the handler may have run, or may still run, although the call
// returned err.
func OutcomeUnknown(err error) bool { return GroupOf(err) == OutcomeIsUnknown }

// Because returns the error of a call that met an obstacle: for example failure.NotReady,
// and then the end of its context.
func Because(obstacle, cause error) error { return &reason{obstacle, cause} }

type reason struct{ obstacle, cause error }

func (e *reason) Error() string   { return e.obstacle.Error() + ": " + e.cause.Error() }
func (e *reason) Unwrap() []error { return []error{e.obstacle, e.cause} }

// Retried is the error of a repeated call whose last attempt did not run the handler, while an
// earlier one may have.
type Retried struct{ Last, Unknown error }

func (e *Retried) Error() string {
	return e.Last.Error() + "; an earlier attempt: " + e.Unknown.Error()
}

// Unwrap returns both errors.
func (e *Retried) Unwrap() []error { return []error{e.Last, e.Unknown} }
