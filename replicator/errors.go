package replicator

import (
	"errors"
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Errors of requests; the package text lists how to react.
var (
	// ErrOutcomeUnknown means that a request's level was not reached in time. It is not a
	// failure: the change is applied here and may be, or be applied later, at any other
	// replica. Writing the same again is safe.
	ErrOutcomeUnknown = errors.New("replicator: outcome unknown")
	// ErrNoLease means that the node held no lease when a request was given up: it may have
	// been removed without notice. Answers of replicas do not count then.
	ErrNoLease = errors.New("replicator: this node holds no lease")
	// ErrTooFewMembers means that the level needs more voting members than the view has: it
	// can never be reached, and nothing was changed.
	ErrTooFewMembers = errors.New("replicator: too few members for this level")
	// ErrLimit is wrapped by every LimitError.
	ErrLimit = errors.New("replicator: limit reached")
	// ErrPlan wraps an error of an op's Plan. Nothing was changed.
	ErrPlan = errors.New("replicator: update refused by its own function")
	// ErrStamp means that the newest stamp of an entry leaves no room for a newer one: it is
	// more than a minute ahead of this node's clock while another member has a later one, or
	// ahead of all clocks for the eighth time, or at the end of its range where stamps are no
	// times. Nothing was changed. Correct the clocks, or delete the key: its next generation
	// begins with new stamps.
	ErrStamp = errors.New("replicator: no stamp is newer than the one that stands")
	// ErrAhead is wrapped by every AheadError.
	ErrAhead = errors.New("replicator: stamp is too far ahead of the clocks")
	// ErrStale is wrapped by every StaleError.
	ErrStale = errors.New("replicator: a newer stamp stands")
	// ErrContended means that the keys of an update changed during each of its attempts.
	// Nothing was changed. Trying again later is safe.
	ErrContended = errors.New("replicator: contended")
	// ErrDurable is wrapped by every error about the file of durable keys.
	ErrDurable = errors.New("replicator: durable keys")
	// ErrClosed means that the replicator has been closed. A write may or may not have been
	// applied.
	ErrClosed = errors.New("replicator: closed")
)

// QuorumError lists the replicas that had not answered when a level was not reached in time.
// It wraps ErrOutcomeUnknown, and ErrNoLease with NoLease.
type QuorumError struct {
	Level Level
	// Need and Got count replicas, including this one. Got may reach Need while a former
	// view's quorum is missing, or with NoLease. Missing then names the members of that
	// quorum.
	Need, Got int
	// NoLease: this node held no lease at the end.
	NoLease bool
	// Unchanged: the request was given up before anything was written, here or elsewhere.
	Unchanged bool
	// Missing are the voting members that have not answered, most senior first.
	Missing []gossip.NodeID
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

// FencedError means that the writer has been replaced: some replica has a higher term. Never
// retry with the same term. Some replicas may have applied the change, but its level was not
// reached.
type FencedError struct {
	Group        string
	Term, Higher uint64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("replicator: fenced: group %q is at term %d, above %d", e.Group, e.Higher, e.Term)
}

// LimitError means that a request would exceed a limit. Nothing was changed.
type LimitError struct {
	// The name of the limit. "Dots" means that this node has no sequence number left
	// for a change of the key, until it restarts.
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

// StaleError means that a write under a stamp of its caller lost to a newer stamp.
type StaleError struct {
	Key string
	// Entry is that of a map, "" for a register.
	Entry string
	// Have is the stamp that stands, at Node. It equals the stamp of the write if that was
	// used for another value before.
	Have crdt.Stamp
	Node gossip.NodeID
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: key %q, entry %q: at node %v, time %d of writer %v, number %d", ErrStale, e.Key, e.Entry, e.Node, e.Have.Time, gossip.NodeID(e.Have.Node), e.Have.Seq)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// AheadError means that a stamp is more than a minute ahead of a node's clock, and was not
// applied there. If that is another node, the error wraps ErrOutcomeUnknown too: the change
// is applied here, and at the members whose clocks have admitted it.
type AheadError struct {
	Key string
	// Stamp is the time of the stamp, Wall the clock at Node, both in milliseconds of Unix
	// time. Node is the replica that has rejected the stamp.
	Stamp, Wall uint64
	Node        gossip.NodeID
	// Elsewhere: Node is not the node at which the write was made.
	Elsewhere bool
}

func (e *AheadError) Error() string {
	end := "nothing was changed"
	if e.Elsewhere {
		end = "outcome unknown"
	}
	return fmt.Sprintf("%v: key %q: stamp of %v, node %v has %v: %s", ErrAhead, e.Key, clock.ShowMillis(e.Stamp), e.Node, clock.ShowMillis(e.Wall), end)
}

// Unwrap returns ErrAhead, and ErrOutcomeUnknown with Elsewhere.
func (e *AheadError) Unwrap() []error {
	if e.Elsewhere {
		return []error{ErrAhead, ErrOutcomeUnknown}
	}
	return []error{ErrAhead}
}

// MixedError means that an update was rejected because it changes both durable keys and
// other keys. Nothing was changed.
type MixedError struct {
	// Durable and Memory are a key of each.
	Durable, Memory string
}

func (e *MixedError) Error() string {
	return fmt.Sprintf("%v: an update of key %q, which is durable, and of %q, which is not: make two of it; nothing was changed", ErrDurable, e.Durable, e.Memory)
}

// Unwrap returns ErrDurable.
func (e *MixedError) Unwrap() error { return ErrDurable }

// DiskError means that a write of a durable key was rejected because the disk of its node
// fails. Nothing was changed.
type DiskError struct {
	Node gossip.NodeID
	Key  string
	// Cause is the newest error of the disk.
	Cause error
}

func (e *DiskError) Error() string {
	return fmt.Sprintf("%v: key %q cannot be stored at node %v, nothing was changed: %v", ErrDurable, e.Key, e.Node, e.Cause)
}

// Unwrap returns ErrDurable and the cause.
func (e *DiskError) Unwrap() []error { return []error{ErrDurable, e.Cause} }
