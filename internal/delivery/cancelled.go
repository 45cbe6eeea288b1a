package delivery

import (
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/activation"
)

// CancelledAsks are asks of other nodes whose callers have given up: they wait in mailboxes
// here and need not be handled. An ask that was handled before its cancellation arrived stays
// until cancelsMax later ones have replaced it. That costs memory, but never a reply, since the
// numbers of asks are not reused. An ask that is replaced too early is handled in vain.
type CancelledAsks struct {
	// count is the number of asks, read without the mutex.
	count atomic.Int32
	mu    sync.Mutex
	asks  map[activation.ReplyTo]struct{}
	// ring holds the newest in the order in which they came; next is the oldest.
	ring []activation.ReplyTo
	next int
}

const cancelsMax = 4096

// Add records a cancelled ask.
func (c *CancelledAsks) Add(a activation.ReplyTo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == nil {
		c.asks = map[activation.ReplyTo]struct{}{}
	}
	if len(c.ring) < cancelsMax {
		c.ring = append(c.ring, a)
	} else {
		delete(c.asks, c.ring[c.next])
		c.ring[c.next] = a
		c.next = (c.next + 1) % cancelsMax
	}
	c.asks[a] = struct{}{}
	c.count.Store(int32(len(c.asks)))
}

// Take reports whether an ask was cancelled, and forgets it.
func (c *CancelledAsks) Take(a activation.ReplyTo) bool {
	if c.count.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.asks[a]
	delete(c.asks, a)
	c.count.Store(int32(len(c.asks)))
	return ok
}
