package sharding

import "sync"

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
	b.events = append(b.events, ev)
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
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
