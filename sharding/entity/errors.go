package entity

import (
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
	ErrStarted = errors.New("entity: instance lives")
	// ErrExpired: the ask's deadline had passed before its turn came, or the handler gave
	// up when it passed.
	ErrExpired = errors.New("sharding: deadline of the ask has passed")
)

// PanicError is what the asker gets when a handler panicked. The stack is logged
// where it happened and does not travel.
type PanicError struct {
	Value string
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: %s", ErrPanicked, e.Value) }

// Is makes a PanicError match ErrPanicked.
func (e *PanicError) Is(target error) bool { return target == ErrPanicked }
