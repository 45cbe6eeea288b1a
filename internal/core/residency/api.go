package residency

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

const (
	// Every is the time between two rounds.
	Every = 500 * time.Millisecond
	// soon is the time between two checks while workers stop, or this node's view is awaited.
	soon = 20 * time.Millisecond
	// storeTimeout bounds one read or write of the store of remembered entities.
	storeTimeout = 2 * time.Second
	// RereadAfter is the time between the first and the second read of a shard: the writes of
	// its former home are over by then.
	RereadAfter = 2 * storeTimeout
	// UpdatesMax bounds the updates of a type that are queued for the store. Those of entities
	// that live here wait in the set beyond it.
	UpdatesMax = 100_000
	// delayedMost times UpdatesMax updates may wait beyond the queue before those of shards that
	// have left are dropped.
	delayedMost = 10
	// batchMax bounds the ids of one write, readsMax the reads in flight, and writesMax the
	// writes in flight.
	batchMax, readsMax, writesMax = 1000, 16, 1
	// StartsMax bounds the remembered entities of a type that have been started and have not begun.
	// One that has not begun after StartLate does not count.
	StartsMax = 64
	StartLate = 10 * time.Second
)

// Config selects the sources of a type's entities.
type Config struct {
	// Shards is the type's number of shards.
	Shards uint32
	// AlwaysOn returns the entity of a shard that always must run, "" if there is none. A nil
	// function means none in any shard.
	AlwaysOn func(strategy.ShardID) string
	// Daemon is nil unless a plan names the entities.
	Daemon *Daemon
	// ShardOf returns the shard of an id; false if it has none. It is nil unless entities are
	// remembered.
	ShardOf func(id string) (strategy.ShardID, bool)
	// UpdatesMax and StartsMax are set by tests and the simulator; 0 means the constants of these names.
	UpdatesMax, StartsMax int
}

// Daemon has the number of workers of the first plan, and the bound of all plans.
type Daemon struct{ First, Max int }

// Node is one incarnation of this node. The core calls its functions when it decides, so no
// decision rests on a stale state. All fields must be set.
type Node struct {
	Self gossip.NodeID
	// Token returns the token of a shard that runs here, zero if it does not.
	Token func(strategy.ShardID) protocol.Token
	// LeaseValid reports whether this node may run entities now.
	LeaseValid func() bool
	// Members returns the nodes of the type's role. Office returns the term in which this
	// node coordinates the type, 0 if it does not.
	Members func() daemon.Members
	Office  func() gossip.Epoch
	// Turn reserves the instant at which one remembered entity may start.
	Turn func(now clock.Instant) clock.Instant
	// StopWithin is the time that workers have to end when the plan changes.
	StopWithin time.Duration
}

// Kind names what an Action does.
type Kind uint8

const (
	// WantHomes requests homes of Shards.
	WantHomes Kind = iota + 1
	// Start starts the entity ID of Shard if it has no instance; Outcome.OK reports whether it
	// does. Recall does the same for a remembered entity.
	Start
	Recall
	// StopAll ends all instances in an orderly way. Outcome.Running is the number of those
	// that still exist. If Abandon is set, they are abandoned.
	StopAll

	// Blocking actions follow. RecallElsewhere starts the entity ID in its shard, wherever that
	// runs.
	RecallElsewhere
	// Read returns the remembered ids of Shard as Outcome.IDs. Write adds and removes some.
	Read
	Write
	// ReadPlan returns the state of the daemon as Outcome.State, fenced by Term unless it is 0.
	ReadPlan
	// WritePlan writes Plan in Term and deletes the acknowledgements of the nodes Gone.
	WritePlan
	// AckPlan stores the acknowledgement Ack of this node.
	AckPlan
)

// Action is what the shell must do next. Each Kind uses the fields that it names.
type Action struct {
	Kind   Kind
	Shard  strategy.ShardID
	Shards []strategy.ShardID
	// Token is that of the allocation of Shard for which a Read was chosen.
	Token       protocol.Token
	ID          string
	Add, Remove []string
	Abandon     bool
	Term        gossip.Epoch
	Plan        daemon.Plan
	Gone        []gossip.NodeID
	Ack         daemon.Ack
}

// Blocks reports whether the action waits for other nodes. Such actions run concurrently, all
// other actions one after another.
func (a *Action) Blocks() bool { return a.Kind >= RecallElsewhere }

// Timeout bounds an action that blocks.
func (a *Action) Timeout() time.Duration {
	if a.Kind >= ReadPlan {
		return Every
	}
	return storeTimeout
}

// Outcome is the result of an Action.
type Outcome struct {
	// OK is false if the action failed or, for Start and Recall, had nothing to start.
	OK      bool
	Running int
	IDs     []string
	State   daemon.State
}
