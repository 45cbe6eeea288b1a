// Package virtual has the time and the chance of a simulated run: a schedule of events, clocks
// that run fast or slow, and random numbers that are the same in every version of Go.
package virtual

import "time"

// Instant is true time in nanoseconds since the run began. Processes never see it: each reads a
// Clock of its own.
type Instant int64

// Add returns the Instant d after t.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Never is after all other Instants.
const Never Instant = 1<<63 - 1

// timed is an event. Events of the same Instant happen in the order in which they were planned.
type timed struct {
	at  Instant
	seq uint64
	do  func()
}

// Schedule is a binary heap of the events that are planned. Its zero value is empty, at Instant 0.
type Schedule struct {
	now  Instant
	seq  uint64
	heap []timed
}

// Now returns the present Instant.
func (s *Schedule) Now() Instant { return s.now }

func less(a, b *timed) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// At plans do for t, or for now if t has passed; not at all if t is Never.
func (s *Schedule) At(t Instant, do func()) {
	if t == Never {
		return
	}
	s.seq++
	s.heap = append(s.heap, timed{max(t, s.now), s.seq, do})
	i := len(s.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !less(&s.heap[i], &s.heap[up]) {
			return
		}
		s.heap[i], s.heap[up] = s.heap[up], s.heap[i]
		i = up
	}
}

// After plans do for d from now.
func (s *Schedule) After(d time.Duration, do func()) { s.At(s.now.Add(d), do) }

// Next runs the earliest event that is not after end, and reports whether there was one. If there
// was none, it moves the time forward to end.
func (s *Schedule) Next(end Instant) bool {
	if len(s.heap) == 0 || s.heap[0].at > end {
		s.now = max(s.now, end)
		return false
	}
	ev := s.heap[0]
	last := len(s.heap) - 1
	s.heap[0] = s.heap[last]
	s.heap[last] = timed{}
	s.heap = s.heap[:last]
	s.sink(0)
	s.now = ev.at
	ev.do()
	return true
}

func (s *Schedule) sink(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(s.heap); c++ {
			if less(&s.heap[c], &s.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}
