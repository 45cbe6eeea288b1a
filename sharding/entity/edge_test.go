package entity

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

	"github.com/peerage-go/peerage/internal/loglimit"
)

// Who is kept alive is started without a message. That is no error, and a start that
// fails is one, which is logged, within a budget: there is no asker to tell.
func TestEnsuredStartsAreNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newRig(t, func(c *Config[int, int]) {
			made := c.New
			c.New = func(id string) Entity[int, int] {
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
		for range 2 * loglimit.Burst {
			s.Ensure("bad")
			synctest.Wait()
		}
		if n := r.counters.HandlerErrors.Load(); n != 2*loglimit.Burst || s.Lives("bad") {
			t.Errorf("%d errors of starts", n)
		}
		if n := strings.Count(out.String(), "database is down"); n != loglimit.Burst {
			t.Errorf("%d lines about starts, want %d:\n%s", n, loglimit.Burst, &out)
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
		r.cfg.New = func(id string) Entity[int, int] {
			return &beginner{probe{id: id, r: r}, func(ctx *Context) error { stashed = ctx.Stash(); return nil }}
		}
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		r.expectReply(t, 1, nil)
		if !errors.Is(stashed, ErrStash) {
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
			if err := ctx.After("one more", time.Hour); !errors.Is(err, ErrTimer) {
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
		r.cfg.Make = func(id string) (Entity[int, int], error) {
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
