package activation

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log that tests read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func watchedRig(t *testing.T, change func(*Config[*Context, int, int])) (*rig, *lines) {
	log := &lines{}
	return newRig(t, func(c *Config[*Context, int, int]) {
		c.BlockedAfter, c.Logger = 5*time.Second, slog.New(slog.NewTextHandler(log, nil))
		if change != nil {
			change(c)
		}
	}), log
}

// blockHere is a handler's code whose name the logged stack must show.
func blockHere(gate <-chan struct{}) { <-gate }

func TestABlockedHandlerIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r, log := watchedRig(t, func(c *Config[*Context, int, int]) {
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(ctx *Context, req int) (int, error) {
					if req == 2 { // gives the worker's labels back
						pprof.Do(ctx, pprof.Labels("mine", "x"), func(context.Context) {})
						blockHere(gate)
					}
					return req, nil
				})
			}
		})
		s := r.start(t, 3)
		deliver(t, s, "stuck", ask(1, 1))
		deliver(t, s, "stuck", ask(2, 2))
		pass(4900 * time.Millisecond)
		if said := log.with("handler blocks"); len(said) != 0 {
			t.Errorf("too early: %q", said)
		}
		pass(time.Minute)
		said := log.with("handler blocks")
		if len(said) != 1 || r.counters.Blocked.Load() != 1 {
			t.Fatalf("logged %d times, counted %d times: %q", len(said), r.counters.Blocked.Load(), said)
		}
		for _, want := range []string{"type=t", "entity=stuck", "shard=3", "for=5", "blockHere", "watch_test.go"} {
			if !strings.Contains(said[0], want) {
				t.Errorf("%q does not say %q", said[0], want)
			}
		}
		if age := r.Oldest(); age < 64*time.Second || age > 65*time.Second {
			t.Errorf("the oldest call has run for %v", age)
		}
		running := r.Running(true)
		if len(running) != 1 || running[0].ID != "stuck" || !strings.Contains(running[0].Stack, "blockHere") {
			t.Errorf("running: %+v", running)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var left *UnfinishedError
		if err := r.Close(ctx); !errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) || len(left.Handlers) != 1 || left.Handlers[0].ID != "stuck" {
			t.Errorf("Close: %v", err)
		}
		close(gate)
		synctest.Wait()
		if age := r.Oldest(); age != 0 {
			t.Errorf("nothing runs, and the oldest call has run for %v", age)
		}
	})
}

// A worker that is never at rest, and a slow handler that is within its time, are not
// blocked.
func TestBusyIsNotBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := watchedRig(t, func(c *Config[*Context, int, int]) {
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(_ *Context, req int) (int, error) {
					pass(3 * time.Second)
					return req, nil
				})
			}
		})
		s := r.start(t, 0)
		for i := range 8 {
			deliver(t, s, "a", ask(i, uint64(i+1)))
		}
		pass(time.Minute)
		if said := log.with("handler blocks"); len(said) != 0 || r.counters.Blocked.Load() != 0 {
			t.Errorf("counted %d times: %q", r.counters.Blocked.Load(), said)
		}
	})
}

type slowStop struct{ gate chan struct{} }

func (slowStop) Handle(ctx *Context, req int) (int, error) {
	ctx.Passivate()
	return req, nil
}
func (s slowStop) OnStop(*Context) { <-s.gate }

// The watch is over all of an entity's code, and over goroutines that handlers ended.
func TestTheWatchSeesOnStopAndSurvivesGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r, log := watchedRig(t, func(c *Config[*Context, int, int]) {
			first := c.New
			c.New = func(id string) Entity[*Context, int, int] {
				if id == "exits" {
					return first(id)
				}
				return slowStop{gate}
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "exits", ask(-4, 1))
		deliver(t, s, "stops", ask(1, 2))
		pass(time.Minute)
		if said := log.with("handler blocks"); len(said) != 1 || !strings.Contains(said[0], "OnStop") {
			t.Errorf("logged: %q", said)
		}
		if running := r.Running(false); len(running) != 1 {
			t.Errorf("running: %+v", running)
		}
		close(gate)
	})
}

func TestDurationsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Mailbox = 1000
			c.Took = func(d time.Duration) { took = append(took, d) }
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(_ *Context, req int) (int, error) {
					pass(time.Millisecond)
					return req, nil
				})
			}
		})
		s := r.start(t, 0)
		for i := range 10 * sampleEvery {
			deliver(t, s, "a", ask(i, uint64(i+1)))
		}
		pass(time.Second)
		if len(took) < 10 || len(took) > 12 || took[0] != time.Millisecond {
			t.Errorf("%d of %d messages were measured: %v", len(took), 10*sampleEvery, took)
		}
	})
}
