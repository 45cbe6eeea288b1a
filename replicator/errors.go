package replicator

import (
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Code groups the errors of requests by their reason. A Code is an error itself, so
// errors.Is(err, replicator.ErrLimit) holds for each *Error with that code, and for each
// error that wraps the code.
type Code uint8

// The codes of errors; the table of the package comment lists how to react to each.
const (
	// ErrOutcomeUnknown means that a request's level was not reached in time. It is not a
	// failure: the change is applied here and may be, or be applied later, at any other
	// replica. Writing the same again is safe.
	ErrOutcomeUnknown Code = iota + 1
	// ErrNoLease means that the node held no lease when a request was given up: it may have
	// been removed without notice. Answers of replicas do not count then. An *Error with
	// this code matches ErrOutcomeUnknown too.
	ErrNoLease
	// ErrTooFewMembers means that the level needs more voting members than the view has: it
	// can never be reached, and nothing was changed.
	ErrTooFewMembers
	// ErrFenced means that the writer has been replaced: some replica has a higher term.
	// Never retry with the same term. Some replicas may have applied the change, but its
	// level was not reached.
	ErrFenced
	// ErrLimit means that a request would exceed a limit. Nothing was changed.
	ErrLimit
	// ErrKind means that a key holds a value of another data type than the op's.
	ErrKind
	// ErrPlan wraps the error that the function of an update returned. Nothing was changed.
	ErrPlan
	// ErrStamp means that the newest stamp of an entry leaves no room for a newer one: it is
	// more than a minute ahead of this node's clock while another member has a later one, or
	// ahead of all clocks for the eighth time, or at the end of its range where stamps are no
	// times. Nothing was changed. Correct the clocks, or delete the key: its next generation
	// begins with new stamps.
	ErrStamp
	// ErrAhead means that a stamp is more than a minute ahead of a node's clock, and was not
	// applied there. If that is another node, the error matches ErrOutcomeUnknown too: the
	// change is applied here, and at the members whose clocks have admitted it.
	ErrAhead
	// ErrStale means that a write under a stamp of its caller lost to a newer stamp.
	ErrStale
	// ErrContended means that the keys of an update changed during each of its attempts.
	// Nothing was changed. Trying again later is safe.
	ErrContended
	// ErrDurable is the code of every error about the file of durable keys. An *Error with
	// this code means that a write was rejected because the disk of its node fails. Nothing
	// was changed.
	ErrDurable
	// ErrMixed means that an update was rejected because it changes both durable keys and
	// keys in memory. Nothing was changed. An *Error with this code matches ErrDurable too.
	ErrMixed
	// ErrClosed means that the replicator has been closed. A write may or may not have been
	// applied.
	ErrClosed
)

// codeTexts are the texts of the codes.
var codeTexts = [...]string{
	ErrOutcomeUnknown: "outcome unknown", ErrNoLease: "this node holds no lease",
	ErrTooFewMembers: "too few members for this level", ErrFenced: "fenced", ErrLimit: "limit reached",
	ErrKind: "key holds a value of another kind", ErrPlan: "update refused by its own function",
	ErrStamp: "no stamp is newer than the one that stands", ErrAhead: "stamp is too far ahead of the clocks",
	ErrStale: "a newer stamp stands", ErrContended: "contended", ErrDurable: "durable keys",
	ErrMixed: "durable keys and keys in memory in one update", ErrClosed: "closed",
}

// Error implements error.
func (c Code) Error() string {
	if int(c) >= len(codeTexts) || codeTexts[c] == "" {
		return "replicator: unknown code"
	}
	return "replicator: " + codeTexts[c]
}

// Error is an error of a request with its particulars; its text has all of them. Errors
// without particulars wrap a Code alone: those of ErrPlan, ErrStamp, ErrContended and
// ErrClosed always, those of other codes in some cases, for example when a context ends.
type Error struct {
	Code Code
	// Key is the key that was rejected: of ErrKind, ErrStale, ErrAhead, ErrDurable, and of
	// ErrMixed a durable key of the update. Entry is the entry of a map, of ErrStale. "" is
	// a register. OtherKey is a key in memory, of ErrMixed.
	Key, Entry, OtherKey string
	// Node is the replica that rejected the write: of ErrStale, ErrAhead and ErrDurable.
	Node gossip.NodeID
	// Level is the level of the request: of ErrOutcomeUnknown, ErrNoLease and
	// ErrTooFewMembers.
	Level Level
	// Need and Got count replicas, including this one, of ErrOutcomeUnknown and ErrNoLease.
	// Got may reach Need with ErrNoLease, or while a former view's quorum is missing.
	// Missing then names the members of that quorum. Of ErrTooFewMembers, they count voting
	// members. Of ErrLimit, Got is the amount that the limit was compared with.
	Need, Got int
	// Missing are the voting members that have not answered, most senior first: of
	// ErrOutcomeUnknown and ErrNoLease.
	Missing []gossip.NodeID
	// Unchanged means that nothing was written, here or elsewhere: of ErrOutcomeUnknown,
	// ErrNoLease and ErrAhead, after which a change may otherwise stand.
	Unchanged bool
	// Fence is the fence of the request, Higher the term that is above its own: of
	// ErrFenced.
	Fence  Fence
	Higher uint64
	// Limit is the name of the limit, Max its value: of ErrLimit. "Dots" means that this
	// node has no sequence number left for a change of the key, until it restarts.
	Limit string
	Max   int
	// HaveKind is the kind of the value, WantKind that of the op: of ErrKind.
	HaveKind, WantKind crdt.Kind
	// Stamp is the rejected stamp, of ErrAhead. Of ErrStale, it is the stamp that stands at
	// Node. It equals the stamp of the write if that was used for another value before.
	Stamp crdt.Stamp
	// Wall is the clock at Node in milliseconds of Unix time, of ErrAhead.
	Wall uint64
	// Cause is the newest error of the disk, of ErrDurable.
	Cause error
}

// tickBits is what a tick of crdt.HLC has beside its milliseconds.
const tickBits = 16

// Error implements error.
func (e *Error) Error() string {
	switch e.Code {
	case ErrOutcomeUnknown, ErrNoLease:
		lease := ""
		if e.Code == ErrNoLease {
			lease = " this node holds no lease;"
		}
		return fmt.Sprintf("replicator: %s:%s %d of %d replicas answered in time, missing %v: %s", e.Level, lease, e.Got, e.Need, e.Missing, e.showOutcome())
	case ErrTooFewMembers:
		return fmt.Sprintf("replicator: %s needs %d voting members, the view has %d", e.Level, e.Need, e.Got)
	case ErrFenced:
		return fmt.Sprintf("replicator: fenced: group %q is at term %d, above %d", e.Fence.Group, e.Higher, e.Fence.Term)
	case ErrLimit:
		return fmt.Sprintf("replicator: %s limit %d reached (%d)", e.Limit, e.Max, e.Got)
	case ErrKind:
		return fmt.Sprintf("replicator: key %q holds a value of kind %v, not %v", e.Key, e.HaveKind, e.WantKind)
	case ErrStale:
		return fmt.Sprintf("%v: key %q, entry %q: at node %v, time %d of writer %v, number %d", ErrStale, e.Key, e.Entry, e.Node, e.Stamp.Time, gossip.NodeID(e.Stamp.Node), e.Stamp.Seq)
	case ErrAhead:
		return fmt.Sprintf("%v: key %q: stamp of %v, node %v has %v: %s", ErrAhead, e.Key, clock.ShowMillis(e.Stamp.Time>>tickBits), e.Node, clock.ShowMillis(e.Wall), e.showOutcome())
	case ErrMixed:
		return fmt.Sprintf("%v: an update of key %q, which is durable, and of %q, which is not: make two of it; nothing was changed", ErrDurable, e.Key, e.OtherKey)
	case ErrDurable:
		return fmt.Sprintf("%v: key %q cannot be stored at node %v, nothing was changed: %v", ErrDurable, e.Key, e.Node, e.Cause)
	}
	return e.Code.Error()
}

// showOutcome returns the end of the text of an error after which a change may stand.
func (e *Error) showOutcome() string {
	if e.Unchanged {
		return "nothing was changed"
	}
	return "outcome unknown"
}

// Unwrap returns the Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the Code. ErrNoLease, and ErrAhead of another node, are
// ErrOutcomeUnknown too; ErrMixed is ErrDurable too.
func (e *Error) Is(target error) bool {
	switch target {
	case e.Code:
		return true
	case ErrOutcomeUnknown:
		return e.Code == ErrNoLease || e.Code == ErrAhead && !e.Unchanged
	case ErrDurable:
		return e.Code == ErrMixed
	}
	return false
}

// Retryable reports whether the same request may succeed if it is repeated.
func (e *Error) Retryable() bool { return Retryable(e) }

// OutcomeUnknown reports whether the change may stand, although the request failed.
func (e *Error) OutcomeUnknown() bool { return OutcomeUnknown(e) }

// Retryable reports whether the same request may succeed if it is repeated: after
// ErrOutcomeUnknown, which includes ErrNoLease, and after ErrContended. It is false if the
// reason must be removed first: wrong clocks, a failing disk, a limit, too few members.
func Retryable(err error) bool {
	return (errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrContended)) &&
		!errors.Is(err, ErrAhead) && !errors.Is(err, ErrDurable)
}

// OutcomeUnknown reports whether the change may stand on any replica, although the request
// failed. It is false for an ErrOutcomeUnknown with Unchanged. It is false too for
// ErrFenced, ErrStale and ErrClosed, whose comments state what may stand.
func OutcomeUnknown(err error) bool {
	if e := (*Error)(nil); errors.As(err, &e) && e.Unchanged {
		return false
	}
	return errors.Is(err, ErrOutcomeUnknown)
}
