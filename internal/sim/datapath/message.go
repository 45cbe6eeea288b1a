package datapath

import (
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
)

// Message is one tell or ask of a modelled caller.
type Message struct {
	Sender gossip.NodeID
	Entity int
	Shard  protocol.ShardID
	// Caller is the number of the caller on Sender, for this entity.
	Caller int
	// Seq counts the messages from Sender to Entity.
	Seq   uint64
	Class flow.Class
	Bytes int
	// Probe marks a message that the check of liveness waits for.
	Probe bool
	// Call is the number of an ask, 0 for a tell.
	Call uint64
	// Copy makes this a copy of a reliable message; it is nil for all others.
	Copy *Copy

	// left is the token under which the message was last sent.
	left protocol.Token
}

// Copy is what a copy of a reliable message carries.
type Copy struct {
	Stamp reliable.Stamp
	// Number counts the messages of the producer to the entity.
	Number uint64
}

// newItem returns the item that offers m to its route.
func newItem(m *Message) route.Item[*Message] {
	return route.Item[*Message]{Msg: m, ID: entityID(m.Entity), Bytes: m.Bytes, Class: m.Class}
}

func entityID(entity int) string { return strconv.Itoa(entity) }

// Op is the kind of a Frame.
type Op uint8

const (
	// Tell carries a message to the home; Refused returns it.
	Tell Op = iota
	Refused
	// Marker follows the messages to a former home, which answers with MarkerAck.
	Marker
	MarkerAck
	// Grant raises the limits of a sender.
	Grant
	// Blocked carries the report of a sender whose window is used up.
	Blocked
	// Stop sets the gate of an entity. A sender requests its state with Stopped.
	Stop
	Stopped
	// Shrink asks a sender to return the growth of a window; Shrunk is the answer.
	Shrink
	Shrunk
)

// Frame travels on the message connection between two processes. Frames are immutable.
type Frame struct {
	Op    Op
	Shard protocol.ShardID
	Token protocol.Token
	// Msg, Number and Left belong to Tell and Refused. Left is the time until the deadline of
	// an ask, 0 for a tell. A Shrink has a Number, too.
	Msg    *Message
	Number uint64
	Left   time.Duration
	// Report belongs to Blocked and Shrunk, ID and Gate to Stop and Stopped.
	Report flow.Report
	ID     string
	Gate   flow.Class
	Grants []ShardGrant
}

// ShardGrant is the grant for one shard in a Grant frame.
type ShardGrant struct {
	Shard protocol.ShardID
	Token protocol.Token
	flow.Grant
}
