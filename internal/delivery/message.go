package delivery

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// shardRoute is the route to one shard: package route decides, and this file performs its
// actions, both under mu. docs/architecture/ask.md shows its place in an Ask.
type shardRoute struct {
	mu    sync.Mutex
	shard strategy.ShardID
	// listed: the route is in the lookList.
	listed bool
	core   route.Route[Message]
	// counted is how much of the core's state the router's gauges contain, nil for nothing.
	counted *heldSince
}

// held counts what a route holds.
type held struct{ messages, bytes, gates int }

// heldSince is what a route holds, and when the oldest message in the buffer came.
type heldSince struct {
	held
	since time.Time
}

// waited returns how long the oldest message has been in the buffer, false if it was empty after
// the last event. It is called with the mutex.
func (rt *shardRoute) waited() (time.Duration, bool) {
	if rt.counted == nil || rt.counted.messages == 0 {
		return 0, false
	}
	return time.Since(rt.counted.since), true
}

// Message is an encoded request, with what the router needs to send it.
type Message struct {
	Frame []byte
	// Call is 0 for a tell. Expires is the caller's deadline, zero for none.
	Call    uint64
	Expires time.Time
	// Handler is set if a handler sends the message, ToItself if it sends to its own entity.
	Handler, ToItself bool
	// woken receives the outcome for a caller that waits for a grant.
	woken chan error
}

// Item is a message of a route.
type Item = route.Item[Message]

// NewItem returns the item of a message to the entity id.
func NewItem(m Message, id string, control bool) Item {
	it := Item{Msg: m}
	InitItem(&it, id, control)
	return it
}

// InitItem completes the item of a message to the entity id: it.Msg is set, all else is zero. It
// works in place: an item is large, and each message would pay for its copies.
func InitItem(it *Item, id string, control bool) {
	it.ID, it.Bytes = id, len(it.Msg.Frame)
	switch {
	case control:
		it.Class = flow.Control
	case it.Msg.Handler && !it.Msg.ToItself:
		it.Class = flow.Handler
	default:
		it.Class = flow.Ordinary
	}
}
