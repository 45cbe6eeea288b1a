package activation

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// Who is kept alive is started without a message. That is no error, and a start that
// fails is one, which is logged, once a minute: there is no asker to tell.
func TestEnsuredStartsAreNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newRig(t, func(c *Config[*Context, int, int]) {
			made := c.New
			c.New = func(id string) Entity[*Context, int, int] {
				if id == "bad" {
					return &reluctant{}
				}
				return made(id)
			}
			c.Logger = slog.New(slog.NewTextHandler(&out, nil))
		})
		s := r.start(t, 0)
		if !s.Ensure("a") {
			t.Error("it is said not to start")
		}
		synctest.Wait()
		if s.Ensure("a") || r.counters.Activated.Load() != 1 || r.counters.HandlerErrors.Load() != 0 || r.counters.Handled.Load() != 0 {
			t.Errorf("activated %d, %d errors, %d handled", r.counters.Activated.Load(), r.counters.HandlerErrors.Load(), r.counters.Handled.Load())
		}
		for range 40 {
			s.Ensure("bad")
			synctest.Wait()
		}
		if n := r.counters.HandlerErrors.Load(); n != 40 || s.Lives("bad") {
			t.Errorf("%d errors of starts", n)
		}
		if n := strings.Count(out.String(), "database is down"); n != 1 {
			t.Errorf("%d lines about starts, want 1:\n%s", n, &out)
		}
	})
}

// reluctant does not start.
type reluctant struct{}

func (*reluctant) OnStart(*Context) error            { return errors.New("database is down") }
func (*reluctant) Handle(*Context, int) (int, error) { return 0, nil }

// An error that a handler got from somebody else's panic, and hands on, is an error of
// its own: what it put aside is put aside, and what it was told counts as failed.
func TestAnotherEntitysPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := false
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			theirs := fmt.Errorf("asked b: %w", &PanicError{Value: "b's"})
			switch {
			case req == 0:
				open = true
				ctx.Unstash()
			case req == 1 && !open:
				return 0, errors.Join(ctx.Stash(), theirs)
			case req == 2:
				return 0, theirs
			}
			return req, nil
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), Message[int]{Req: 2})
		if n := r.answers(); n != 0 || r.counters.HandlerErrors.Load() != 1 || r.counters.Panicked.Load() != 0 {
			t.Errorf("%d answers, %d errors, %d panics", n, r.counters.HandlerErrors.Load(), r.counters.Panicked.Load())
		}
		deliver(t, s, "a", ask(0, 2))
		r.expectReply(t, 1, nil)
	})
}

// beginner does in OnStart what a test says.
type beginner struct {
	probe
	begin func(*Context) error
}

func (b *beginner) OnStart(ctx *Context) error { return b.begin(ctx) }

// There is a message to put aside in Handle, not before.
func TestNothingIsStashedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stashed error
		r := newRig(t, nil)
		r.cfg.New = func(id string) Entity[*Context, int, int] {
			return &beginner{probe{id: id, r: r}, func(ctx *Context) error { stashed = ctx.Stash(); return nil }}
		}
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		r.expectReply(t, 1, nil)
		if !errors.Is(stashed, failure.Stash) {
			t.Errorf("Stash in OnStart: %v", stashed)
		}
	})
}

// A bound for those who set timers under ever new names; to set one again needs no room.
func TestTimersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
			for i := range TimersMax {
				if err := ctx.After(fmt.Sprint(i), time.Hour); err != nil {
					return 0, fmt.Errorf("timer %d: %w", i, err)
				}
			}
			if err := ctx.After("7", time.Hour); err != nil {
				return 0, fmt.Errorf("again: %w", err)
			}
			if err := ctx.After("one more", time.Hour); !errors.Is(err, failure.Timer) {
				return 0, fmt.Errorf("one more: %w", err)
			}
			ctx.Cancel("7")
			return 0, ctx.After("one more", time.Hour)
		}, nil, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		r.expectReply(t, 1, nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.replies[1]; err != nil {
			t.Error(err)
		}
	})
}

// Who dismisses waits for instances, not for mail that finds none: under a steady stream
// of messages it would wait for ever.
func TestDismissDoesNotWaitForRefusedMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		var refuse atomic.Bool
		var there []bool
		r := newRig(t, nil)
		made := r.cfg.New
		r.cfg.TryNew = func(id string) (Entity[*Context, int, int], error) {
			if refuse.Load() {
				return nil, refused
			}
			return made(id), nil
		}
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1)) // busy until the gate opens
		synctest.Wait()
		refuse.Store(true)
		there = append(there, s.Dismiss("a"))
		for i := range 5 {
			deliver(t, s, "a", ask(1, uint64(2+i)))
		}
		r.alive.Store(false) // keeps the refused mail from being answered
		close(r.gate)
		synctest.Wait()
		there = append(there, s.Dismiss("a")) // without a lease nothing ends
		r.alive.Store(true)
		r.Resume()
		r.expectReply(t, 2, refused)
		r.alive.Store(false)
		deliver(t, s, "a", ask(1, 9))
		synctest.Wait()
		there = append(there, s.Lives("a"), s.Dismiss("a"))
		r.alive.Store(true)
		if got, want := fmt.Sprint(there), "[true true true false]"; got != want {
			t.Errorf("there, busy and without a lease; mail waits, without an instance: %v, want %v", got, want)
		}
		r.expectLog(t, "a:-2", "a:stop")
	})
}

// A timer that is set anew is one timer, with the later time, even if the earlier one has
// run out and waits.
func TestATimerSetAnewIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			if req == 2 {
				<-p.r.gate
			}
			return 0, ctx.After("x", 10*time.Second)
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		pass(5 * time.Second)
		deliver(t, s, "a", ask(1, 2))
		pass(9 * time.Second)
		r.expectLog(t, "a:1", "a:1")
		deliver(t, s, "a", ask(2, 3))
		pass(5 * time.Second) // it has run out
		close(r.gate)
		pass(9 * time.Second)
		r.expectLog(t, "a:1", "a:1", "a:2")
		pass(2 * time.Second)
		r.expectLog(t, "a:1", "a:1", "a:2", "a:x")
	})
}

// Timers that have run out make room for others.
func TestTimersThatRanOutMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
			var errs error
			for i := range TimersMax {
				errs = errors.Join(errs, ctx.After(fmt.Sprint(req, i), time.Second))
			}
			return 0, errs
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		pass(2 * time.Second)
		deliver(t, s, "a", ask(2, 2))
		r.answers()
		if r.replies[1] != nil || r.replies[2] != nil {
			t.Errorf("%v", r.replies)
		}
	})
}

// An entity without OnTimer that sets one is told by the count of errors, and the log.
func TestATimerOfNobodyIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		r.cfg.New = func(string) Entity[*Context, int, int] {
			return Func[*Context, int, int](func(ctx *Context, _ int) (int, error) { return 0, ctx.After("x", time.Second) })
		}
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		pass(2 * time.Second)
		if n := r.counters.HandlerErrors.Load(); n != 1 || !strings.Contains(log.String(), "timer failed") || !strings.Contains(log.String(), "timer=x") {
			t.Errorf("%d errors, logged %q", n, log.String())
		}
	})
}

// Messages put a receive time-out off, and no other timer; one that has run out while
// messages waited before it does not count.
func TestMessagesPutOffTheReceiveTimeoutAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			switch req {
			case 1:
				return 0, errors.Join(ctx.ReceiveTimeout(time.Minute), ctx.Every("tick", 70*time.Second))
			case 2:
				<-p.r.gate
			}
			return 0, nil
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		pass(50 * time.Second)
		deliver(t, s, "a", ask(5, 2))
		pass(25 * time.Second) // 75 s: the tick was due at 70
		deliver(t, s, "a", ask(2, 3), ask(6, 4))
		pass(62 * time.Second) // 137 s: the time-out was due at 110, behind 6
		close(r.gate)
		r.expectLog(t, "a:1", "a:5", "a:tick", "a:2", "a:6")
		pass(50 * time.Second)
		r.expectLog(t, "a:1", "a:5", "a:tick", "a:2", "a:6", "a:tick")
		pass(11 * time.Second) // 198 s: a minute after 6
		r.expectLog(t, "a:1", "a:5", "a:tick", "a:2", "a:6", "a:tick", "a:"+ReceiveTimeout)
	})
}

// A shard that stops rejects new timers: its stop would never end.
func TestTimersSetDuringAStopDoNotHoldItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, _ int) (int, error) {
			<-p.r.gate
			defer pass(2 * time.Millisecond)
			return 0, ctx.Every("tick", time.Millisecond)
		}, func(*script, *Context, string) error { pass(2 * time.Millisecond); return nil }, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		var stopped []Stopped
		r.StopShard(0, s.Token(), time.Minute, false, func(st Stopped) { stopped = append(stopped, st) })
		close(r.gate)
		pass(time.Second)
		synctest.Wait()
		if len(stopped) != 1 || stopped[0].Forced {
			t.Errorf("%+v", stopped)
		}
	})
}

// A timer whose function has begun when it is stopped does nothing.
func TestATimerThatWasStoppedAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
			if req == 2 {
				ctx.Passivate()
			}
			return 0, ctx.After("x", time.Hour)
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		s.mu.Lock()
		in := s.entities.Find("a")
		x := in.cold.timers["x"]
		s.mu.Unlock()
		deliver(t, s, "a", ask(2, 2))
		synctest.Wait()
		s.fire(in, x)
		synctest.Wait()
		if n := r.counters.Entities.Load(); n != 0 || s.Entities() != 0 {
			t.Errorf("%d entities are counted, %d live", n, s.Entities())
		}
		r.expectLog(t, "a:1", "a:2")
	})
}

// hooked is a rig's Replies with a function that is called after each.
type hooked struct {
	*rig
	after func(call uint64)
}

func (h *hooked) Reply(to ReplyTo, resp int, err error) {
	h.rig.Reply(to, resp, err)
	h.after(to.Call)
}

// There is no instance to wait for between two: while refused mail is answered, while a
// panic's pause lasts, and when the last one has ended and the lease is lost.
func TestDismissKnowsWhenThereIsNoInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Supervision = Supervision{BackoffMin: time.Hour, BackoffMax: time.Hour}
		})
		s := r.start(t, 0)
		expect := func(when, id string, want bool) {
			t.Helper()
			if got := s.Dismiss(id); got != want {
				t.Errorf("%s: Dismiss says %v", when, got)
			}
		}
		made := r.cfg.New
		r.cfg.TryNew = func(id string) (Entity[*Context, int, int], error) {
			if id == "refused" {
				return nil, errors.New("refused")
			}
			return made(id), nil
		}
		r.cfg.Replies = &hooked{r, func(call uint64) {
			if call == 1 {
				expect("after the first of two refused", "refused", false)
			}
		}}
		r.alive.Store(false) // so that they come together
		deliver(t, s, "refused", ask(1, 1), ask(1, 2))
		synctest.Wait()
		r.alive.Store(true)
		r.Resume()
		synctest.Wait()
		deliver(t, s, "panics", ask(-1, 3), ask(1, 4))
		synctest.Wait()
		expect("in the pause after a panic", "panics", false)
		r.cfg.TryNew = func(id string) (Entity[*Context, int, int], error) {
			return &lapsing{script{r: r, id: id, do: func(_ *script, ctx *Context, _ int) (int, error) {
				ctx.Passivate()
				return 0, nil
			}}}, nil
		}
		deliver(t, s, "lapses", ask(1, 5), ask(1, 6))
		synctest.Wait()
		expect("after its end, without a lease", "lapses", false)
		r.alive.Store(true)
	})
}

// lapsing loses its node's lease in OnStop.
type lapsing struct{ script }

func (l *lapsing) OnStop(*Context) { l.r.alive.Store(false) }

// Who dismisses during a stop of the shard leaves it to the stop.
func TestDismissDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var ends atomic.Int32
		r.cfg.New = func(id string) Entity[*Context, int, int] {
			return &slowlyParting{script{r: r, id: id, do: func(*script, *Context, int) (int, error) { return 0, nil }}, &ends}
		}
		s := r.start(t, 0)
		const n = parallelStops + 10
		for i := range n {
			deliver(t, s, fmt.Sprint(i), ask(1, uint64(1+i)))
		}
		synctest.Wait()
		var stopped []Stopped
		r.StopShard(0, s.Token(), time.Minute, false, func(st Stopped) { stopped = append(stopped, st) })
		for i := range n {
			if !s.Dismiss(fmt.Sprint(i)) {
				t.Errorf("%d is gone", i)
			}
		}
		synctest.Wait()
		close(r.gate)
		synctest.Wait()
		if len(stopped) != 1 || stopped[0].Forced || ends.Load() != n || r.counters.Entities.Load() != 0 {
			t.Errorf("%+v, %d of %d ended, %d are counted", stopped, ends.Load(), n, r.counters.Entities.Load())
		}
	})
}

// slowlyParting ends when the gate opens.
type slowlyParting struct {
	script
	ends *atomic.Int32
}

func (p *slowlyParting) OnStop(*Context) {
	<-p.r.gate
	p.ends.Add(1)
}
