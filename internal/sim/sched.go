package sim

import "time"

// instant is true time in nanoseconds since the run began. Processes never see
// it: each reads its own localClock.
type instant int64

func (t instant) add(d time.Duration) instant { return t + instant(d) }
func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

const never instant = 1<<63 - 1

// timed is something that happens at a true time. Equal times keep the order in
// which they were planned.
type timed struct {
	at  instant
	seq uint64
	do  func()
}

// schedule is a binary heap of what is going to happen.
type schedule struct {
	now  instant
	seq  uint64
	heap []timed
}

func less(a, b *timed) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// at plans do for t, or for now if t has passed.
func (s *schedule) at(t instant, do func()) {
	if t == never {
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

// after plans do for d from now.
func (s *schedule) after(d time.Duration, do func()) { s.at(s.now.add(d), do) }

// next runs the earliest event no later than end, and reports whether there was
// one.
func (s *schedule) next(end instant) bool {
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

func (s *schedule) sink(i int) {
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
