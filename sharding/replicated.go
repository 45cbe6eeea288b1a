package sharding

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/statecopy"
)

// Replicated makes the states of a type's entities survive the crash of their home. The
// zero Replicated replicates nothing. It must be equal on all nodes. The entities must be
// Snapshotters.
//
// The Snapshot is taken after every message. If it differs from the last one, it is sent to
// the standby members of the shard, and the reply waits for them as Mode requires. A new
// home begins with the newest state that it finds there, and so does every new instance:
// passivation and panics lose nothing either. If a handler returns an error, its change is
// kept like any other; if it panics, its change is undone.
//
// A reply that waits does not delay the entity, which continues with the next message. No
// reply is released before all changes that it may have seen are kept. If a reply is not
// released in time, its caller gets ErrNotKept: the change is in the entity, and is kept
// once the standbys answer, before any later change. If the home dies first, the change may
// be lost. OutcomeUnknown is true for this error.
type Replicated struct {
	// Replicas is the number of nodes that hold each state, including the home; ReplicasAll
	// means every member of the role. While fewer are up, all of them hold it. With Quorum,
	// (R-1)/2 of R nodes may be lost together: 1 of 3, 2 of 5. At least 2. Default: state is
	// not replicated.
	Replicas int
	// Mode selects when a change counts as kept. Default: Quorum.
	Mode StateMode
	// Timeout bounds how long a reply waits if its caller set no earlier deadline. Default:
	// DefaultKeepTimeout.
	Timeout time.Duration
	// StateBytes bounds the state of one entity. A larger change fails with ErrState and is
	// undone. Default: 1 MiB.
	StateBytes int
	// NodeBytes bounds all states of the type on one node, as home and as standby. A change
	// beyond it fails with ErrState and is undone. Default: 1 GiB.
	NodeBytes int
}

// StateMode selects when a change of replicated state counts as kept. The zero StateMode
// means Quorum where state is replicated.
type StateMode uint8

const (
	// Quorum keeps a change once a majority of the nodes that hold the state has it. While
	// a majority of them lives, the change is never lost after its reply.
	Quorum = StateMode(standby.Quorum)
	// Async does not delay the reply. If the home dies, changes that had not reached the
	// standbys are lost; peerage_entity_state_replication_lag_seconds shows how old they
	// may be.
	Async = StateMode(standby.Async)
	// ReplicasAll places a copy on every member of the role.
	ReplicasAll = standby.ReplicasAll
	// DefaultKeepTimeout is the default of Replicated.Timeout.
	DefaultKeepTimeout = 5 * time.Second
)

// ErrState: the new state cannot be replicated (too large, no room, or Snapshot
// failed); the change was undone.
var ErrState error = failure.State

// ErrNotKept: too few nodes acknowledged the state in time.
var ErrNotKept error = failure.NotKept

// on reports whether state is replicated.
func (r *Replicated) on() bool { return r.Mode != 0 || r.Replicas != 0 }

func (r Replicated) withDefaults() Replicated {
	if !r.on() {
		return r
	}
	if r.Mode == 0 {
		r.Mode = Quorum
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultKeepTimeout
	}
	if r.StateBytes == 0 {
		r.StateBytes = 1 << 20
	}
	if r.NodeBytes == 0 {
		r.NodeBytes = 1 << 30
	}
	return r
}

// copySettings returns r, with its defaults, as package statecopy takes it.
func (r Replicated) copySettings() statecopy.Settings {
	r = r.withDefaults()
	return statecopy.Settings{
		Mode: standby.Mode(r.Mode), Replicas: r.Replicas,
		Timeout: r.Timeout, StateBytes: r.StateBytes, NodeBytes: r.NodeBytes,
	}
}

func (r Replicated) checkValues() error {
	if !r.on() {
		if r != (Replicated{}) {
			return fmt.Errorf("State.Replicas must be set, as another of its fields is")
		}
		return nil
	}
	r = r.withDefaults()
	switch {
	case r.Mode != Quorum && r.Mode != Async:
		return fmt.Errorf("State.Mode must be Quorum or Async, is %d", r.Mode)
	case r.Replicas < 2 || r.Replicas > ReplicasAll:
		return fmt.Errorf("State.Replicas must be 2 to %d, is %d", ReplicasAll, r.Replicas)
	case r.Timeout < 0 || r.NodeBytes < 0:
		return fmt.Errorf("State.Timeout and NodeBytes must not be negative")
	case r.StateBytes < 0 || r.StateBytes > standby.StateBytesMax:
		return fmt.Errorf("State.StateBytes must be 1 to %d, is %d", standby.StateBytesMax, r.StateBytes)
	}
	return nil
}
