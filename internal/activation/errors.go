package activation

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/internal/failure"
)

var (
	// ErrNotHosted: the shard does not run here, or no longer accepts messages.
	ErrNotHosted = errors.New("sharding: shard is not hosted here")
	// ErrStarted is the successful answer to a Message ForStart.
	ErrStarted = errors.New("activation: instance lives")
	// ErrExpired: the ask's deadline passed before its turn came, or while its handler
	// ran.
	ErrExpired = errors.New("sharding: deadline of the ask has passed")
)

// PanicError is sharding.PanicError, the error of an ask whose handler panicked.
type PanicError struct {
	Value string
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: %s", failure.Panicked, e.Value) }

// Is makes a PanicError match failure.Panicked.
func (e *PanicError) Is(target error) bool { return target == failure.Panicked }

// Said is an error that the application returned from Handle, OnStart, Restore or
// Snapshot. It is the application's own answer even if it wraps an error of this module:
// the error of an ask that a handler made and returned does not describe the outcome of
// the handler's own message.
type Said struct {
	Text string
	err  error
	// late: it is, or wraps, context.DeadlineExceeded.
	late bool
}

func (e *Said) Error() string { return e.Text }

// Unwrap returns the application's error.
func (e *Said) Unwrap() error { return e.err }

// appError wraps an error of the application; nil stays nil. The error's methods are the
// application's code and may panic (a nil pointer in an error does). They are called
// here, where panics are contained, and not again.
func appError(err error) error {
	if err == nil {
		return nil
	}
	return &Said{Text: err.Error(), err: err, late: errors.Is(err, context.DeadlineExceeded)}
}

// wrapsDeadline reports whether the application returned context.DeadlineExceeded.
func wrapsDeadline(err error) bool {
	var s *Said
	return errors.As(err, &s) && s.late
}

// isPanic reports whether err describes a panic in the call itself.
func isPanic(err error) bool {
	_, is := err.(*PanicError)
	return is
}
