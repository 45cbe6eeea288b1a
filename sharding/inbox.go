package sharding

import (
	"sync"

	"github.com/peerage-go/peerage/internal/core/region"
)

// inbox is the queue in front of a shell. What happens on this node is never
// dropped: its number is bounded by what the node has (shards, views). Frames from
// others are, above a limit: the protocol repeats itself.
type inbox struct {
	mu     sync.Mutex
	events []any
	frames int
	closed bool
	signal chan struct{}
}

// framesMax bounds the frames that wait in an inbox.
const framesMax = 4096

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

// put appends an event; false means that the inbox is closed.
func (b *inbox) put(ev any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.append(ev)
}

// putFrame appends a message of another node unless too many wait.
func (b *inbox) putFrame(m any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.frames >= framesMax {
		return false
	}
	b.frames++
	return b.append(m)
}

func (b *inbox) append(ev any) bool {
	if b.closed {
		return false
	}
	if !b.joined(ev) {
		b.events = append(b.events, ev)
	}
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

// joined adds what is said of shards to the same said right before: at a cold start
// every shard wants a home, and a node that drains closes, stops and starts hundreds. One
// message about all of them is cheaper than a message, and a pass over all shards at
// the coordinator, for each.
func (b *inbox) joined(ev any) bool {
	if len(b.events) == 0 {
		return false
	}
	last := &b.events[len(b.events)-1]
	switch ev := ev.(type) {
	case region.NeedHome:
		if before, ok := (*last).(region.NeedHome); ok {
			*last = region.NeedHome{Shards: append(before.Shards, ev.Shards...)}
			return true
		}
	case region.ShardStarted:
		if before, ok := (*last).(region.ShardStarted); ok {
			*last = region.ShardStarted{Shards: append(before.Shards, ev.Shards...)}
			return true
		}
	case region.ShardStopped:
		if before, ok := (*last).(region.ShardStopped); ok {
			*last = region.ShardStopped{Shards: append(before.Shards, ev.Shards...)}
			return true
		}
	case region.MarkerAcked:
		if before, ok := (*last).(region.MarkerAcked); ok && before.From == ev.From {
			*last = region.MarkerAcked{From: ev.From, Shards: append(before.Shards, ev.Shards...)}
			return true
		}
	}
	return false
}

// take returns all that waits; into is reused for what comes next.
func (b *inbox) take(into []any) []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.events
	b.events, b.frames = into[:0], 0
	return taken
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
