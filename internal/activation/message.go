package activation

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/headers"
)

// ReplyTo identifies the ask that an answer belongs to. The zero ReplyTo is a tell's.
type ReplyTo struct {
	Node gossip.NodeID
	// Call is the asker's number of the ask, never 0.
	Call uint64
}

// Message is one request on its way into a mailbox. With a Req of three words it fills one
// cache line. A mailbox moves between the processor of a connection's reader and that of the
// handler, and each of its lines costs more than the rest of a message's way.
type Message[Req any] struct {
	Req   Req
	Reply ReplyTo
	// Expires is the deadline of an ask, counted from Config.Epoch; 0 never.
	Expires time.Duration
	// From is shared and never changed; nil means this node, outside an entity.
	From *Sender
	// rare has the fields that few messages need; nil for all others.
	rare *rareFields
}

// rareFields are the fields of a Message that few messages need.
type rareFields struct {
	// reliable is set on the message of a reliable producer, which is no ask: its outcome
	// goes to Config.Confirm.
	reliable *ReliableMark
	// chain is an ask's, nil if it was made outside an entity.
	chain *Chain
	// headers are those that the sender attached.
	headers headers.List
	// late is the payload of a large request, decoded just before its handler runs. If
	// nil, Req is set.
	late []byte
	// timer is set if the message is no request: an expired timer, or ForStart.
	timer *timer
}

func (m *Message[Req]) needRare() *rareFields {
	if m.rare == nil {
		m.rare = &rareFields{}
	}
	return m.rare
}

// SetReliable makes m a message of a reliable producer.
func (m *Message[Req]) SetReliable(s *ReliableMark) { m.needRare().reliable = s }

// SetChain sets the Chain of an ask, which may be nil.
func (m *Message[Req]) SetChain(c *Chain) {
	if c != nil {
		m.needRare().chain = c
	}
}

// SetHeaders sets the headers, which may be empty.
func (m *Message[Req]) SetHeaders(h headers.List) {
	if h != "" {
		m.needRare().headers = h
	}
}

// SetLate leaves the decoding of a payload, which must not be nil, to the goroutine that runs
// the handler.
func (m *Message[Req]) SetLate(payload []byte) { m.needRare().late = payload }

func (m *Message[Req]) reliableMark() *ReliableMark {
	if m.rare == nil {
		return nil
	}
	return m.rare.reliable
}

func (m *Message[Req]) chain() *Chain {
	if m.rare == nil {
		return nil
	}
	return m.rare.chain
}

func (m *Message[Req]) headers() headers.List {
	if m.rare == nil {
		return ""
	}
	return m.rare.headers
}

// The operations that send a message, as the handler of the message sees them: see
// sharding.Call.
const (
	OpTell  = "tell"
	OpAsk   = "ask"
	OpStart = "start"
	OpSend  = "send"
)

// op returns the operation that has sent m, which is a request.
func (m *Message[Req]) op() string {
	switch {
	case m.reliableMark() != nil:
		return OpSend
	case m.Reply.Call != 0:
		return OpAsk
	}
	return OpTell
}

func (m *Message[Req]) timer() *timer {
	if m.rare == nil {
		return nil
	}
	return m.rare.timer
}

// ForStart returns m, which has no other rare fields yet, as a message that only starts an
// instance: Req is not read. It is answered with ErrStarted.
func (m Message[Req]) ForStart() Message[Req] {
	m.rare = &rareFields{timer: &timer{begins: true}}
	return m
}

// Replies receives the answers. Its methods are called from the goroutines that run
// handlers. Reply may block, for a bounded time, while the asker's node has no room.
type Replies[Resp any] interface {
	// Reply answers an ask. It is called exactly once for each delivered ask, unless its
	// handler never returns.
	Reply(to ReplyTo, resp Resp, err error)
	// Cancelled reports whether the asker no longer waits for the answer. It is called
	// once for each ask, just before its turn.
	Cancelled(to ReplyTo) bool
}

// ReliableMark marks a message of a reliable producer, which is retransmitted until it is
// confirmed, and runs once.
type ReliableMark struct {
	Stamp reliable.Stamp
	// id is the entity's, set at the message's first turn.
	id string
	// resumed: its handler stashed it, and it has its turn again.
	resumed bool
}

// Outcome is the outcome of a copy of a reliable message.
type Outcome uint8

const (
	// ReliableHandled: the handler ran, now.
	ReliableHandled Outcome = iota
	// ReliableRepeated: the handler ran before.
	ReliableRepeated
	// ReliableRefused: the handler did not run; a retransmission may.
	ReliableRefused
	// ReliableGap: an earlier message for the same entity is missing.
	ReliableGap
)
