package activation

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// ReplyTo says where the answer to an ask goes. The zero ReplyTo is a tell's.
type ReplyTo struct {
	Node view.NodeID
	// Call is the asker's own number for the ask, never 0.
	Call uint64
	// Sure is set on the message of a reliable producer, which is no ask: its answer
	// goes to Config.Confirm.
	Sure *Sure
}

// Message is one request on its way into a mailbox.
type Message[Req any] struct {
	Req   Req
	Reply ReplyTo
	// Expires is when the asker gives up, counted from Config.Epoch; 0 never.
	Expires time.Duration
	// From is shared and never changed; nil means this node, outside an entity.
	From *Sender
	// Chain is an ask's, nil if it was made outside an entity.
	Chain *Chain
	// Late is the payload of a large request, decoded just before its handler runs; nil: Req
	// is set.
	Late *[]byte
	// timer is set when this is no request: a timer that has run out, or ForStart.
	timer *timer
}

// ForStart returns m as one that asks for an instance and nothing else: Req is not
// looked at. It is answered with ErrStarted.
func (m Message[Req]) ForStart() Message[Req] {
	m.timer = &timer{begins: true}
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
