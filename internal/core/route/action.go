package route

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Kind is what an Action asks for.
type Kind uint8

const (
	// Wait: no message of this class and entity may leave. The caller waits with a Waiter, or
	// gives up. Buffer: the message may join the buffer, by Keep. Only Offer and OfferNow
	// return Wait, only Offer returns Buffer.
	Wait Kind = iota + 1
	Buffer
	// NoHome and Stopped are results of OfferNow: the shard has no home that can be reached, or
	// the home has stopped senders for the entity.
	NoHome
	Stopped

	// Send: queue Item on the connection To the home, under Token and Number. Outcomes: all.
	Send
	// Deliver: hand Item to the shard on this node, under Token and Number. Outcomes: Sent,
	// Gone, and Down if the shard does not run under Token.
	Deliver
	// Publish: let local senders find the shard that runs here under Token. Outcomes: Sent, and
	// Down if it does not run.
	Publish
	// Hide ends Publish.
	Hide

	// Marker: queue a marker with Token on the connection To a node, behind all that was sent
	// there. A marker that finds no room is lost; Look and the coordinator repeat it.
	Marker
	// Report: send To the home how far this node has sent (Route.Report). First is set unless
	// it repeats a report.
	Report
	// AskGate: ask the home whether senders must still stop for the entity ID.
	AskGate
	// AwaitRoom: when the connection To the home has room, call RoomFound.
	AwaitRoom

	// NeedHome: messages, or callers, wait for a home of the shard.
	NeedHome
	// Misrouted: the home refuses messages under Token.
	Misrouted
	// Wake: the wait of a Waiter's Item is over with Result.
	Wake
	// Lost: Item was refused, and cannot be sent again without an inversion.
	Lost
	// Freed: messages for the entity ID may leave, for an empty ID those for all entities
	// without a gate.
	Freed
)

// Outcome reports how an Action went.
type Outcome uint8

const (
	// Sent: the message is queued on the connection, or in its mailbox.
	Sent Outcome = iota + 1
	// Full: the connection has no room.
	Full
	// TooLarge: no connection will ever carry the message.
	TooLarge
	// Gone: the caller of the message no longer waits for its reply.
	Gone
	// Down: the home cannot be reached.
	Down
	// Retry is a Result only: the route has changed, so the caller must offer its message again.
	Retry
)

// Source is where the Item of an Action comes from.
type Source uint8

const (
	// Offered: the caller offers it.
	Offered Source = iota
	// Buffered: it is the first in the buffer.
	Buffered
	// Waiting: its caller waits with a Waiter.
	Waiting
)

// Action is a step that the caller performs, with the lock of the route.
type Action[M any] struct {
	Kind   Kind
	Source Source
	// Result is the outcome for the caller of a Wake; First belongs to a Report.
	Result Outcome
	First  bool
	To     gossip.NodeID
	Token  protocol.Token
	Number uint64
	// Item is valid until Done. It does not lead to the Waiter: an offered Item must not escape
	// to the heap.
	Item *Item[M]
	ID   string
}

// Item is a message with what decides its order. M is what the caller needs to send it.
type Item[M any] struct {
	Msg M
	// ID is the entity's, for messages that may have to wait for it.
	ID string
	// Bytes is the length of the encoded message.
	Bytes int
	// Class determines how much room it finds.
	Class flow.Class
	// Returned is set once it has been refused.
	Returned bool
	// Placeholder: it is over, and stands for its number only, so that messages behind it may
	// be sent again.
	Placeholder bool

	number uint64
}
