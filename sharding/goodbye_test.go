package sharding

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// slowGoodbye is an entity whose OnStop takes its time.
type slowGoodbye struct {
	takes time.Duration
	said  *atomic.Int64
}

func (s *slowGoodbye) Handle(*Context, int) (int, error) { return 0, nil }

func (s *slowGoodbye) OnStop(ctx *Context) {
	select {
	case <-time.After(s.takes):
		s.said.Add(1)
	case <-ctx.Done():
	}
}

// Nobody takes the shards of the last node: its entities end in order there, and have as
// long for it as in any other move.
func TestTheLastNodeStopsItsEntitiesInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		takes, drain time.Duration
		said, forced int64
	}{
		"in time":  {time.Second, time.Second, 40, 0},
		"too slow": {time.Minute, 5 * time.Second, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cl := newCluster(t)
				n := cl.add("n1")
				var said atomic.Int64
				r, err := Register(n.reg, Type[int, int]{
					Name: "slow", Shards: 4, StopTimeout: 5 * time.Second,
					New: func(string) Entity[int, int] { return &slowGoodbye{c.takes, &said} },
				})
				if err != nil {
					t.Fatal(err)
				}
				n.start()
				cl.install(n)
				for i := range 40 {
					if _, err := r.Ask(within(t, time.Minute), fmt.Sprint("e", i), 1); err != nil {
						t.Fatal(err)
					}
				}
				begin := time.Now()
				if err := n.s.Drain(within(t, time.Minute)); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); took < c.drain || took > c.drain+time.Second {
					t.Errorf("drained in %v, want %v", took, c.drain)
				}
				if s := r.Stats(); said.Load() != c.said || int64(s.Forced) != c.forced {
					t.Errorf("%d of %d said goodbye, %d of %d shards were forced", said.Load(), c.said, s.Forced, c.forced)
				}
			})
		})
	}
}
