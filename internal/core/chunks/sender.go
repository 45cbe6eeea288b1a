package chunks

import (
	"time"

	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
)

// Config holds the settings of a Sender. Both must be set.
type Config struct {
	// Window is the largest number of chunks in flight.
	Window int
	// Wait returns how long to wait for an acknowledgement after so many deadlines in a row
	// have passed.
	Wait func(misses int) time.Duration
}

// Sender sends chunks of type T in order, and retransmits them until they are acknowledged. It
// retains the chunks in flight, and nothing else.
type Sender[T any] struct {
	cfg Config
	// unacked are the chunks that were added and not acknowledged, first the number of the
	// oldest. next is the number of the chunk to send next.
	//
	// Invariant: len(unacked) <= Window, first <= next <= first + len(unacked).
	unacked []T
	first   uint64
	next    uint64
	// reached is the number of the newest chunk ever sent, plus one. An acknowledgement cannot
	// be above it.
	reached uint64
	// repaired is one above the chunk that was last retransmitted because of a gap.
	repaired uint64
	misses   int
	// deadline is clock.Never while no acknowledgement is due.
	deadline clock.Instant
	// paused is set by Restart: nothing is added before the deadline.
	paused bool
}

// NewSender returns a Sender without chunks. The number of the first chunk is 0.
func NewSender[T any](cfg Config) Sender[T] {
	return Sender[T]{cfg: cfg, deadline: clock.Never}
}

// HasRoom reports whether a chunk can be added: one that can leave.
func (s *Sender[T]) HasRoom() bool { return !s.paused && len(s.unacked) < s.cfg.Window }

// Unacked returns the number of chunks that were added and not acknowledged.
func (s *Sender[T]) Unacked() int { return len(s.unacked) }

// Add adds the next chunk. HasRoom must be true.
func (s *Sender[T]) Add(chunk T) {
	if assert.Enabled && !s.HasRoom() {
		assert.Broken("S9", "a chunk is added to %d in a window of %d", len(s.unacked), s.cfg.Window)
	}
	s.unacked = append(s.unacked, chunk)
}

// Next returns the next chunk to send, with its number. ok is false if the Sender waits for a
// chunk, an acknowledgement or its deadline.
func (s *Sender[T]) Next(now clock.Instant) (number uint64, chunk T, ok bool) {
	if s.next == s.first+uint64(len(s.unacked)) {
		return 0, chunk, false
	}
	number, chunk = s.next, s.unacked[s.next-s.first]
	s.next++
	s.reached = max(s.reached, s.next)
	s.deadline = now.Add(s.cfg.Wait(s.misses))
	return number, chunk, true
}

// TakeBack returns the chunk of the last Next to the Sender: the network had no room for it.
func (s *Sender[T]) TakeBack() {
	if s.next == s.first {
		return
	}
	s.next--
	if s.next == s.first {
		s.deadline = clock.Never
	}
}

// RemoveNewest takes back the newest chunk, and removes and returns it, since it can never be
// sent. It must be the chunk of the last Next, returned for the first time.
func (s *Sender[T]) RemoveNewest() T {
	s.TakeBack()
	n := len(s.unacked) - 1
	chunk := s.unacked[n]
	s.unacked = s.unacked[:n]
	s.reached = min(s.reached, s.first+uint64(n))
	return chunk
}

// OnAck handles an acknowledgement of all chunks below next, and returns those that are newly
// acknowledged.
func (s *Sender[T]) OnAck(now clock.Instant, next uint64) (acked []T) {
	if next == s.first && s.next > s.first+1 && s.repaired <= next {
		// A chunk arrived after a gap.
		s.repaired, s.next = next+1, next
	}
	if next <= s.first || next > s.reached {
		return nil
	}
	n := next - s.first
	acked, s.unacked = s.unacked[:n:n], s.unacked[n:]
	s.first, s.next, s.misses, s.paused = next, max(s.next, next), 0, false
	s.deadline = clock.Never
	if s.next > s.first {
		s.deadline = now.Add(s.cfg.Wait(0))
	}
	return acked
}

// Expire reports whether the deadline has passed. Then Next returns all chunks in flight again.
func (s *Sender[T]) Expire(now clock.Instant) bool {
	if now.Before(s.deadline) {
		return false
	}
	s.misses++
	s.next, s.paused = s.first, false
	s.deadline = now.Add(s.cfg.Wait(s.misses))
	return true
}

// Restart removes all chunks: the receiver holds nothing of the transfer. Number 0 is added
// next, and sent after the deadline. It reports false, and changes nothing, if no chunk was sent
// since the beginning: the receiver's message was a copy.
func (s *Sender[T]) Restart(now clock.Instant) bool {
	if s.reached == 0 {
		return false
	}
	*s = Sender[T]{cfg: s.cfg, misses: s.misses + 1, paused: true}
	s.deadline = now.Add(s.cfg.Wait(s.misses))
	return true
}

// Misses returns how many deadlines in a row have passed without an acknowledgement.
func (s *Sender[T]) Misses() int { return s.misses }

// Deadline returns when Expire is due, clock.Never if no acknowledgement is awaited.
func (s *Sender[T]) Deadline() clock.Instant { return s.deadline }
