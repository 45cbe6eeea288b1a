package activation

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/failure"
)

// plain is a rig of entities without OnStop, which know how often they were called.
func plain(t *testing.T, change func(*Config[*Context, int, int])) *rig {
	aside := true
	return scripted(t, func(p *script, ctx *Context, req int) (int, error) {
		switch {
		case req == -2:
			<-p.r.gate
		case req == 9 && aside:
			aside = false
			return 0, ctx.Stash()
		}
		return p.calls, nil
	}, nil, change)
}

// An instance ends when it was idle for its time, and up to a quarter of it late; never
// before, nor while it handles a message, nor without a lease.
func TestIdleInstancesEndInTime(t *testing.T) {
	idle := func(d time.Duration) func(*Config[*Context, int, int]) {
		return func(c *Config[*Context, int, int]) { c.IdleTimeout = d }
	}
	run := func(name string, d time.Duration, do func(*testing.T, *rig, *Shard[*Context, int, int])) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := plain(t, idle(d))
				do(t, r, r.start(t, 0))
			})
		})
	}
	run("in time", time.Minute, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		pass(14 * time.Second)
		deliver(t, s, "a", ask(1, 1))
		pass(59 * time.Second)
		r.expectIDs(t, s, "a")
		pass(16 * time.Second)
		r.expectIDs(t, s)
	})
	run("not while busy", time.Minute, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		deliver(t, s, "a", ask(-2, 1))
		pass(time.Hour)
		deliver(t, s, "a", ask(1, 2))
		close(r.gate)
		r.expectReply(t, 2, nil)
		if r.values[2] != 2 || r.made != 1 {
			t.Errorf("%d calls of the instance, %d were made", r.values[2], r.made)
		}
	})
	run("not without lease", time.Minute, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		r.alive.Store(false)
		pass(time.Hour)
		r.expectIDs(t, s, "a")
		r.alive.Store(true)
		pass(time.Minute)
		r.expectIDs(t, s)
	})
	run("with a message aside", time.Minute, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		deliver(t, s, "a", ask(9, 1))
		pass(2 * time.Minute)
		r.expectLog(t, "a:9", "a:9") // the next one had it first
		r.expectReply(t, 1, nil)
	})
	run("after a start", time.Minute, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		pass(time.Hour)
		s.Ensure("a")
		pass(59 * time.Second)
		r.expectIDs(t, s, "a")
		pass(30 * time.Second)
		r.expectIDs(t, s)
	})
	run("for ever", 4*time.Millisecond, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		pass((1<<16 + 10) * time.Millisecond) // the count of sweeps has gone round
		deliver(t, s, "a", ask(1, 1))
		pass(3 * time.Millisecond)
		r.expectIDs(t, s, "a")
	})
	run("immediately", 1, func(t *testing.T, r *rig, s *Shard[*Context, int, int]) {
		deliver(t, s, "a", ask(1, 1))
		pass(10 * time.Millisecond)
		r.expectIDs(t, s)
	})
}

// Contexts go from entity to entity, and bear the name of the one that has them.
func TestContextsNameTheirEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				self := Sender{Node: 7, Type: "t", ID: f.id}
				c, _, _ := From(ctx)
				if from, err := SenderOf(c); ctx.ID() != f.id || ctx.Self() != self || err != nil || *from != self {
					t.Errorf("%s is named %s, and sends as %+v: %v", f.id, ctx.ID(), from, err)
				}
				if want := (Sender{Node: gossip.NodeID(7 + req), Type: []string{"", "other"}[req]}); ctx.Sender() != want {
					t.Errorf("message %d comes from %+v", req, ctx.Sender())
				}
				return req, nil
			}
		}, nil)
		s := r.start(t, 0)
		for i := range 50 {
			m := ask(i%2, uint64(i+1))
			if i%2 == 1 {
				m.From = &Sender{Node: 8, Type: "other"}
			}
			deliver(t, s, fmt.Sprint("e", i), m)
			synctest.Wait()
		}
	})
}

// Timers are no messages: they keep nobody from being idle, and are not counted.
func TestTimersKeepNobodyFromBeingIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, _ int) (int, error) { return 0, ctx.Every("tick", 25*time.Second) }, nil,
			func(c *Config[*Context, int, int]) { c.IdleTimeout = time.Minute })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		pass(5 * time.Minute)
		r.expectIDs(t, s)
		if n := r.counters.Handled.Load(); n != 1 || len(r.log) < 3 {
			t.Errorf("%d counted; called for %q", n, r.log)
		}
	})
}

// What OnStop says of Passivate and Stash is about nobody.
func TestOrdersInOnStopAreNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		r := frails(t, func(f *frail) {
			f.handle = func(ctx *Context, req int) (int, error) {
				if req == -3 {
					ctx.Passivate()
				}
				return req, nil
			}
			f.stop = func(ctx *Context) { err = ctx.Stash(); ctx.Unstash(); ctx.Passivate() }
			f.snap = func(*Context) ([]byte, error) { f.r.note("snapshot"); return nil, nil }
		}, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-3, 1), ask(1, 2), ask(2, 3))
		r.expectLog(t, "a:-3", "a:stop", "a:1", "a:2") // and no Snapshot: nothing travels
		if !errors.Is(err, failure.Stash) || s.Entities() != 1 {
			t.Errorf("Stash: %v; %d live", err, s.Entities())
		}
	})
}

// Dismiss ends an instance when the messages in its hands are done, and what waits behind
// them meets another: nothing is lost.
func TestDismiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, ended []string
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Lived = func(_ ShardID, id string, lives bool) {
				if lives {
					begun = append(begun, id)
				} else {
					ended = append(ended, id)
				}
			}
		})
		s := r.start(t, 0)
		if s.Dismiss("a") {
			t.Error("there is one that never was")
		}
		deliver(t, s, "a", ask(-2, 1), ask(1, 2))
		synctest.Wait()
		deliver(t, s, "b", ask(1, 3))
		synctest.Wait()
		r.alive.Store(false)
		if !s.Dismiss("a") || !s.Dismiss("b") {
			t.Error("those that pause are not there")
		}
		r.alive.Store(true)
		r.expectIDs(t, s, "a", "b")
		if !s.Dismiss("a") || !s.Dismiss("b") {
			t.Error("those that end are not there")
		}
		r.expectIDs(t, s, "a")
		deliver(t, s, "a", ask(2, 4))
		close(r.gate)
		r.expectLog(t, "a:-2", "b:1", "b:stop", "a:stop", "a:1", "a:2")
		if !slices.Equal(ended, []string{"b", "a"}) || s.Dismiss("b") {
			t.Errorf("%q ended by themselves", ended)
		}
		if !slices.Equal(begun, []string{"a", "b", "a"}) || r.counters.Activated.Load() != 3 {
			t.Errorf("%q began, %d counted", begun, r.counters.Activated.Load())
		}
	})
}

// loosen makes a rig whose OnStop waits for the gate, and StopTimeout one second.
func loosen(t *testing.T, change func(*Config[*Context, int, int])) *rig {
	return frails(t, func(f *frail) {
		aside := true
		f.handle = func(ctx *Context, req int) (int, error) {
			switch {
			case req == -3:
				ctx.Passivate()
			case req == 9 && aside:
				aside = false
				return 0, ctx.Stash()
			}
			return req, nil
		}
		f.stop = func(*Context) { <-f.r.gate }
	}, func(c *Config[*Context, int, int]) {
		c.StopTimeout = time.Second
		if change != nil {
			change(c)
		}
	})
}

// An instance that was cut loose holds nothing up: not the stop of its shard, neither
// one that comes later nor one that waited for it; not the room that others have.
func TestOneThatWasCutLooseHoldsNothingUp(t *testing.T) {
	t.Run("a later stop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := loosen(t, nil)
			deliver(t, r.start(t, 0), "a", ask(-3, 1))
			pass(2 * time.Second)
			if st := r.stopShard(t, false); st.Forced {
				t.Error("forced")
			}
			close(r.gate)
		})
	})
	t.Run("a stop meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := loosen(t, nil)
			deliver(t, r.start(t, 0), "a", ask(-3, 1))
			synctest.Wait()
			if st := r.stopShard(t, false); st.Forced || r.counters.CutLoose.Load() != 1 {
				t.Errorf("%+v, %d cut loose", st, r.counters.CutLoose.Load())
			}
			close(r.gate)
		})
	})
	t.Run("the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := loosen(t, func(c *Config[*Context, int, int]) {
				c.Passivation = Passivation{Limit: 2}
			})
			s := r.start(t, 0)
			deliver(t, s, "b", ask(1, 1))
			synctest.Wait()
			deliver(t, s, "a", ask(-3, 2))
			pass(2 * time.Second)
			deliver(t, s, "c", ask(1, 3))
			r.expectLog(t, "b:1", "a:-3", "a:stop", "c:1")
			close(r.gate)
		})
	})
	t.Run("who waits for room", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := loosen(t, func(c *Config[*Context, int, int]) { c.Mailbox = 1 })
			s := r.start(t, 0)
			deliver(t, s, "a", ask(-3, 1))
			synctest.Wait()
			deliver(t, s, "a", ask(1, 2))
			began := time.Now()
			if err := s.Await(t.Context(), "a", &Message[int]{}); err != nil || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			close(r.gate)
		})
	})
	t.Run("what it put aside", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := loosen(t, nil)
			s := r.start(t, 0)
			deliver(t, s, "a", ask(9, 1), ask(-3, 2))
			synctest.Wait()
			if n := r.answers(); n != 1 {
				t.Fatalf("%d answers", n)
			}
			pass(2 * time.Second)
			r.expectLog(t, "a:9", "a:-3", "a:stop", "a:9")
			close(r.gate)
		})
	})
}

// Without StopTimeout a goodbye may take for ever; and one that is abandoned with its
// shard is not cut loose once more.
func TestWhoIsNotCutLoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := loosen(t, func(c *Config[*Context, int, int]) { c.StopTimeout = 0 })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-3, 1), ask(1, 2))
		pass(time.Hour)
		r.expectLog(t, "a:-3", "a:stop")
		close(r.gate)
		r.expectReply(t, 2, nil)
	})
	synctest.Test(t, func(t *testing.T) {
		r := loosen(t, nil)
		deliver(t, r.start(t, 0), "a", ask(-3, 1))
		synctest.Wait()
		r.Abandon()
		pass(time.Minute)
		if n, live := r.counters.CutLoose.Load(), r.counters.Entities.Load(); n != 0 || live != 0 {
			t.Errorf("%d cut loose, %d entities counted", n, live)
		}
		close(r.gate)
	})
}

// A shard keeps one instance at least, whatever its share; and strategies with levels
// hear of a limit that changes.
func TestSharesOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := plain(t, func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 1} })
		a, b := r.start(t, 0), r.start(t, 1)
		deliver(t, a, "a", ask(1, 1))
		deliver(t, b, "b", ask(1, 2))
		pass(3 * shrinkEvery)
		r.expectIDs(t, a, "a")
		r.expectIDs(t, b, "b")
		deliver(t, b, "c", ask(1, 3))
		r.expectIDs(t, b, "c")
		if n := r.counters.Passivated.Load(); n != 1 {
			t.Errorf("%d passivated", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(1)
		r := plain(t, func(c *Config[*Context, int, int]) {
			c.Passivation, c.Limit = Passivation{Limit: 1, Eviction: evict.TinyLFU}, &limit
		})
		s := r.start(t, 0)
		limit.Store(4)
		for i, id := range []string{"a", "a", "b", "c", "d", "e"} {
			deliver(t, s, id, ask(1, uint64(i+1)))
			synctest.Wait()
		}
		r.expectIDs(t, s, "a", "b", "c", "e") // d was not used more often than b
	})
}

// Who has ended has no place in the order.
func TestTheEndedHaveNoPartInTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Passivation = Passivation{Limit: 2}
		})
		s := r.start(t, 0)
		deliver(t, s, "c", ask(1, 1))
		synctest.Wait()
		for i, id := range []string{"a", "b"} {
			deliver(t, s, id, ask([]int{-3, -1}[i], uint64(2+i)))
			synctest.Wait()
		}
		deliver(t, s, "d", ask(1, 4))
		r.expectIDs(t, s, "c", "d")
	})
}

// One that had to go, and puts a message aside before it does, stays: the next one would
// put it aside again, and again.
func TestWhoPutsAMessageAsideAtTheLastMomentStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			switch req {
			case -2:
				<-p.r.gate
			case 9:
				return 0, ctx.Stash()
			}
			return req, nil
		}, nil, func(c *Config[*Context, int, int]) { c.Passivation = Passivation{Limit: 1} })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(9, 2))
		synctest.Wait()
		deliver(t, s, "b", ask(1, 3))
		synctest.Wait()
		close(r.gate)
		r.expectLog(t, "a:-2", "b:1", "a:9")
		r.expectIDs(t, s, "a", "b")
		deliver(t, s, "c", ask(1, 4))
		r.expectIDs(t, s, "a", "c")
	})
}

// The message that wakes an entity has its place in the mailbox like those behind it.
func TestTheFirstMessageCountsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, urgent)
		// One each: they begin by themselves when a quarter of a mailbox has been taken.
		s, in, other, call := r.start(t, 0), r.NewBatchInserter(), r.NewBatchInserter(), uint64(0)
		fill := func(id string, req int) (n int) {
			for ; ; n++ {
				call++
				if offer(s, id, ask(req, call)) != nil {
					return n
				}
			}
		}
		bring(t, in, s, "a", ask(1, 1000))
		if n, m := fill("a", 1), fill("a", 100); n != 9 || m != 10 {
			t.Errorf("%d and %d fit beside an ordinary one, want 9 and 10", n, m)
		}
		bring(t, other, s, "b", ask(100, 1001))
		if n, m := fill("b", 1), fill("b", 100); n != 10 || m != 9 {
			t.Errorf("%d and %d fit beside a control message, want 10 and 9", n, m)
		}
		in.Flush()
		other.Flush()
	})
}

// Starts and reliable messages are no control messages, and nobody is asked whether
// they are: the former carry no request, the latter have their order.
func TestWhatIsNoControlMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Control = func(req int) bool {
				if req == 0 || req == 200 {
					t.Errorf("asked of %d", req)
				}
				return req >= 100
			}
			c.Confirm = func(gossip.NodeID, ShardID, *ReliableMark, Outcome, bool, error) {}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 2),
			Message[int]{Req: 200, Reply: ReplyTo{Node: 7}, rare: &rareFields{reliable: &ReliableMark{Stamp: reliable.Stamp{Producer: 1, Seq: 1, Floor: 1}}}})
		deliver(t, s, "a", Message[int]{}.ForStart())
		close(r.gate)
		r.expectLog(t, "a:-2", "a:1", "a:200")
	})
}
