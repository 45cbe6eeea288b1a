package activation

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// script is an entity that does what a test says and notes what it was called for.
type script struct {
	r     *rig
	id    string
	calls int
	do    func(*script, *Context, int) (int, error)
	timed func(*script, *Context, string) error
}

func (p *script) Handle(ctx *Context, req int) (int, error) {
	p.calls++
	p.r.note(fmt.Sprintf("%s:%d", p.id, req))
	return p.do(p, ctx, req)
}

func (p *script) OnTimer(ctx *Context, name string) error {
	p.r.note(p.id + ":" + name)
	if p.timed != nil {
		return p.timed(p, ctx, name)
	}
	return nil
}

// scripted is a rig whose entities follow a script.
func scripted(t *testing.T, do func(*script, *Context, int) (int, error), timed func(*script, *Context, string) error, change func(*Config[*Context, int, int])) *rig {
	var r *rig
	r = newRig(t, func(c *Config[*Context, int, int]) {
		c.New = func(id string) Entity[*Context, int, int] {
			r.mu.Lock()
			r.made++
			r.mu.Unlock()
			return &script{r: r, id: id, do: do, timed: timed}
		}
		if change != nil {
			change(c)
		}
	})
	return r
}

// answers waits until all is quiet and returns the number of answers so far.
func (r *rig) answers() int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.replies)
}

func TestTimersFireThroughTheMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			switch req {
			case 1:
				return 0, errors.Join(ctx.After("once", time.Second), ctx.Every("tick", 2*time.Second))
			case 2:
				<-p.r.gate
			case 3:
				ctx.Cancel("tick")
			case 4:
				return 0, ctx.After("once", 0)
			}
			return 0, nil
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(4, 2))
		r.expectReply(t, 1, nil)
		r.expectReply(t, 2, failure.Timer)
		pass(5 * time.Second)
		r.expectLog(t, "a:1", "a:4", "a:once", "a:tick", "a:tick")
		// A busy entity misses turns: one call waits, never two.
		deliver(t, s, "a", ask(2, 3))
		pass(10 * time.Second)
		deliver(t, s, "a", ask(3, 4))
		close(r.gate)
		r.expectLog(t, "a:1", "a:4", "a:once", "a:tick", "a:tick", "a:2", "a:tick", "a:3")
		pass(time.Minute)
		r.expectLog(t, "a:1", "a:4", "a:once", "a:tick", "a:tick", "a:2", "a:tick", "a:3")
	})
}

// A timer that was cancelled, or set anew, is not called for although it has run
// out already and stands in the mailbox.
func TestCancelledTimersInTheMailboxAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			_ = ctx.After("x", time.Second)
			<-p.r.gate
			ctx.Cancel("x")
			return 0, nil
		}, nil, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		pass(2 * time.Second)
		close(r.gate)
		pass(2 * time.Second)
		r.expectLog(t, "a:1")
	})
}

func TestTimersEndWithTheirInstance(t *testing.T) {
	ends := map[string]func(*rig, *Shard[*Context, int, int]){
		"stop": func(r *rig, s *Shard[*Context, int, int]) {
			r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		},
		"abandon":   func(r *rig, _ *Shard[*Context, int, int]) { r.Abandon() },
		"panic":     func(_ *rig, s *Shard[*Context, int, int]) { _ = offer(s, "a", ask(-1, 2)) },
		"passivate": func(_ *rig, s *Shard[*Context, int, int]) { _ = offer(s, "a", ask(-3, 2)) },
		"idle":      func(*rig, *Shard[*Context, int, int]) { pass(2 * time.Minute) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
					switch req {
					case -1:
						panic("minus one")
					case -3:
						ctx.Passivate()
					}
					return 0, errors.Join(ctx.Every("tick", 90*time.Second), ctx.Every(ReceiveTimeout, 90*time.Second))
				}, nil, func(c *Config[*Context, int, int]) { c.IdleTimeout = time.Minute })
				deliver(t, r.start(t, 0), "a", ask(1, 1))
				synctest.Wait()
				end(r, r.Shard(0))
				pass(10 * time.Minute)
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, line := range r.log[1:] {
					if line == "a:tick" {
						t.Errorf("handled %q", r.log)
					}
				}
			})
		})
	}
}

func TestTimersWaitForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, _ int) (int, error) { return 0, ctx.After("x", time.Second) }, nil, nil)
		deliver(t, r.start(t, 0), "a", ask(1, 1))
		synctest.Wait()
		r.alive.Store(false)
		pass(time.Minute)
		r.expectLog(t, "a:1")
		r.alive.Store(true)
		r.Resume()
		r.expectLog(t, "a:1", "a:x")
	})
}

func TestReceiveTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) {
			if req < 2 {
				return 0, ctx.ReceiveTimeout(time.Duration(req) * time.Minute)
			}
			return 0, nil
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		for i := range 3 {
			pass(40 * time.Second)
			deliver(t, s, "a", ask(5, uint64(2+i)))
		}
		r.expectLog(t, "a:1", "a:5", "a:5", "a:5")
		pass(61 * time.Second)
		r.expectLog(t, "a:1", "a:5", "a:5", "a:5", "a:"+ReceiveTimeout)
		deliver(t, s, "a", ask(0, 9))
		pass(time.Hour)
		r.expectLog(t, "a:1", "a:5", "a:5", "a:5", "a:"+ReceiveTimeout, "a:0")
	})
}

func TestStash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := false
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			switch {
			case req == 0:
				open = true
				ctx.Unstash()
			case req == -3:
				ctx.Passivate()
			case !open:
				return 0, ctx.Stash()
			}
			return req, nil
		}, nil, func(c *Config[*Context, int, int]) { c.Mailbox = 3 })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2))
		if n := r.answers(); n != 0 {
			t.Fatalf("%d stashed asks were answered", n)
		}
		// The next instance gets them first, and puts them aside again.
		deliver(t, s, "a", ask(-3, 3), ask(3, 4))
		synctest.Wait()
		deliver(t, s, "a", ask(4, 5))
		r.expectReply(t, 5, failure.StashFull)
		deliver(t, s, "a", ask(0, 6))
		r.expectReply(t, 1, nil)
		r.expectReply(t, 2, nil)
		r.expectReply(t, 4, nil)
		r.expectLog(t, "a:1", "a:2", "a:-3", "a:1", "a:2", "a:3", "a:4", "a:0", "a:1", "a:2", "a:3")
	})
}

func TestStashedAsksOfAShardThatStopsAreToldThatItMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, req int) (int, error) { return 0, ctx.Stash() }, nil, nil)
		r.stopStashed(t)
	})
}

func TestControlMessagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Control = func(req int) bool {
				if req == 666 {
					panic("not a request")
				}
				return req >= 100
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(1, 2), ask(666, 3))
		synctest.Wait()
		deliver(t, s, "a", ask(3, 4), ask(100, 5), ask(4, 6), ask(101, 7))
		for i := range 6 {
			deliver(t, s, "a", ask(5, uint64(20+i)))
		}
		// A full mailbox does not hold them up.
		if err := offer(s, "a", ask(6, 98)); !errors.Is(err, failure.MailboxFull) {
			t.Errorf("ordinary message: %v", err)
		}
		deliver(t, s, "a", ask(102, 8))
		// A pause keeps the order.
		r.alive.Store(false)
		close(r.gate)
		synctest.Wait()
		deliver(t, s, "a", ask(103, 9))
		r.alive.Store(true)
		r.Resume()
		r.expectLog(t, "a:-2", "a:100", "a:101", "a:102", "a:103", "a:1", "a:666", "a:3", "a:4", "a:5", "a:5", "a:5", "a:5", "a:5", "a:5")
		r.alive.Store(false)
		deliver(t, s, "b", ask(1, 40))
		synctest.Wait()
		for i := range 10 {
			deliver(t, s, "b", ask(100, uint64(50+i)))
		}
		if err := offer(s, "b", ask(100, 60)); !errors.Is(err, failure.MailboxFull) {
			t.Errorf("control message 11 of 10: %v", err)
		}
		r.alive.Store(true)
	})
}

func TestSupervision(t *testing.T) {
	for _, c := range []struct {
		name  string
		sup   Supervision
		log   []string
		sum   int
		asked error
	}{
		{"restart", Supervision{}, []string{"a:5", "a:-1", "a:6"}, 6, nil},
		{"resume", Supervision{OnPanic: Resume}, []string{"a:5", "a:-1", "a:6"}, 11, nil},
		{"stop", Supervision{OnPanic: Stop}, []string{"a:5", "a:-1"}, 0, failure.Panicked},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(cfg *Config[*Context, int, int]) { cfg.Supervision = c.sup })
				s := r.start(t, 0)
				deliver(t, s, "a", ask(5, 1), ask(-1, 2), ask(6, 3))
				r.expectReply(t, 2, failure.Panicked)
				r.expectReply(t, 3, c.asked)
				r.expectLog(t, c.log...)
				if r.values[3] != c.sum {
					t.Errorf("sum %d, want %d", r.values[3], c.sum)
				}
				deliver(t, s, "a", ask(1, 4))
				r.expectReply(t, 4, nil)
			})
		})
	}
}

func TestBackoffDoublesAndHoldsTheMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Supervision = Supervision{BackoffMin: time.Second, BackoffMax: 3 * time.Second}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-1, 1), ask(-1, 2), ask(-1, 3), ask(-1, 4), ask(1, 5))
		for i, at := range []time.Duration{0, 1, 3, 6} {
			pass(at*time.Second + time.Millisecond - time.Since(r.cfg.Epoch))
			if n := r.answers(); n != i+1 {
				t.Fatalf("after %d s %d answers, want %d", at, n, i+1)
			}
		}
		// Another entity does not wait, and neither does a stop.
		deliver(t, s, "b", ask(1, 6))
		r.expectReply(t, 6, nil)
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		r.expectReply(t, 5, nil)
		if r.Count() != 0 {
			t.Error("the stop waits for a pause")
		}
	})
}

func TestAPausedEntityCanBeAbandonedAndForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Supervision = Supervision{BackoffMin: time.Second, BackoffMax: time.Hour}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-1, 1))
		pass(2 * time.Second)
		if s.Entities() != 0 {
			t.Error("an entity without mail stays after its pause")
		}
		deliver(t, s, "a", ask(-1, 2), ask(1, 3))
		synctest.Wait()
		r.Abandon()
		r.expectReply(t, 3, failure.Abandoned)
		pass(time.Hour)
		r.expectLog(t, "a:-1", "a:-1")
	})
}

func TestPauses(t *testing.T) {
	v := Supervision{BackoffMin: 100 * time.Millisecond, BackoffMax: time.Second}
	var got []time.Duration
	for n := range uint32(6) {
		got = append(got, v.Pause(n+1)/time.Millisecond)
	}
	if want := []time.Duration{100, 200, 400, 800, 1000, 1000}; !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	for _, bad := range []Supervision{{OnPanic: 3}, {BackoffMin: -1}, {BackoffMin: 2, BackoffMax: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
