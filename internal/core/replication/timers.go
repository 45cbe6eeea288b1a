package replication

import "github.com/peerage-go/peerage/internal/clock"

// timer asks for a look at a request. Timers of requests that are gone do
// nothing.
type timer struct {
	at clock.Instant
	id RequestID
}

// timers is a heap, the earliest first; ties go by id.
type timers []timer

func (t timers) before(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].id < t[j].id
}

func (t *timers) push(at clock.Instant, id RequestID) {
	*t = append(*t, timer{at, id})
	s := *t
	for i := len(s) - 1; i > 0 && s.before(i, (i-1)/2); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
}

func (t *timers) pop() timer {
	s := *t
	top, n := s[0], len(s)-1
	s[0] = s[n]
	s = s[:n]
	for i := 0; 2*i+1 < n; {
		least := 2*i + 1
		if least+1 < n && s.before(least+1, least) {
			least++
		}
		if !s.before(least, i) {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	*t = s
	return top
}
