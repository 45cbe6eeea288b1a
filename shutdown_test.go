package peerage_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// sleepers are entities of one id whose handler does not return before release is
// closed; one that heeds its Context returns with it.
type sleepers struct {
	t       *testing.T
	release chan struct{}
	heeds   bool
	within  time.Duration

	mu    sync.Mutex
	began []time.Time // of the instances
}

func (s *sleepers) register(n *peerage.Node) *sharding.Region[string, string] {
	r, err := sharding.Register(n.Registry(), sharding.Type[string, string]{
		Name: "sleeper", Shards: 4, StopTimeout: s.within,
		New: func(string) sharding.Entity[string, string] {
			s.mu.Lock()
			first := len(s.began) == 0
			s.began = append(s.began, time.Now())
			s.mu.Unlock()
			return sharding.Func(func(ctx *sharding.Context, req string) (string, error) {
				if !first {
					return req, nil
				}
				var end <-chan struct{}
				if s.heeds {
					end = ctx.Done()
				}
				select {
				case <-s.release:
				case <-end:
				}
				return req, nil
			})
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// instances returns when instances began.
func (s *sleepers) instances() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.began...)
}

// inSleep runs test on three nodes, since half of two that is not the older needs a certain
// proof, and a node whose handler still runs gives none. The oldest hosts a sleeper that
// sleeps.
func inSleep(t *testing.T, heeds bool, test func(c *cluster, s *sleepers, home *member, other *sharding.Region[string, string])) {
	t.Helper()
	inBubble(t, 0, func(c *cluster) {
		s := &sleepers{t: t, release: make(chan struct{}), heeds: heeds}
		var regions []*sharding.Region[string, string]
		for i := range 3 {
			c.addWith(i, nil, func(n *peerage.Node) { regions = append(regions, s.register(n)) })
			if i == 0 {
				c.ready(c.nodes...)
				if err := regions[0].Tell(context.Background(), "x", "sleep"); err != nil {
					t.Fatal(err)
				}
				c.until(time.Second, "the sleeper sleeps", func() bool { return len(s.instances()) == 1 })
			}
		}
		c.ready(c.nodes...)
		test(c, s, c.nodes[0], regions[1])
	})
}

// leaseEnd notes, until the returned function is called, when the lease of a node ends as
// far as it was granted, at the earliest: leases of a second are renewed every 100 ms.
func leaseEnd(m *member) (stop func() time.Time) {
	quit, done := make(chan struct{}), make(chan time.Time)
	go func() {
		var end time.Time
		for {
			select {
			case <-quit:
				done <- end
				return
			case <-time.After(time.Millisecond):
			}
			if until := time.Now().Add(m.Lease().Left - 200*time.Millisecond); until.After(end) {
				end = until
			}
		}
	}()
	return func() time.Time { close(quit); return <-done }
}

// A handler that ignores the end of its Context makes Shutdown fail in time, and none acts
// for the node before its lease has run out.
func TestShutdownKeepsItsDeadline(t *testing.T) {
	inSleep(t, false, func(c *cluster, s *sleepers, home *member, other *sharding.Region[string, string]) {
		granted := leaseEnd(home)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		err := home.Shutdown(ctx)
		took, end := time.Since(begin), granted()
		if took > 3100*time.Millisecond || took < 2700*time.Millisecond {
			t.Errorf("Shutdown(3 s) took %v", took)
		}
		var left *sharding.UnfinishedError
		if !errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Shutdown = %v", err)
		}
		if h := left.Handlers; len(h) != 1 || h[0].Type != "sleeper" || h[0].ID != "x" || h[0].For < 2*time.Second ||
			!strings.Contains(h[0].Stack, "shutdown_test.go") {
			t.Errorf("left: %+v", h)
		}
		ask, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if _, err := other.Ask(ask, "x", "here?", sharding.Retry()); err != nil {
			t.Fatal(err)
		}
		began := s.instances()
		if len(began) != 2 || began[1].Before(end) {
			t.Errorf("the next instance began %v before the lease's end: %v", end.Sub(began[len(began)-1]), began)
		}
		if late := began[1].Sub(end); late > 4*time.Second {
			t.Errorf("the next instance began %v after the lease's end", late)
		}
		if err := home.Close(); !errors.As(err, &left) {
			t.Errorf("Close afterwards: %v", err)
		}
		close(s.release)
		c.nodes = c.nodes[1:]
	})
}

// The handlers have the time that the drain leaves.
func TestShutdownWaitsForHandlersAsLongAsItMay(t *testing.T) {
	for _, returns := range []bool{true, false} {
		inSleep(t, false, func(c *cluster, s *sleepers, home *member, _ *sharding.Region[string, string]) {
			begin := time.Now()
			if returns {
				time.AfterFunc(16*time.Second, func() { close(s.release) })
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			err := home.Shutdown(ctx)
			took := time.Since(begin)
			var left *sharding.UnfinishedError
			switch {
			case returns && (err != nil || took > 17*time.Second):
				t.Errorf("the handler returned after 16 s: %v after %v", err, took)
			case !returns && (!errors.As(err, &left) || took > 20100*time.Millisecond || took < 18*time.Second):
				t.Errorf("the handler did not return: %v after %v", err, took)
			}
			if !returns {
				close(s.release)
			}
			c.nodes = c.nodes[1:]
		})
	}
}

// A handler that heeds its Context is left the time to return, and then nothing waits for
// a lease.
func TestShutdownLeavesHandlersTheTimeToReturn(t *testing.T) {
	inSleep(t, true, func(c *cluster, s *sleepers, home *member, other *sharding.Region[string, string]) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		err := home.Shutdown(ctx)
		var left *sharding.UnfinishedError
		if errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %v", err)
		}
		begin := time.Now()
		ask, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if _, err := other.Ask(ask, "x", "here?", sharding.Retry()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("the next home took %v, though nothing ran any longer", took)
		}
		c.nodes = c.nodes[1:]
	})
}
