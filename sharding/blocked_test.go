package sharding

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/figures"
)

// took is a figures.ShardingObserver of the durations of handlers.
type took struct{ durations chan time.Duration }

func (took) AskDone(string, figures.Route, time.Duration, error) {}
func (took) HomeResolved(string, time.Duration)                  {}
func (took) StateKept(string, time.Duration)                     {}
func (o took) ShardMoved(string, string, string, time.Duration)  {}
func (o took) HandlerDone(_ string, d time.Duration) {
	select {
	case o.durations <- d:
	default:
	}
}

func TestABlockedHandlerIsVisible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n0")
		gate, o := make(chan struct{}), took{make(chan time.Duration, 1)}
		n.observer = o
		r, err := Register(n.reg, Type[string, string]{
			Name: "t",
			New: func(string) Entity[string, string] {
				return Func(func(_ *Context, req string) (string, error) {
					<-gate
					return req, nil
				})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		if err := r.Tell(t.Context(), "a", ""); err != nil {
			t.Fatal(err)
		}
		pass(DefaultBlockedAfter - time.Second)
		if s := r.Stats(); s.BlockedHandlers != 0 || s.OldestHandler < 3*time.Second {
			t.Errorf("a second before: %d blocked, oldest %v", s.BlockedHandlers, s.OldestHandler)
		}
		pass(time.Minute)
		if s := r.Stats(); s.BlockedHandlers != 1 || s.OldestHandler < time.Minute {
			t.Errorf("%d blocked, oldest %v", s.BlockedHandlers, s.OldestHandler)
		}
		close(gate)
		if d := <-o.durations; d < time.Minute {
			t.Errorf("the handler ran for %v", d)
		}
		if s := r.Stats(); s.OldestHandler != 0 {
			t.Errorf("nothing runs, oldest %v", s.OldestHandler)
		}
	})
}
