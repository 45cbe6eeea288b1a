// Package signal holds a Signal, which wakes all goroutines that wait for a change, and a
// Wake, which wakes one.
package signal

import (
	"sync"
	"sync/atomic"
)

// Signal wakes all goroutines that wait for it. The zero Signal is ready to use. All methods
// are safe for concurrent use.
type Signal struct {
	waited atomic.Bool
	mu     sync.Mutex
	ch     chan struct{}
}

// Wait returns a channel that the next Broadcast closes. Check the awaited condition again
// after Wait: a Broadcast may have come before it.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	s.waited.Store(true)
	return s.ch
}

// Broadcast wakes all waiting goroutines. Without any, it costs one atomic load.
func (s *Signal) Broadcast() {
	if !s.waited.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
	s.waited.Store(false)
}

// Wake wakes the one goroutine that receives from it. Use NewWake. It holds at most one
// wake-up, so the goroutine must look at everything that it waits for.
type Wake chan struct{}

// NewWake returns a Wake that is not set.
func NewWake() Wake { return make(Wake, 1) }

// Set wakes the goroutine, now or when it next receives. It does not block.
func (w Wake) Set() {
	select {
	case w <- struct{}{}:
	default:
	}
}
