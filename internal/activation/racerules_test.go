package activation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// TestAShardEndsBetweenTwoStatements checks that the messages of an entity which must end before the next one fail
// if its shard is abandoned just then: after the runner has seen that the shard is open.
func TestAShardEndsBetweenTwoStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := false
		var r *rig
		r = scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			<-p.r.gate
			if req == 2 {
				ctx.Passivate()
				ends = true
			}
			return req, nil
		}, nil, func(c *Config[*Context, int, int]) {
			alive := c.Alive
			c.Alive = func() bool {
				if ends { // the runner has looked at the shard, and looks at the lease
					ends = false
					r.AbandonShard(0)
				}
				return alive()
			}
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(2, 2), ask(3, 3), ask(4, 4))
		close(r.gate)
		r.expectLog(t, "a:1", "a:2")
		r.expectReply(t, 2, nil)
		for _, call := range []uint64{3, 4} {
			r.expectReply(t, call, failure.Abandoned)
		}
		if s.Open() {
			t.Error("the shard is open")
		}
	})
}

// lateEnd is a context that ends while its caller waits, after something else has happened.
type lateEnd struct {
	context.Context
	before func()
	ended  chan struct{}
}

func (c *lateEnd) Done() <-chan struct{} {
	c.before()
	close(c.ended)
	return c.ended
}

func (c *lateEnd) Err() error { return context.Canceled }

// TestACallerThatGivesUpTooLateIsServed checks that a caller whose message has entered the mailbox by the time that
// its context ends counts as served, and that the entity goes on.
func TestACallerThatGivesUpTooLateIsServed(t *testing.T) {
	for range 32 { // either of two events wins
		synctest.Test(t, func(t *testing.T) {
			r := gated(t, 1)
			s := r.start(t, 0)
			r.fill(t, s, 1)
			ctx := &lateEnd{Context: t.Context(), ended: make(chan struct{}), before: func() {
				r.gate <- struct{}{}
				r.gate <- struct{}{}
				synctest.Wait()
			}}
			done := make(chan error, 1)
			go func() { done <- s.Await(ctx, "a", &Message[int]{Req: 7}) }()
			if err := <-done; err != nil {
				t.Errorf("the caller of a message that has entered: %v", err)
			}
			close(r.gate)
			deliver(t, s, "a", Message[int]{Req: 8})
			r.expectLog(t, "a:0", "a:0", "a:7", "a:8")
		})
	}
}

// slowEnd is an entity whose OnStop waits for the gate.
type slowEnd struct{ *probe }

func (e slowEnd) OnStop(*Context) { <-e.r.gate }

// TestTheEndOfAnEntityIsACallOfItsOwn checks that the age of an OnStop which blocks is counted from its begin, though
// the call of a message was seen before.
func TestTheEndOfAnEntityIsACallOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := watchedRig(t, nil)
		r.cfg.New = func(id string) Entity[*Context, int, int] { return slowEnd{&probe{id: id, r: r}} }
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		pass(2 * time.Second)
		r.gate <- struct{}{}
		pass(time.Hour)
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		synctest.Wait()
		if age := r.Oldest(); age > time.Second {
			t.Errorf("an OnStop that has just begun has run for %v", age)
		}
		pass(4 * time.Second)
		synctest.Wait()
		if n := r.counters.Blocked.Load(); n != 0 {
			t.Errorf("an OnStop of 4 s counts as blocked: %q", log.with("handler blocks"))
		}
		pass(2 * time.Second)
		synctest.Wait()
		if n := r.counters.Blocked.Load(); n != 1 {
			t.Errorf("%d calls are blocked, want the OnStop", n)
		}
		close(r.gate)
	})
}

// TestTheWatchLooksEightTimes checks how often the watch looks for blocked calls, each time with the mutex of all
// queues: eight times in BlockedAfter, at least twice a second, at most once a millisecond.
func TestTheWatchLooksEightTimes(t *testing.T) {
	for after, tick := range map[time.Duration]time.Duration{
		4 * time.Millisecond: time.Millisecond, 8 * time.Millisecond: time.Millisecond,
		time.Second: time.Second / 8, 4 * time.Second: time.Second / 2, 8 * time.Second: time.Second / 2,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c *Config[*Context, int, int]) { c.BlockedAfter = after })
			s := r.start(t, 0)
			pass(tick / 10)
			deliver(t, s, "a", ask(-2, 1))
			pass(tick - tick/10 + after - 1)
			synctest.Wait()
			if n := r.counters.Blocked.Load(); n != 0 {
				t.Errorf("BlockedAfter %v: a call was seen before the first look, after %v", after, tick)
			}
			pass(1)
			synctest.Wait()
			if n := r.counters.Blocked.Load(); n != 1 {
				t.Errorf("BlockedAfter %v: a call was not seen at the first look, after %v", after, tick)
			}
			close(r.gate)
		})
	}
}

// TestANewRunIsACallOfItsOwn checks that the age of a call counts from its run on, though the flag of an earlier
// look is still set, and that it goes on while neither the run nor the flag changes.
func TestANewRunIsACallOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		in := &instance[*Context, int, int]{id: "a"}
		w := &worker[*Context, int, int]{}
		w.s, w.in, w.runs, w.seen, w.since = s, in, 2, 1, time.Now()
		in.flags.Or(flagWatched)
		q := queueOf(s)
		q.mu.Lock()
		q.working = append(q.working, w)
		q.mu.Unlock()
		pass(time.Hour)
		for _, want := range []time.Duration{0, time.Minute, 2 * time.Minute} {
			if age := r.Oldest(); age != want {
				t.Errorf("the call has run for %v, want %v", age, want)
			}
			pass(time.Minute)
		}
		in.flags.And(^flagWatched) // the next call begins
		if age := r.Oldest(); age != 0 {
			t.Errorf("a call that has just begun has run for %v", age)
		}
		q.mu.Lock()
		q.working = nil
		q.mu.Unlock()
	})
}
