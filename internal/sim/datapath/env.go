package datapath

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/route"
)

// Config are the settings of a Path.
type Config struct {
	Self   gossip.NodeID
	Shards int
	// Buffer is how many messages the buffer of a route holds.
	Buffer int
	// Windows and Parked bound the bytes that the process grants beyond first windows, and
	// parks for slow entities.
	Windows, Parked uint64
}

// Env is the process around a Path. Functions that are passed to it are called later, never
// before it returns, and not after the end of the process.
type Env interface {
	// Send queues a frame on the message connection, with the errors of transport.Transport.
	Send(to gossip.NodeID, f *Frame) error
	// Answer sends a frame, or queues it until the connection has room.
	Answer(to gossip.NodeID, f *Frame)
	// AwaitRoom calls then when the connection has room (Sent), or the peer is unknown (Down).
	AwaitRoom(to gossip.NodeID, then func(route.Outcome))
	// Later calls do on another goroutine of the process.
	Later(do func())

	// NeedHome, Misrouted and MarkerAcked pass events to the region core.
	NeedHome(protocol.ShardID)
	Misrouted(protocol.ShardID, protocol.Token)
	MarkerAcked(from gossip.NodeID, shard protocol.ShardID, token protocol.Token)

	// Hosted returns the token under which a shard takes messages here, zero if it takes none.
	Hosted(protocol.ShardID) protocol.Token
	// Deliver passes a message to the Mailboxes of its shard, which is hosted. Left is the
	// time until the deadline of an ask, 0 for a tell.
	Deliver(m *Message, left time.Duration, p *Place)
	// Move notes the node that has the request of an ask, 0 for this process before it leaves.
	// It returns the time until the deadline, 0 for a tell, and false if the ask is over.
	Move(m *Message, to gossip.NodeID) (left time.Duration, waits bool)
	// Lost reports a message that a home has refused, and that cannot be sent again without an
	// inversion. It was sent under token.
	Lost(m *Message, token protocol.Token)

	// CopyRefused reports a copy of a reliable message that a home has refused. Freed reports that
	// messages for an entity may leave, or for an empty id those for all entities of a shard.
	CopyRefused(m *Message)
	Freed(shard protocol.ShardID, id string)

	// Count counts a rare event. Fail reports a broken invariant.
	Count(Event)
	Fail(error)
}

// Event is a rare event, which a campaign must have seen.
type Event uint8

const (
	// NoRoom: a caller waits for room in the buffer of a route.
	NoRoom Event = iota
	// HeldUp: a caller waits for a grant, or at the gate of an entity.
	HeldUp
	// GateClosed: a home has stopped senders for an entity.
	GateClosed
	// MessageRefused: a process has refused a message, since it is not the home.
	MessageRefused
	// SentAgain: a refused message was sent again.
	SentAgain
	// WindowShrunk: an idle window was reset.
	WindowShrunk
	// MessageParked: a message waits for room in its mailbox.
	MessageParked
)

// isHosted reports whether a shard takes messages here under token.
func isHosted(env Env, shard protocol.ShardID, token protocol.Token) bool {
	return !token.IsZero() && env.Hosted(shard) == token
}
