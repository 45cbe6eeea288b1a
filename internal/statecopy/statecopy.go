// Package statecopy replicates the states of entities to standby nodes. It is the shell of the
// core internal/core/standby.
//
// A Replicator serves one entity type. Its table holds the newest state of each entity that
// lives here, and the replies that wait until a state is replicated. One goroutine drives the
// core: it passes changed states from the table to the core, and performs the core's effects.
// So the number of entities bounds the queue, however fast they change. An entity that changes
// twice before the goroutine runs costs one write.
//
// A Set holds the Replicators of one node. A node also keeps copies for types that it does not
// run, since the home of a shard sends copies to all members of the type's role.
package statecopy

import (
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/sharding/strategy"
)

var errNodeFull = fmt.Errorf("sharding: no room for more state on this node")

// Settings are those of one type. The zero Settings mean that this node only holds copies.
type Settings struct {
	Mode     standby.Mode
	Replicas int
	// Timeout bounds how long a reply waits.
	Timeout time.Duration
	// StateBytes bounds one state, NodeBytes all states of the type on one node.
	StateBytes, NodeBytes int
}

// Counters count the events of one type's replication.
type Counters struct {
	// Recovered counts instances that began with a replicated state, Cold those without one.
	Recovered, Cold atomic.Uint64
	// Losses counts shards that may have started without acknowledged states.
	Losses atomic.Uint64
	// NotKept counts replies that failed with failure.NotKept.
	NotKept atomic.Uint64
	// Lost counts states that were not replicated when their shard left.
	Lost atomic.Uint64
	// Reused counts states that their entity changed after Snapshot had returned them.
	Reused atomic.Uint64
	// Stale counts rejected messages of superseded allocations.
	Stale             atomic.Uint64
	BytesIn, BytesOut atomic.Uint64
}

// Host is the part of a node that starts and stops the shards of one type. Its functions must
// not block.
type Host struct {
	// Recovered is called when the states of a shard have been collected: it may start.
	Recovered func(strategy.ShardID, protocol.Token)
	// Superseded is called when a shard has a newer allocation: writes under this token are
	// never acknowledged.
	Superseded func(strategy.ShardID, protocol.Token)
	Counters   *Counters
}
