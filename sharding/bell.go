package sharding

import (
	"sync"
	"sync/atomic"
)

// bell wakes everybody who listens. The zero bell is ready.
type bell struct {
	heard atomic.Bool
	mu    sync.Mutex
	ch    chan struct{}
}

// listen returns a channel that the next ring closes. Look once more at what is
// waited for after listen: the ring may have come before.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	b.heard.Store(true)
	return b.ch
}

// ring wakes those who listen; with nobody there it costs one load.
func (b *bell) ring() {
	if !b.heard.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
	b.heard.Store(false)
}
