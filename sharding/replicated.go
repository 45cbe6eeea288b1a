package sharding

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/sharding/entity"
)

// Replicated asks that the states of a type's entities survive the crash of their
// home (DESIGN 7.7). The entities must be Snapshotters. After every message the
// Snapshot is taken; when it differs from the last one it goes to the standby
// members of the shard, and the reply waits for them as Mode says. A new home
// begins with the newest state that it finds there, and so does every new instance:
// passivation and panics lose nothing either. The change of a handler that returned
// an error is kept like any other; that of one that panicked is undone.
//
// Replies wait without holding the entity up: it goes on with the next message, and
// no reply is released before the changes that it may have seen are kept. A caller
// whose reply was not released in time gets ErrNotKept: the change is in the
// entity, and is kept as soon as the standbys answer, before anything later is; if
// the home dies first it may be lost. OutcomeUnknown tells.
//
// The zero Replicated is none. It must be equal on all nodes.
type Replicated struct {
	// Replicas is how many nodes hold each state, the home included; ReplicasAll is
	// every member of the role. While fewer are up, all of them do. With Quorum, of R
	// nodes up to (R-1)/2 may be lost at once: 1 of 3, 2 of 5.
	Replicas int
	// Mode is Quorum or Async.
	Mode StateMode
	// Timeout bounds how long a reply waits whose caller gave no earlier deadline; 0
	// means DefaultKeepTimeout.
	Timeout time.Duration
	// StateBytes bounds the state of one entity (1 MiB), NodeBytes all that one node
	// holds for the type, as home and as standby (1 GiB). A change beyond them fails
	// with ErrState and is undone.
	StateBytes, NodeBytes int
}

// StateMode selects when a change of replicated state counts as kept. The zero StateMode
// means Quorum where state is replicated.
type StateMode uint8

const (
	// Quorum: when a majority of the nodes that hold the state has it. A reply that was
	// given is never forgotten while a majority of them lives.
	Quorum = StateMode(standby.Quorum)
	// Async: the reply does not wait. Changes that had not reached the standbys when the
	// home died are lost; peerage_entity_state_replication_lag_seconds shows how old they may be.
	Async = StateMode(standby.Async)
	// ReplicasAll asks for a copy on every member of the role.
	ReplicasAll = standby.ReplicasAll
	// DefaultKeepTimeout is the default of Replicated.Timeout.
	DefaultKeepTimeout = 5 * time.Second
)

// ErrState: the new state cannot be replicated (too large, no room, or Snapshot
// failed); the change was undone.
var ErrState = entity.ErrState

// ErrNotKept: too few nodes acknowledged the state in time.
var ErrNotKept = errors.New("sharding: state was not replicated in time, outcome unknown")

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

func (r Replicated) validate() error {
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
