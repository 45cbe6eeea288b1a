package activation

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// stasher puts aside what is 1 to 9 until 0 came; -2 waits for the gate, -3 too and
// passivates.
func stasher(t *testing.T, change func(*Config[*Context, int, int])) *rig {
	open := false
	return scripted(t, func(p *script, ctx *Context, req int) (int, error) {
		switch {
		case req == 0:
			open = true
			ctx.Unstash()
		case req == -2:
			<-p.r.gate
		case req == -3:
			<-p.r.gate
			open = true
			ctx.Passivate()
		case req < 10 && !open:
			return 0, ctx.Stash()
		}
		return req, nil
	}, nil, func(c *Config[*Context, int, int]) {
		c.Control = func(req int) bool { return req == 0 || req >= 100 }
		if change != nil {
			change(c)
		}
	})
}

// stopStashed stops a shard whose entity has stashed an ask: the ask fails with ErrNotHosted.
func (r *rig) stopStashed(t *testing.T) {
	t.Helper()
	s := r.start(t, 0)
	deliver(t, s, "a", ask(1, 1))
	synctest.Wait()
	r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
	r.expectReply(t, 1, ErrNotHosted)
}

// What is taken out again comes behind control messages, and before what came later.
func TestUnstashedMessagesComeBehindControlMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stasher(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2), ask(-2, 3))
		synctest.Wait()
		deliver(t, s, "a", ask(50, 4), ask(0, 5), ask(100, 6))
		close(r.gate)
		r.expectLog(t, "a:1", "a:2", "a:-2", "a:0", "a:100", "a:1", "a:2", "a:50")
	})
}

// The next instance gets what the last one put aside behind control messages, too.
func TestTheNextInstanceGetsTheStashBehindControlMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stasher(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(-3, 2))
		synctest.Wait()
		deliver(t, s, "a", ask(50, 3), ask(100, 4))
		close(r.gate)
		r.expectLog(t, "a:1", "a:-3", "a:100", "a:1", "a:50")
	})
}

// What was put aside and taken out again stands in the mailbox, and takes room there.
func TestUnstashedMessagesTakeRoomInTheMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := false
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			switch {
			case req == 0:
				open = true
				ctx.Unstash()
			case !open:
				return 0, ctx.Stash()
			default:
				<-p.r.gate
			}
			return req, nil
		}, nil, func(c *Config[*Context, int, int]) { c.Mailbox = 3 })
		s := r.start(t, 0)
		for i := range 3 {
			deliver(t, s, "a", ask(1+i, uint64(1+i)))
			synctest.Wait()
		}
		deliver(t, s, "a", ask(0, 4))
		synctest.Wait() // 1 has its turn, 2 and 3 wait
		deliver(t, s, "a", ask(5, 5))
		if err := offer(s, "a", ask(6, 6)); !errors.Is(err, failure.MailboxFull) {
			t.Errorf("the fourth of three: %v", err)
		}
		close(r.gate)
		r.expectReply(t, 5, nil)
	})
}

// A message whose handler panicked is not put aside, whatever it asked for before, even
// if its instance lives on.
func TestAPanicPutsNothingAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []Directive{Restart, Resume, Stop} {
			r := scripted(t, func(_ *script, ctx *Context, _ int) (int, error) {
				_ = ctx.Stash()
				panic("on second thoughts")
			}, nil, func(c *Config[*Context, int, int]) { c.Supervision.OnPanic = d })
			deliver(t, r.start(t, 0), "a", ask(1, 1))
			r.expectReply(t, 1, failure.Panicked)
		}
	})
}

// An ask that is put aside when its shard is gone already is answered.
func TestWhatIsPutAsideTooLateIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, _ int) (int, error) {
			<-p.r.gate
			return 0, ctx.Stash()
		}, nil, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		synctest.Wait()
		r.Abandon()
		close(r.gate)
		r.expectReply(t, 1, failure.Abandoned)
	})
}

// An idle end is no move: who waits with messages aside is ended, and the next instance
// has them.
func TestAnIdleEndHandsTheStashOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stasher(t, func(c *Config[*Context, int, int]) { c.IdleTimeout = time.Minute })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		pass(100 * time.Second)
		if n := r.answers(); n != 0 {
			t.Fatalf("answered: %v", r.replies)
		}
		r.expectLog(t, "a:1", "a:1")
		deliver(t, s, "a", ask(0, 2))
		r.expectReply(t, 1, nil)
	})
}

// parting is a script with an OnStop.
type parting struct{ script }

func (*parting) OnStop(*Context) {}

// A shard that stops tells the askers of what is aside that it moved, also of instances
// that have something to do at their end.
func TestStashesOfStoppersOfAShardThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cfg.New = func(id string) Entity[*Context, int, int] {
			return &parting{script{r: r, id: id, do: func(_ *script, ctx *Context, _ int) (int, error) { return 0, ctx.Stash() }}}
		}
		r.stopStashed(t)
	})
}

// An ask that is aside when the instance is abandoned is answered, too.
func TestStashesOfTheAbandonedAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stasher(t, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1), Message[int]{Req: 2})
		synctest.Wait()
		r.Abandon()
		r.expectReply(t, 1, failure.Abandoned)
		if n := r.counters.AbandonedTells.Load(); n != 1 {
			t.Errorf("%d tells are counted, want 1", n)
		}
	})
}
