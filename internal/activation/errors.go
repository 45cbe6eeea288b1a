package activation

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrMailboxFull: the entity has as many messages waiting as it may have.
	ErrMailboxFull = errors.New("sharding: mailbox full")
	// ErrNotHosted: the shard does not run here, or takes nothing more.
	ErrNotHosted = errors.New("sharding: shard is not hosted here")
	// ErrAbandoned: the instance was dropped without running user code, since the
	// node lost its right to run it, or it did not stop in time.
	ErrAbandoned = errors.New("sharding: instance was abandoned, outcome unknown")
	// ErrPanicked: the handler, or the factory, panicked.
	ErrPanicked = errors.New("sharding: handler panicked")
	// ErrRestore: the state that came with a move could not be restored.
	ErrRestore = errors.New("sharding: state was not restored")
	// ErrStarted is the good answer to a Message ForStart.
	ErrStarted = errors.New("activation: instance lives")
	// ErrExpired: the ask's deadline had passed before its turn came, or the handler gave
	// up when it passed.
	ErrExpired = errors.New("sharding: deadline of the ask has passed")
)

// PanicError is sharding.PanicError, the error of an ask whose handler panicked.
type PanicError struct {
	Value string
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: %s", ErrPanicked, e.Value) }

// Is makes a PanicError match ErrPanicked.
func (e *PanicError) Is(target error) bool { return target == ErrPanicked }

// Said is an error that the application returned: from Handle, OnStart, Restore or
// Snapshot. It is an answer of its own, whatever it wraps: the error of an ask that a
// handler made and hands on says nothing of the message in its hands.
type Said struct {
	Text string
	err  error
	// late: it is, or wraps, context.DeadlineExceeded.
	late bool
}

func (e *Said) Error() string { return e.Text }

// Unwrap returns what the application returned.
func (e *Said) Unwrap() error { return e.err }

// said takes an error of the application, nil too. Its methods are the application's
// code as much as the handler is (a nil pointer in an error is one that panics): they
// are called here, where panics are contained, and not again.
func said(err error) error {
	if err == nil {
		return nil
	}
	return &Said{Text: err.Error(), err: err, late: errors.Is(err, context.DeadlineExceeded)}
}

// late reports whether the application handed on that its time was up.
func late(err error) bool {
	var s *Said
	return errors.As(err, &s) && s.late
}

// panicked reports whether err is the news of a panic in the call itself.
func panicked(err error) bool {
	_, is := err.(*PanicError)
	return is
}

// UnfinishedError lists the calls that had not returned when Close's context ended.
type UnfinishedError struct {
	// Handlers are in order of For, longest first, with the stacks of some of them.
	Handlers []Running
	Cause    error
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("activation: %d handlers still run: %v", len(e.Handlers), e.Cause)
}

// Unwrap returns the Cause.
func (e *UnfinishedError) Unwrap() error { return e.Cause }
