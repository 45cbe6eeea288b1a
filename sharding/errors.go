package sharding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
)

// Errors of Tell and Ask; see the table of the package comment.
var (
	ErrUnknownType  error = failure.UnknownType
	ErrBadID        error = failure.BadID
	ErrTooLarge     error = failure.TooLarge
	ErrCodec        error = failure.Codec
	ErrSettings     error = failure.Settings
	ErrMailboxFull  error = failure.MailboxFull
	ErrBufferFull   error = failure.BufferFull
	ErrNotReady     error = failure.NotReady
	ErrNoHome       error = failure.NoHome
	ErrPaused       error = failure.Paused
	ErrNodeStopping error = failure.NodeStopping
	ErrMoved        error = failure.Moved
	ErrNodeLost     error = failure.NodeLost
	ErrAbandoned    error = failure.Abandoned
	ErrPanicked     error = failure.Panicked
	ErrRestore      error = failure.Restore
	ErrTimer        error = failure.Timer
	// ErrSelfAsk: a handler asked its own entity, or an entity that waits for its reply.
	ErrSelfAsk error = failure.SelfAsk
	// ErrNoDeadline: Ask with Retry needs a context with a deadline, or Within.
	ErrNoDeadline error = failure.NoDeadline
	// ErrContextEnded: a handler's Context was used after the handler had returned.
	ErrContextEnded error = failure.ContextEnded
	// ErrHeaders: the headers of a message are beyond a bound: see WithHeaders.
	ErrHeaders   error = failure.Headers
	ErrStash     error = failure.Stash
	ErrStashFull error = failure.StashFull
)

// Code groups the errors of this package by what the caller can do about them. A Code is an
// error itself, so errors.Is(err, sharding.ErrOverloaded) holds for each *Error of that
// group.
type Code uint8

// The groups of errors; the table of the package comment lists the errors of each.
const (
	// ErrInvalid: the call can never succeed. Fix the caller.
	ErrInvalid = Code(failure.Invalid)
	// ErrIncompatible: the code or the settings of two nodes differ. Compare the releases.
	ErrIncompatible = Code(failure.Incompatible)
	// ErrOverloaded: no room, and nothing has run. Slow down, then repeat the call.
	ErrOverloaded = Code(failure.Overloaded)
	// ErrUnavailable: the receiver cannot be reached now, and nothing has run. Repeat the
	// call.
	ErrUnavailable = Code(failure.Unavailable)
	// ErrWrongNode: this node cannot do it, for example because it is stopping. Call from
	// another node.
	ErrWrongNode = Code(failure.WrongNode)
	// ErrOutcomeUnknown: the handler may have run, or may still run. Repeat the call if the
	// handler may run twice.
	ErrOutcomeUnknown = Code(failure.OutcomeIsUnknown)
	// ErrEntityState: Restore rejected the entity's state, or its new state cannot be
	// replicated, and the change was undone. Fix Restore or Snapshot.
	ErrEntityState = Code(failure.EntityState)
	// ErrHandler: the handler has run. It failed, or its reply was lost. errors.As finds its
	// *HandlerError.
	ErrHandler = Code(failure.Handler)
)

// codeTexts are the texts of the codes.
var codeTexts = [...]string{
	ErrInvalid: "invalid call", ErrIncompatible: "nodes are incompatible", ErrOverloaded: "overloaded",
	ErrUnavailable: "unavailable", ErrWrongNode: "wrong node", ErrOutcomeUnknown: "outcome unknown",
	ErrEntityState: "state of the entity cannot be used", ErrHandler: "handler failed",
}

// Error implements error.
func (c Code) Error() string {
	if int(c) >= len(codeTexts) || codeTexts[c] == "" {
		return "sharding: unknown code"
	}
	return "sharding: " + codeTexts[c]
}

// Error is the error of a call: of Tell, Ask and Start, of a Reliable, of the queries of a
// Registry, and of the methods of a Context. Its text is that of the error it wraps, so
// errors.Is also finds the details: errors.Is(err, ErrMailboxFull).
type Error struct {
	// Code is the group of the error.
	Code  Code
	cause error
}

func (e *Error) Error() string { return e.cause.Error() }

// Unwrap returns the detail.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the Code.
func (e *Error) Is(target error) bool { return target == e.Code }

// Retryable reports whether the same call may succeed if it is repeated.
func (e *Error) Retryable() bool { return Retryable(e.cause) }

// OutcomeUnknown reports whether the handler may have run, or may still run.
func (e *Error) OutcomeUnknown() bool { return OutcomeUnknown(e.cause) }

// inGroup returns err as an *Error of its group, or err itself if it has none. Here the errors
// of handlers become a *HandlerError or a *PanicError.
func inGroup(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *activation.Said:
		err = &HandlerError{Text: e.Text}
	case *activation.PanicError:
		err = (*PanicError)(e)
	}
	if code := groupOf(err); code != 0 {
		return &Error{Code: code, cause: err}
	}
	return err
}

// forUsers returns an observer that receives the errors of asks as their callers do, nil for
// nil.
func forUsers(o figures.ShardingObserver) figures.ShardingObserver {
	if o == nil {
		return nil
	}
	return groupingObserver{o}
}

type groupingObserver struct{ figures.ShardingObserver }

// AskDone implements figures.ShardingObserver.
func (o groupingObserver) AskDone(typ string, r figures.Route, took time.Duration, err error) {
	o.ShardingObserver.AskDone(typ, r, took, inGroup(err))
}

// setGroup replaces *err by inGroup of it.
func setGroup(err *error) { *err = inGroup(*err) }

// groupOf returns the group of an error, 0 if it has none.
func groupOf(err error) Code {
	if group := failure.GroupOf(err); group != 0 {
		return Code(group)
	}
	if said := (*HandlerError)(nil); errors.As(err, &said) {
		return ErrHandler
	}
	return 0
}

// HandlerError is an error that a handler or OnStart returned, whatever it wrapped. Only
// its text is sent, at most 1 KiB of it. It is the same for askers on all nodes, including
// the handler's own.
type HandlerError struct{ Text string }

func (e *HandlerError) Error() string { return e.Text }

// PanicError is the error of an ask whose handler panicked. It matches ErrPanicked. The
// stack is in the log of the handler's node.
type PanicError struct{ Value string }

func (e *PanicError) Error() string { return (*activation.PanicError)(e).Error() }

// Is makes a PanicError match ErrPanicked.
func (e *PanicError) Is(target error) bool { return target == ErrPanicked }

// RunningHandler is a call of an entity's code that has not returned.
type RunningHandler struct {
	Type  string
	ID    string
	Shard ShardID
	// For is how long the call has been running, at least.
	For time.Duration
	// Stack is the goroutine's stack, "" if it was not found.
	Stack string
}

func runningHandlers(in []activation.Running) (out []RunningHandler) {
	for _, r := range in {
		out = append(out, RunningHandler(r))
	}
	return out
}

// UnfinishedError lists the handlers that still ran when a node was closed and its time was
// up: the error of Node.Shutdown and Node.Close. The shards of such a node are not handed
// over; they move when its lease has expired.
type UnfinishedError struct {
	// Handlers are the calls that had not returned, longest first, with the stacks of
	// some of them.
	Handlers []RunningHandler
	// Cause is the end of the context that bounded the wait.
	Cause error
}

// unfinishedNamed bounds the handlers that the text of an UnfinishedError names.
const unfinishedNamed = 8

func (e *UnfinishedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sharding: %d handlers still run", len(e.Handlers))
	for i, h := range e.Handlers {
		if i == unfinishedNamed {
			b.WriteString(", ...")
			break
		}
		fmt.Fprintf(&b, "%s %s %q for %v", [2]string{":", ","}[min(i, 1)], h.Type, h.ID, h.For.Round(time.Millisecond))
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// with returns e, which may be nil, with the handlers of another type.
func (e *UnfinishedError) with(more *activation.UnfinishedError) *UnfinishedError {
	all := runningHandlers(more.Handlers)
	if e != nil {
		all = append(all, e.Handlers...)
	}
	slices.SortStableFunc(all, func(a, b RunningHandler) int { return cmp.Compare(b.For, a.For) })
	return &UnfinishedError{Handlers: all, Cause: more.Cause}
}

// Unwrap returns the Cause.
func (e *UnfinishedError) Unwrap() error { return e.Cause }

// Retryable reports whether the same call may succeed if it is repeated. OutcomeUnknown
// reports whether that may run the handler twice.
func Retryable(err error) bool { return failure.Retryable(err) }

// OutcomeUnknown reports whether the handler may have run, or may still run, although the
// call failed. For an Ask with Retry, it covers all attempts. It is false if the outcome is
// certain: after *HandlerError and ErrPanicked the handler has run, as it has after an
// ErrTooLarge or ErrCodec about a response.
func OutcomeUnknown(err error) bool { return failure.OutcomeUnknown(err) }

// TypeError lists the invalid settings of a Type.
type TypeError struct {
	Type  string
	Wrong []string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("sharding: type %q: %s", e.Type, strings.Join(e.Wrong, "; "))
}
