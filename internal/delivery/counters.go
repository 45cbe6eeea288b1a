package delivery

import (
	"errors"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Reason is the reason why a message was dropped, or an ask failed without its handler.
type Reason uint8

// The reasons, as package sharding documents them.
const (
	DropMailboxFull Reason = iota
	DropNotHome
	DropAbandoned
	DropExpired
	DropCodec
	DropPanicked
	DropHandlerError
	DropReplyLate
	DropSettings
	DropTooLarge
	DropNodeStopping
	DropBufferFull
	// Reasons is their number.
	Reasons
)

// Counters are the counters and gauges of the messages of one type on this node.
type Counters struct {
	stripes [stripes]stripe
	dropped [Reasons]atomic.Uint64
	// Redirected counts messages that were refused and sent again.
	Redirected atomic.Uint64
	// HeldUp is the number of callers that wait for a grant, Gates that of entities whose
	// homes have stopped this node's messages. Blocked counts windows that were used up.
	HeldUp  activation.Gauge
	Gates   activation.Gauge
	Blocked atomic.Uint64

	reliableDone, reliableGivenUp atomic.Uint64
}

// stripe holds the counters that every message increments, one for each group of shards:
// processors that work on different shards do not share a cache line.
type stripe struct {
	sent [figures.Routes]atomic.Uint64
	_    [64]byte
}

const stripes = 16

// Sent counts a message to a shard.
func (c *Counters) Sent(w figures.Route, shard strategy.ShardID) {
	c.stripes[shard%stripes].sent[w].Add(1)
}

// SentBy returns the number of messages that went by a route.
func (c *Counters) SentBy(w figures.Route) (n uint64) {
	for i := range c.stripes {
		n += c.stripes[i].sent[w].Load()
	}
	return n
}

// Drop counts dropped messages.
func (c *Counters) Drop(r Reason, n uint64) { c.dropped[r].Add(n) }

// Dropped returns the number of messages that were dropped for a reason.
func (c *Counters) Dropped(r Reason) uint64 { return c.dropped[r].Load() }

// countDone counts a message of a reliable producer that is finished.
func (c *Counters) countDone(result error) {
	if errors.Is(result, failure.Codec) || errors.Is(result, failure.TooLarge) {
		c.reliableGivenUp.Add(1)
		return
	}
	c.reliableDone.Add(1)
}
