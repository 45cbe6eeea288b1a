package standby

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Config holds the settings of a Core. Zero numbers take the default
// named at the field.
type Config struct {
	Self gossip.NodeID
	// Type and Role are the entity type's.
	Type, Role string
	// Mode and Replicas are the type's: the number of nodes that hold each copy, the home
	// included. If fewer members exist, all of them hold it. A Core that is only a holder
	// does not need them.
	Mode     Mode
	Replicas int
	// Resend is the first wait before an unanswered message is sent again.
	// It doubles up to eight times that. Default: 200 ms.
	Resend time.Duration
	// Grace is how long a collection that has enough answers waits for the remaining ones.
	// Default: 500 ms.
	Grace time.Duration
	// BytesMax bounds the copies held here. Default: 1 GiB.
	BytesMax int
	// PageBytes is about the size of the largest message; one copy may exceed it.
	// Default: 256 KiB.
	PageBytes int
}

// Event is what happens to a Core. Its implementations are the structs below.
type Event interface{ isEvent() }

// Tick reports that time has passed: the shell sends it at Core.Deadline or later.
type Tick struct{}

// ViewChanged brings a newer view. Skipped views do no harm.
type ViewChanged struct{ View *gossip.View }

// Received is a message of another node, or of this one.
type Received struct {
	From gossip.NodeID
	Msg  Message
}

// Configured brings the settings that a Core lacked while it was only a holder.
type Configured struct {
	Role     string
	Mode     Mode
	Replicas int
	BytesMax int
}

// Begin makes this node the home of a shard: Ready follows, unless End
// or Deposed comes first.
type Begin struct {
	Shard protocol.ShardID
	Token protocol.Token
}

// End reports that this node is no longer the home of a shard under a token. The
// copies that it holds stay.
type End struct {
	Shard protocol.ShardID
	Token protocol.Token
}

// EndAll is End for every shard.
type EndAll struct{}

// Changes brings new states of entities whose shards are ready here: Kept follows
// for each. Those of one shard travel together.
type Changes []Change

// Change is one of them. Version is above all that the entity had.
type Change struct {
	Shard   protocol.ShardID
	Token   protocol.Token
	ID      string
	Version uint64
	State   []byte
}

func (Tick) isEvent()        {}
func (ViewChanged) isEvent() {}
func (Received) isEvent()    {}
func (Configured) isEvent()  {}
func (Begin) isEvent()       {}
func (End) isEvent()         {}
func (EndAll) isEvent()      {}
func (Changes) isEvent()     {}

// Effects is what a step asks the shell to do, in order. The shell empties it.
type Effects struct{ Do []Effect }

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Do)
	e.Do = e.Do[:0]
}

// Effect is one thing to do. Its implementations are the structs below.
type Effect interface{ isEffect() }

// Send is a message for a node, this one included: then it comes back as Received.
// Delivery is not promised.
type Send struct {
	To  gossip.NodeID
	Msg Message
}

// Ready reports that the shard may start, with its states. Copies is the
// receiver's; their States are shared.
type Ready struct {
	Shard  protocol.ShardID
	Token  protocol.Token
	Copies map[string]Copy
	// Short: so many holders were lost that acknowledged changes may be missing.
	Short bool
}

// Kept reports that enough holders have an entity's state up to Version.
type Kept struct {
	Shard   protocol.ShardID
	Token   protocol.Token
	ID      string
	Version uint64
}

// Deposed reports that a holder has seen a higher token: no further change of this
// allocation will be kept.
type Deposed struct {
	Shard protocol.ShardID
	Token protocol.Token
}

// Refusal counts a message of an older allocation that this node refused.
type Refusal struct {
	Shard protocol.ShardID
	From  gossip.NodeID
}

func (Send) isEffect()    {}
func (Ready) isEffect()   {}
func (Kept) isEffect()    {}
func (Deposed) isEffect() {}
func (Refusal) isEffect() {}
