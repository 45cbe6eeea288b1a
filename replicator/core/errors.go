package core

import (
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
)

// ErrOutcomeUnknown means that a request's level was not fulfilled in time. It is
// not a failure: the change stands here and may stand, or come to stand, at any
// other replica. Writing the same again is safe.
var ErrOutcomeUnknown = errors.New("replicator: outcome unknown")

// ErrNoLease means that the node held no lease when a request was given up: it may have
// been removed without knowing it. What replicas answered does not count then.
var ErrNoLease = errors.New("replicator: this node holds no lease")

// ErrTooFewMembers means that the level asks for more voting members than the
// view has: it can never be fulfilled, and nothing was changed.
var ErrTooFewMembers = errors.New("replicator: too few members for this level")

// ErrLimit is wrapped by every LimitError.
var ErrLimit = errors.New("replicator: limit reached")

// ErrPlan is wrapped around what the planning of an op returned. Nothing was
// changed.
var ErrPlan = errors.New("replicator: update refused by its own function")

// QuorumError says who answered when a level was not fulfilled in time. It wraps
// ErrOutcomeUnknown, and ErrNoLease with NoLease.
type QuorumError struct {
	Level Level
	// Need and Got count replicas, this one included. Got may reach Need while a
	// former view's quorum is missing; Missing then names its members. It may also
	// with NoLease.
	Need, Got int
	// NoLease: this node held no lease at the end.
	NoLease bool
	// Unchanged: it was given up before anything was written, here or elsewhere.
	Unchanged bool
	// Missing are the voting members that have not answered, most senior first.
	Missing []view.NodeID
}

func (e *QuorumError) Error() string {
	end := "outcome unknown"
	if e.Unchanged {
		end = "nothing was changed"
	}
	if e.NoLease {
		return fmt.Sprintf("replicator: %s: this node holds no lease; %d of %d replicas answered in time, missing %v: %s", e.Level, e.Got, e.Need, e.Missing, end)
	}
	return fmt.Sprintf("replicator: %s: %d of %d replicas answered in time, missing %v: %s", e.Level, e.Got, e.Need, e.Missing, end)
}

// Unwrap returns ErrOutcomeUnknown, and ErrNoLease with NoLease.
func (e *QuorumError) Unwrap() []error {
	if e.NoLease {
		return []error{ErrOutcomeUnknown, ErrNoLease}
	}
	return []error{ErrOutcomeUnknown}
}

// MembersError carries the numbers of ErrTooFewMembers.
type MembersError struct {
	Level      Level
	Need, Have int
}

func (e *MembersError) Error() string {
	return fmt.Sprintf("replicator: %s needs %d voting members, the view has %d", e.Level, e.Need, e.Have)
}

// Unwrap returns ErrTooFewMembers.
func (e *MembersError) Unwrap() error { return ErrTooFewMembers }

// FencedError means that the writer has been replaced: some replica knows a
// higher term. Never retry with the same term. The change may stand at some
// replicas, but no level was fulfilled.
type FencedError struct {
	Group        string
	Term, Higher uint64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("replicator: fenced: group %q is at term %d, above %d", e.Group, e.Higher, e.Term)
}

// LimitError means that a request would exceed one of Limits. Nothing was
// changed.
type LimitError struct {
	// What is the name of the field of Limits, or "Dots": this node has no sequence number
	// left for a change of the key, until it restarts.
	What       string
	Limit, Had int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("replicator: %s limit %d reached (%d)", e.What, e.Limit, e.Had)
}

// Unwrap returns ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// KindError means that a key holds a value of another data type than the op's.
type KindError struct {
	Key        string
	Have, Want crdt.Kind
}

func (e *KindError) Error() string {
	return fmt.Sprintf("replicator: key %q holds a value of kind %v, not %v", e.Key, e.Have, e.Want)
}
