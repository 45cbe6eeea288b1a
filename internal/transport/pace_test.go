package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scripted fails dials with given errors, and records their times.
type scripted struct {
	network
	errs  []error
	began time.Time

	mu sync.Mutex
	at []time.Duration
}

func (s *scripted) dial(context.Context, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Since(s.began))
	if len(s.at) > len(s.errs) {
		return nil, errors.New("the script is over")
	}
	return nil, s.errs[len(s.at)-1]
}

func (s *scripted) dials() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

// A process that dies while it is dialled hangs up once, and refuses then. The refusals,
// which prove its death, arrive at the pace of immediate refusals: the first one restarts
// the back-off, later ones do not.
func TestRefusalsComeAtTheirPaceAfterAHangUp(t *testing.T) {
	reset, refused := syscall.ECONNRESET, syscall.ECONNREFUSED
	for _, c := range []struct {
		name string
		errs []error
		// most is the most that each attempt waits, in milliseconds: less up to a quarter.
		most []int
	}{
		{"refused at once", []error{refused, refused, refused, refused}, []int{0, 10, 20, 40}},
		{"a hang-up first", []error{reset, refused, refused, refused, refused}, []int{0, 10, 10, 20, 40}},
		{"many failures first", []error{reset, reset, reset, reset, refused, refused, refused}, []int{0, 10, 20, 40, 80, 10, 20}},
		{"in turns", []error{reset, refused, reset, refused, reset, refused}, []int{0, 10, 10, 20, 40, 80}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inMemory(t, func(w *world) {
				n := w.make(1, "")
				s := &scripted{network: n.e.net, errs: c.errs, began: time.Now()}
				n.e.dialler.net = s
				n.Learn(Peer{ID: 2, Name: "two", Addr: "10.1.1.1:1"})
				n.run()
				w.poll("the script is played", func() bool { return len(s.dials()) >= len(c.errs) })
				last := time.Duration(0)
				for i, at := range s.dials()[:len(c.errs)] {
					most := time.Duration(c.most[i]) * time.Millisecond
					if wait := at - last; wait > most || wait < most*3/4 {
						t.Errorf("attempt %d waited for %v, want %v less up to a quarter", i, wait, most)
					}
					last = at
				}
			})
		})
	}
}
