package activation

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// nilErr is the error of those who return a nil pointer for one: it panics when asked.
type nilErr struct{ text string }

func (e *nilErr) Error() string { return e.text }

// frail is an entity each of whose calls does what a test says: return an error, panic,
// end its goroutine.
type frail struct {
	id     string
	r      *rig
	start  func(*Context) error
	handle func(*Context, int) (int, error)
	snap   func(*Context) ([]byte, error)
	back   func(*Context, []byte) error
	stop   func(*Context)
}

func (f *frail) OnStart(ctx *Context) error {
	if f.start != nil {
		return f.start(ctx)
	}
	return nil
}

func (f *frail) Handle(ctx *Context, req int) (int, error) {
	f.r.note(fmt.Sprintf("%s:%d", f.id, req))
	if f.handle != nil {
		return f.handle(ctx, req)
	}
	return req, nil
}

func (f *frail) Snapshot(ctx *Context) ([]byte, error) {
	if f.snap != nil {
		return f.snap(ctx)
	}
	return []byte(f.id), nil
}

func (f *frail) Restore(ctx *Context, state []byte) error {
	if f.back != nil {
		return f.back(ctx, state)
	}
	return nil
}

func (f *frail) OnStop(ctx *Context) {
	f.r.note(f.id + ":stop")
	if f.stop != nil {
		f.stop(ctx)
	}
}

func (f *frail) OnTimer(_ *Context, name string) error {
	f.r.note(f.id + ":" + name)
	return nil
}

// frails is a rig of frail entities; each is made anew by prepare.
func frails(t *testing.T, prepare func(*frail), change func(*Config[*Context, int, int])) *rig {
	var r *rig
	r = newRig(t, func(c *Config[*Context, int, int]) {
		c.New = func(id string) Entity[*Context, int, int] {
			f := &frail{id: id, r: r}
			prepare(f)
			return f
		}
		if change != nil {
			change(c)
		}
	})
	return r
}

// stopShard stops shard 0 and returns what it reported.
func (r *rig) stopShard(t *testing.T, keep bool) Stopped {
	t.Helper()
	done := make(chan Stopped, 1)
	r.StopShard(0, r.Shard(0).Token(), time.Minute, keep, func(st Stopped) { done <- st })
	return <-done
}

// A nil pointer that was returned as an error is no nil error, and panics when it is
// asked what it says. That is the application's panic, wherever it came from.
func TestAnErrorThatPanicsIsContained(t *testing.T) {
	var bad *nilErr
	for name, broken := range map[string]func(*frail){
		"Handle":  func(f *frail) { f.handle = func(*Context, int) (int, error) { return 0, bad } },
		"OnStart": func(f *frail) { f.start = func(*Context) error { return bad } },
		"Restore": func(f *frail) { f.back = func(*Context, []byte) error { return bad } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				r := frails(t, func(f *frail) {
					if first {
						broken(f)
					}
					first = false
				}, nil)
				s, err := r.StartShard(0, Token{Term: 1}, map[string][]byte{"a": {1}})
				if err != nil {
					t.Fatal(err)
				}
				deliver(t, s, "a", ask(1, 1), ask(2, 2))
				r.expectReply(t, 1, failure.Panicked)
				r.expectReply(t, 2, nil)
			})
		})
	}
}

// An error that a handler got elsewhere and hands on is its answer, and says nothing of
// the message in its hands: that has run, whatever became of the other.
func TestAHandlersErrorIsItsAnswerWhateverItWraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elsewhere := []error{failure.MailboxFull, failure.Abandoned, ErrNotHosted, ErrExpired, &PanicError{Value: "there"}, failure.Restore, failure.State}
		aside := true
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				switch {
				case req < len(elsewhere):
					return 0, elsewhere[req]
				case aside:
					aside = false
					return 0, errors.Join(ctx.Stash(), &PanicError{Value: "there"})
				}
				ctx.Unstash()
				return req, nil
			}
		}, nil)
		s := r.start(t, 0)
		for i, err := range elsewhere {
			deliver(t, s, "a", ask(i, uint64(i+1)))
			synctest.Wait()
			if said, ok := r.replies[uint64(i+1)].(*Said); !ok || said.Text != err.Error() {
				t.Errorf("%v came as %T", err, r.replies[uint64(i+1)])
			}
		}
		// Of a tell it is counted, and it undoes no Stash.
		deliver(t, s, "a", Message[int]{Req: 4})
		deliver(t, s, "a", ask(100, 100), ask(101, 101))
		r.expectReply(t, 101, nil)
		r.expectReply(t, 100, nil)
		if n := r.counters.HandlerErrors.Load(); n != 1 || r.counters.Panicked.Load() != 0 {
			t.Errorf("%d errors, %d panics counted", n, r.counters.Panicked.Load())
		}
	})
}

// A handler that puts its stash back and panics, with control messages behind it, takes
// along those that wait under Stop, and nobody else.
func TestStopOnPanicFailsWhatWaitsOfBothPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				switch req {
				case 1:
					<-f.r.gate
				case 101:
					ctx.Unstash()
					panic("one hundred and one")
				}
				return req, nil
			}
		}, func(c *Config[*Context, int, int]) {
			c.Control = func(req int) bool { return req > 100 }
			c.Supervision.OnPanic = Stop
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2))
		synctest.Wait()
		deliver(t, s, "a", ask(101, 3), ask(102, 4), ask(103, 5))
		close(r.gate)
		for call := range uint64(4) {
			r.expectReply(t, call+2, failure.Panicked)
		}
		r.expectLog(t, "a:1", "a:101")
		deliver(t, s, "a", ask(104, 6), ask(3, 7))
		r.expectReply(t, 7, nil)
	})
}

// Timers are their instance's: those of an OnStart that failed are not its successor's.
func TestAFailedOnStartLeavesNoTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		r := frails(t, func(f *frail) {
			if first {
				f.start = func(ctx *Context) error {
					return errors.Join(ctx.Every("early", time.Second), errors.New("not yet"))
				}
			}
			first = false
		}, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2))
		r.expectReply(t, 2, nil)
		pass(time.Minute)
		r.expectLog(t, "a:2")
	})
}

// Passivation is contained too, and the next message finds an instance.
func TestAPanicAtPassivationEndsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) { ctx.Passivate(); return req, ctx.Err() }
			f.stop = func(ctx *Context) { <-time.After(time.Second); _ = ctx.Err(); panic("no") }
		}, func(c *Config[*Context, int, int]) { c.StopTimeout = time.Minute })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2))
		pass(10 * time.Second)
		r.expectLog(t, "a:1", "a:stop", "a:2", "a:stop")
		if n := r.counters.Panicked.Load(); n != 2 || s.Entities() != 0 {
			t.Errorf("%d panics counted, %d entities left", n, s.Entities())
		}
	})
}

// paused is a rig whose handlers panic at negative requests, when the gate lets them, and
// then pause.
func paused(t *testing.T, sup Supervision) *rig {
	return scripted(t, func(p *script, ctx *Context, req int) (int, error) {
		switch req {
		case -2:
			<-p.r.gate
			panic("minus two")
		case -1:
			panic("minus one")
		case 9:
			return 0, ctx.Stash()
		}
		return p.calls, nil
	}, nil, func(c *Config[*Context, int, int]) { c.Supervision = sup })
}

// The pauses grow as long as the entity panics again within BackoffMax of the last one,
// and begin anew behind a longer time without a panic.
func TestPausesAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := paused(t, Supervision{BackoffMin: time.Second, BackoffMax: 8 * time.Second})
		s, call := r.start(t, 0), uint64(0)
		for _, c := range []struct{ at, pause int }{{0, 1}, {5, 2}, {15, 4}, {40, 1}} {
			pass(time.Duration(c.at)*time.Second - time.Since(r.cfg.Epoch))
			call += 2
			deliver(t, s, "a", ask(-1, call), ask(1, call+1))
			pass(time.Duration(c.pause)*time.Second - time.Millisecond)
			if n := r.answers(); n != int(call)-1 {
				t.Errorf("the pause at %d s is shorter than %d s", c.at, c.pause)
			}
			pass(2 * time.Millisecond)
			if n := r.answers(); n != int(call) {
				t.Fatalf("the pause at %d s is longer than %d s", c.at, c.pause)
			}
		}
	})
}

// A shard that stops does not pause: what waits is handled, by another instance.
func TestAStopDoesNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := paused(t, Supervision{BackoffMin: time.Hour, BackoffMax: time.Hour})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(1, 2))
		synctest.Wait()
		began, done := time.Now(), make(chan Stopped, 1)
		r.StopShard(0, s.Token(), time.Minute, false, func(st Stopped) { done <- st })
		close(r.gate)
		if st := <-done; st.Forced || time.Since(began) > 0 {
			t.Errorf("%+v after %v", st, time.Since(began))
		}
		r.expectReply(t, 2, nil)
	})
}

// Under Resume the instance goes on, and nothing pauses; but where there is none, since
// New panicked, there is nothing to resume.
func TestResumePausesOnlyWithoutAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Supervision = Supervision{OnPanic: Resume, BackoffMin: time.Second, BackoffMax: time.Second}
			old := c.New
			c.New = func(id string) Entity[*Context, int, int] {
				if made++; made == 1 {
					panic("not yet")
				}
				return old(id)
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2), ask(-1, 3), ask(3, 4))
		pass(999 * time.Millisecond)
		if n := r.answers(); n != 1 {
			t.Errorf("%d answers before the pause is over", n)
		}
		pass(2 * time.Millisecond)
		r.expectReply(t, 3, failure.Panicked)
		if n := r.answers(); n != 4 || r.values[4] != 5 {
			t.Errorf("%d answers, sum %d", n, r.values[4])
		}
	})
}

// Under Stop all fails that came before the panic, also while the handler ran.
func TestStopOnPanicFailsWhatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := paused(t, Supervision{OnPanic: Stop})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(9, 1), ask(-2, 2))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 3), ask(2, 4))
		synctest.Wait()
		close(r.gate)
		for call := range uint64(4) {
			r.expectReply(t, call+1, failure.Panicked)
		}
		deliver(t, s, "a", ask(1, 5))
		r.expectReply(t, 5, nil)
		if r.values[5] != 1 {
			t.Errorf("call %d of the instance, want the first of another", r.values[5])
		}
	})
	// Of one that was abandoned meanwhile nobody knows.
	synctest.Test(t, func(t *testing.T) {
		r := paused(t, Supervision{OnPanic: Stop})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(9, 1), ask(9, 2), ask(-2, 3), ask(1, 4))
		synctest.Wait()
		r.Abandon()
		close(r.gate)
		for call := range uint64(4) {
			r.expectReply(t, call+1, failure.Abandoned)
		}
	})
}

// What was put aside comes before what waits, when another instance takes over; in a
// shard that stops nobody does.
func TestWhatWasAsideComesFirstAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := paused(t, Supervision{})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(9, 1))
		synctest.Wait()
		r.alive.Store(false)
		deliver(t, s, "a", ask(-2, 2), ask(1, 3))
		synctest.Wait()
		r.alive.Store(true)
		r.Resume() // both are in hand
		synctest.Wait()
		deliver(t, s, "a", ask(2, 4))
		close(r.gate)
		r.expectLog(t, "a:9", "a:-2", "a:9", "a:1", "a:2")
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		r.expectReply(t, 1, ErrNotHosted)
	})
	synctest.Test(t, func(t *testing.T) {
		r := paused(t, Supervision{})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(9, 1), ask(-2, 2), ask(1, 3))
		synctest.Wait()
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		close(r.gate)
		r.expectReply(t, 3, nil)
		r.expectReply(t, 1, ErrNotHosted)
		r.expectLog(t, "a:9", "a:-2", "a:1")
	})
}

// A type whose New makes nothing tells so, of messages and of starts.
func TestNewThatMakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.New = func(string) Entity[*Context, int, int] { return nil } })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(1, 2).ForStart(), Message[int]{})
		r.expectReply(t, 1, failure.Panicked)
		r.expectReply(t, 2, failure.Panicked)
		// A panic is counted as one, and not as an error that a handler returned.
		if n, errs := r.counters.Panicked.Load(), r.counters.HandlerErrors.Load(); n != 3 || errs != 0 || s.Entities() != 0 {
			t.Errorf("%d panics, %d errors, %d entities", n, errs, s.Entities())
		}
	})
}

// Every message that reached its handler is counted once, whatever the handler did.
func TestHandledCountsThoseWhoseHandlerDidNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "b", ask(-2, 1), ask(1, 2), ask(-1, 3), ask(2, 4), ask(-4, 5), ask(3, 6))
		synctest.Wait()
		close(r.gate)
		r.expectReply(t, 6, nil)
		if n := r.counters.Handled.Load(); n != 6 {
			t.Errorf("%d handled, want 6", n)
		}
	})
}

// Failures of entities' code are logged once a minute: of each kind, and for the whole type. A
// handler that panics for each message would otherwise fill the disk with stacks.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				if req == 3 {
					ctx.Passivate()
					return 0, nil
				}
				panic(fmt.Sprint("no ", req))
			}
			f.stop = func(*Context) { <-f.r.gate }
		}, func(c *Config[*Context, int, int]) {
			c.Logger, c.StopTimeout = slog.New(slog.NewTextHandler(&out, nil)), time.Second
		})
		s := r.start(t, 0)
		calls := uint64(0)
		each := func(req, entities int) {
			for i := range entities {
				calls++
				deliver(t, s, fmt.Sprint("e", i), ask(req, calls))
				synctest.Wait()
			}
			pass(2 * time.Second)
		}
		expect := func(want map[string]int) {
			t.Helper()
			synctest.Wait() // until the timers that log have ended
			for text, n := range want {
				if got := strings.Count(out.String(), text); got != n {
					t.Errorf("%d lines with %q, want %d:\n%s", got, text, n, &out)
				}
			}
			out.Reset()
		}
		each(1, 50)
		each(2, 50)
		each(3, 50)
		expect(map[string]int{`panic="no 1"`: 1, `panic="no 2"`: 1, "stack=": 2, "instance did not end in time": 1, "lines_folded": 0})
		pass(time.Minute)
		close(r.gate)
		each(2, 2)
		expect(map[string]int{`panic="no 2"`: 1, "lines_folded=49": 1})
	})
}
