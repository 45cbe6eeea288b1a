package activation

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// ReplyTo says where the answer to an ask goes. The zero ReplyTo is a tell's.
type ReplyTo struct {
	Node gossip.NodeID
	// Call is the asker's own number for the ask, never 0.
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
	// sure is set on the message of a reliable producer, which is no ask: its answer
	// goes to Config.Confirm.
	sure *Sure
	// chain is an ask's, nil if it was made outside an entity.
	chain *Chain
	// late is the payload of a large request, decoded just before its handler runs; nil: Req
	// is set.
	late []byte
	// timer is set when this is no request: a timer that has run out, or ForStart.
	timer *timer
}

func (m *Message[Req]) needRare() *rareFields {
	if m.rare == nil {
		m.rare = &rareFields{}
	}
	return m.rare
}

// SetReliable makes m a message of a reliable producer.
func (m *Message[Req]) SetReliable(s *Sure) { m.needRare().sure = s }

// SetChain sets the Chain of an ask, which may be nil.
func (m *Message[Req]) SetChain(c *Chain) {
	if c != nil {
		m.needRare().chain = c
	}
}

// SetLate leaves the decoding of a payload, which must not be nil, to the goroutine that runs
// the handler.
func (m *Message[Req]) SetLate(payload []byte) { m.needRare().late = payload }

func (m *Message[Req]) reliableMark() *Sure {
	if m.rare == nil {
		return nil
	}
	return m.rare.sure
}

func (m *Message[Req]) chain() *Chain {
	if m.rare == nil {
		return nil
	}
	return m.rare.chain
}

func (m *Message[Req]) timer() *timer {
	if m.rare == nil {
		return nil
	}
	return m.rare.timer
}

// ForStart returns m as one that asks for an instance and nothing else: Req is not
// looked at. It is answered with ErrStarted.
func (m Message[Req]) ForStart() Message[Req] {
	m.rare = &rareFields{timer: &timer{begins: true}}
	return m
}

// Replies takes the answers. Its methods are called from the goroutines that run
// handlers; Reply may block for as long as the asker's node has no room, within
// reason.
type Replies[Resp any] interface {
	// Reply answers an ask: exactly once for each that was delivered and has not
	// been dropped by Abandon on an instance whose handler never returns.
	Reply(to ReplyTo, resp Resp, err error)
	// Cancelled reports whether nobody is known to wait for the answer any more. It
	// is asked once for each ask, just before its turn.
	Cancelled(to ReplyTo) bool
}

// Counters are what a Host counts; they are its owner's, so that they outlive it.
// Every field is safe for concurrent use.
type Counters struct {
	Handled Tally
	// Passivated counts instances that ended by themselves, not with their shard; Forced
	// shards, and CutLoose instances, that did not end in time.
	Passivated, Abandoned            Counter
	Forced, CutLoose                 Counter
	Expired, Panicked, HandlerErrors Counter
	// StatesLost counts states that should have travelled and did not.
	StatesLost Counter
	// AbandonedTells counts messages without an asker that were dropped.
	AbandonedTells Counter
	// Repeated counts copies of reliable messages that were not run again, Forgotten
	// the producers that a shard had to forget.
	Repeated, Forgotten Counter
	// Activated counts instances that began.
	Activated Counter
	// Blocked counts calls of entities' code that took longer than BlockedAfter.
	Blocked Counter
	// Entities is a gauge. So are Waiting, callers that wait for room in a mailbox, and
	// Parked, messages of other nodes that do.
	Entities, Waiting, Parked Gauge
}
