package activation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// rig is a Host with everything around it under a test's control.
type rig struct {
	*Host[*Context, int, int]
	alive    atomic.Bool
	counters Counters

	mu      sync.Mutex
	replies map[uint64]error
	values  map[uint64]int
	log     []string
	made    int
	gate    chan struct{}
}

type probe struct {
	id  string
	r   *rig
	sum int
}

func (p *probe) Handle(ctx *Context, req int) (int, error) {
	p.r.note(fmt.Sprintf("%s:%d", p.id, req))
	switch req {
	case -1:
		panic("minus one")
	case -2:
		<-p.r.gate
	case -3:
		ctx.Passivate()
	case -4:
		runtime.Goexit()
	case -5:
		return 0, errors.New("minus five")
	case -6:
		<-ctx.Done()
		return 0, ctx.Err()
	case -7:
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		<-short.Done()
		return 0, fmt.Errorf("database: %w", short.Err())
	}
	p.sum += req
	return p.sum, nil
}

func (p *probe) OnStop(*Context) { p.r.note(p.id + ":stop") }

func (r *rig) note(s string) {
	r.mu.Lock()
	r.log = append(r.log, s)
	r.mu.Unlock()
}

func (r *rig) Reply(to ReplyTo, resp int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.replies[to.Call]; twice {
		panic(fmt.Sprintf("call %d answered twice", to.Call))
	}
	r.replies[to.Call], r.values[to.Call] = err, resp
}

// cancelled is an ask that nobody waits for.
const cancelled = 1 << 40

func (r *rig) Cancelled(to ReplyTo) bool { return to.Call == cancelled }

// plainContext makes a Context that the entities see as it is.
func plainContext() (*Context, *Context) {
	c := new(Context)
	return c, c
}

func newRig(t *testing.T, change func(*Config[*Context, int, int])) *rig {
	t.Helper()
	r := &rig{replies: map[uint64]error{}, values: map[uint64]int{}, gate: make(chan struct{})}
	r.alive.Store(true)
	cfg := Config[*Context, int, int]{
		Context: plainContext,
		Type:    "t", Node: 7, Shards: 4, Mailbox: 10, Alive: r.alive.Load, Replies: r, Counters: &r.counters,
		Epoch: time.Now(), Logger: slog.New(slog.DiscardHandler),
		New: func(id string) Entity[*Context, int, int] {
			r.mu.Lock()
			r.made++
			r.mu.Unlock()
			return &probe{id: id, r: r}
		},
	}
	if change != nil {
		change(&cfg)
	}
	r.Host = NewHost(cfg)
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// midBatch returns a shard whose entity "a" has handled -2 and handles it again: the first of
// a batch of -2, 5 and 6. It waits for the gate.
func (r *rig) midBatch(t *testing.T) *Shard[*Context, int, int] {
	t.Helper()
	s := r.start(t, 0)
	deliver(t, s, "a", ask(-2, 1))
	synctest.Wait()
	deliver(t, s, "a", ask(-2, 2), ask(5, 3), ask(6, 4))
	r.gate <- struct{}{}
	synctest.Wait()
	return s
}

func (r *rig) start(t *testing.T, number ShardID) *Shard[*Context, int, int] {
	t.Helper()
	s, err := r.StartShard(number, Token{Term: 1, Seq: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(req int, call uint64) Message[int] {
	return Message[int]{Req: req, Reply: ReplyTo{Node: 7, Call: call}}
}

func (r *rig) expectLog(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.log, want) {
		t.Errorf("handled %q\n   want %q", r.log, want)
	}
}

func (r *rig) expectReply(t *testing.T, call uint64, want error) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.replies[call]
	if !ok || !errors.Is(got, want) {
		t.Errorf("ask %d: answered %v with %v, want %v", call, ok, got, want)
	}
}

func deliver(t *testing.T, s *Shard[*Context, int, int], id string, ms ...Message[int]) {
	t.Helper()
	for _, m := range ms {
		if err := offer(s, id, m); err != nil {
			t.Fatalf("deliver %d to %s: %v", m.Req, id, err)
		}
	}
}

func TestMessagesAreHandledOneByOneInOrder(t *testing.T) {
	r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 1 << 20 })
	s := r.start(t, 0)
	const n = 20_000
	for i := 1; i <= n; i++ {
		deliver(t, s, []string{"a", "b"}[i%2], ask(i, uint64(i)))
	}
	deadline := time.Now().Add(20 * time.Second)
	for r.counters.Handled.Load() < n && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := map[byte]int{}
	for _, line := range r.log {
		var v int
		fmt.Sscanf(line[2:], "%d", &v)
		if v <= last[line[0]] {
			t.Fatalf("%s came behind %d", line, last[line[0]])
		}
		last[line[0]] = v
	}
	if len(r.log) != n || r.made != 2 || len(r.replies) != n {
		t.Errorf("%d handled, %d instances, %d replies", len(r.log), r.made, len(r.replies))
	}
}

func TestAbandonRunsNoUserCodeAndFailsAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(5, 2))
		synctest.Wait()
		deliver(t, s, "b", ask(1, 3))
		synctest.Wait()
		deliver(t, s, "a", ask(6, 4), Message[int]{Req: 7})
		r.Abandon()
		r.expectReply(t, 4, failure.Abandoned)
		if err := offer(s, "a", ask(8, 5)); !errors.Is(err, ErrNotHosted) {
			t.Errorf("deliver to an abandoned shard: %v", err)
		}
		if r.Count() != 0 || r.counters.Entities.Load() != 0 {
			t.Errorf("%d shards, %d entities left", r.Count(), r.counters.Entities.Load())
		}
		close(r.gate)
		r.expectReply(t, 1, failure.Abandoned)
		r.expectReply(t, 2, failure.Abandoned)
		r.expectLog(t, "a:-2", "b:1")
		if n := r.counters.AbandonedTells.Load(); n != 1 {
			t.Errorf("%d abandoned tells counted, want 1", n)
		}
		// The number may be hosted again under a new token.
		if _, err := r.StartShard(0, Token{Term: 2}, nil); err != nil {
			t.Error(err)
		}
	})
}

// A handler that ends its goroutine after its instance was abandoned leaves nobody
// behind it without an answer.
func TestAbandonedMessagesAreFailedHoweverTheHandlerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, _ *Context, req int) (int, error) {
			<-p.r.gate
			if req == -4 {
				runtime.Goexit()
			}
			return req, nil
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(-4, 2), ask(5, 3), Message[int]{Req: 6})
		r.gate <- struct{}{}
		synctest.Wait()
		r.Abandon()
		close(r.gate)
		r.expectReply(t, 2, failure.Abandoned)
		r.expectReply(t, 3, failure.Abandoned)
		r.expectLog(t, "a:1", "a:-4")
		if n := r.counters.AbandonedTells.Load(); n != 1 {
			t.Errorf("%d tells counted", n)
		}
	})
}

func TestAbandonEndsTheHandlersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-6, 1))
		synctest.Wait()
		r.Abandon()
		r.expectReply(t, 1, failure.Abandoned)
	})
}

func TestStopDrainsThenStopsThenReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 1)
		deliver(t, s, "idle", ask(1, 1))
		synctest.Wait()
		deliver(t, s, "busy", ask(-2, 2), ask(5, 3))
		synctest.Wait()
		var got []Stopped
		r.StopShard(1, Token{Term: 1, Seq: 1}, time.Minute, false, func(s Stopped) { got = append(got, s) })
		r.expectLog(t, "idle:1", "busy:-2", "idle:stop")
		if err := offer(s, "busy", ask(6, 4)); !errors.Is(err, ErrNotHosted) {
			t.Errorf("deliver to a stopping shard: %v", err)
		}
		if len(got) != 0 || r.Count() != 1 {
			t.Errorf("reported %v with a handler running", got)
		}
		close(r.gate)
		r.expectLog(t, "idle:1", "busy:-2", "idle:stop", "busy:5", "busy:stop")
		want := Stopped{Shard: 1, Token: Token{Term: 1, Seq: 1}}
		if len(got) != 1 || !reflect.DeepEqual(got[0], want) || r.Count() != 0 {
			t.Errorf("reported %v, %d shards left", got, r.Count())
		}
	})
}

func TestStuckHandlerIsForcedAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 1)
		deliver(t, s, "busy", ask(-2, 2), ask(5, 3))
		synctest.Wait()
		start := time.Now()
		done := make(chan Stopped)
		r.StopShard(1, s.Token(), time.Minute, false, func(s Stopped) { done <- s })
		if got := <-done; !got.Forced || time.Since(start) != time.Minute {
			t.Errorf("reported %v after %v", got, time.Since(start))
		}
		close(r.gate)
		r.expectReply(t, 3, failure.Abandoned)
		r.expectLog(t, "busy:-2")
		if r.counters.Forced.Load() != 1 {
			t.Error("not counted")
		}
	})
}

func TestStopWithoutLeaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 1)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		r.alive.Store(false)
		done := make(chan Stopped, 1)
		r.StopShard(1, s.Token(), time.Minute, false, func(s Stopped) { done <- s })
		pass(time.Second)
		r.expectLog(t, "a:1")
		r.alive.Store(true)
		if got := <-done; got.Forced {
			t.Error("forced")
		}
		r.expectLog(t, "a:1", "a:stop")
	})
}

func TestStopOfWhatDoesNotRunReportsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.start(t, 1)
	done := make(chan Stopped)
	r.StopShard(1, Token{Term: 9}, time.Minute, false, func(s Stopped) { done <- s })
	if got := <-done; got.Token.Term != 9 || r.Count() != 1 {
		t.Errorf("reported %v, %d shards", got, r.Count())
	}
}

func TestPanicIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(5, 1), ask(-1, 2), ask(-4, 3), ask(6, 4), ask(-5, 5))
		r.expectReply(t, 2, failure.Panicked)
		r.expectReply(t, 3, failure.Panicked)
		r.expectReply(t, 4, nil)
		if got := r.values[4]; got != 6 {
			t.Errorf("sum %d after a panic: the instance must be a new one", got)
		}
		if r.replies[5] == nil || r.counters.Panicked.Load() != 2 || r.made != 3 {
			t.Errorf("reply %v, %d panics, %d instances", r.replies[5], r.counters.Panicked.Load(), r.made)
		}
	})
}

func TestMailboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		for i := range 10 {
			deliver(t, s, "a", ask(i, uint64(10+i)))
		}
		if err := offer(s, "a", ask(11, 99)); !errors.Is(err, failure.MailboxFull) {
			t.Errorf("message 11 of 10: %v", err)
		}
		close(r.gate)
		synctest.Wait()
		deliver(t, s, "a", ask(12, 100))
		r.expectReply(t, 100, nil)
	})
}

func TestCancelledAndExpiredAsksDoNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		late := ask(2, 2)
		late.Expires = time.Second
		deliver(t, s, "a", ask(-2, 1), late, ask(3, cancelled))
		pass(2 * time.Second)
		close(r.gate)
		r.expectReply(t, 2, ErrExpired)
		r.expectReply(t, cancelled, ErrExpired)
		r.expectLog(t, "a:-2")
		if n := r.counters.Expired.Load(); n != 2 {
			t.Errorf("%d counted, want 2", n)
		}
	})
}

// A handler that hands its Context's end on has not answered: what the asker gets does
// not depend on who looks at the clock first. A time-out of the handler's own is an
// answer.
func TestAHandlerThatGivesUpAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		for call, m := range []Message[int]{ask(-6, 1), ask(-7, 2), ask(-7, 3)} {
			m.Expires = time.Since(r.cfg.Epoch) + []time.Duration{time.Second, time.Hour, time.Millisecond}[call]
			deliver(t, s, "a", m)
			pass(2 * time.Second)
		}
		r.expectReply(t, 1, ErrExpired)
		r.expectReply(t, 2, context.DeadlineExceeded)
		r.expectReply(t, 3, ErrExpired)
		deliver(t, s, "a", ask(-7, 4)) // without a deadline there is only its own
		pass(2 * time.Second)
		r.expectReply(t, 4, context.DeadlineExceeded)
	})
}

func TestPassivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.IdleTimeout = time.Minute })
		s := r.start(t, 0)
		// By its own wish, with a message behind it: that one meets a new instance.
		deliver(t, s, "a", ask(5, 1), ask(-3, 2), ask(7, 3))
		r.expectLog(t, "a:5", "a:-3", "a:stop", "a:7")
		if r.values[3] != 7 || s.Entities() != 1 {
			t.Errorf("sum %d, %d entities", r.values[3], s.Entities())
		}
		pass(50 * time.Second)
		deliver(t, s, "b", ask(1, 4))
		pass(40 * time.Second)
		r.expectLog(t, "a:5", "a:-3", "a:stop", "a:7", "b:1", "a:stop")
		if s.Entities() != 1 || r.counters.Passivated.Load() != 2 {
			t.Errorf("%d entities, %d passivated", s.Entities(), r.counters.Passivated.Load())
		}
	})
}

func TestTokenOfAnotherAllocationIsRefused(t *testing.T) {
	r := newRig(t, nil)
	a := r.start(t, 2)
	if b, err := r.StartShard(2, a.Token(), nil); err != nil || b != a {
		t.Errorf("starting twice: %v, %v", b, err)
	}
	if _, err := r.StartShard(2, Token{Term: 1, Seq: 2}, nil); err == nil {
		t.Error("a shard was started over a running one")
	}
	if _, err := r.StartShard(4, Token{}, nil); err == nil {
		t.Error("shard 4 of 0 to 3 was started")
	}
}

// pass lets the bubble's time pass.
func pass(d time.Duration) {
	if d > 0 { // Go 1.26.8 with -race crashes at a timer in a bubble that is due at once
		<-time.After(d)
	}
}

// Package context looks at the parent of a derived context from goroutines and
// timers of its own, also when the handler has returned long ago. That goroutine
// once met a Context that was in use for another entity.
func TestContextsAreNotUsedAgainOnceDerivedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var kept []context.Context
		h := NewHost(Config[*Context, int, int]{
			Context: plainContext,
			Type:    "t", Node: 7, Shards: 1, Mailbox: 10, Alive: func() bool { return true }, Replies: &rig{replies: map[uint64]error{}, values: map[uint64]int{}},
			Counters: &Counters{}, Epoch: time.Now(), Logger: slog.New(slog.DiscardHandler),
			New: func(id string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(ctx *Context, _ int) (int, error) {
					derived, cancel := context.WithTimeout(ctx, time.Minute)
					_ = cancel // forgotten: its timer fires long after the call
					mu.Lock()
					kept = append(kept, derived)
					mu.Unlock()
					return 0, nil
				})
			},
		})
		s, err := h.StartShard(0, Token{Term: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			deliver(t, s, fmt.Sprint("e", i%2), Message[int]{})
		}
		synctest.Wait()
		pass(time.Hour)
		for i, ctx := range kept {
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("context %d after its call: %v", i, ctx.Err())
			}
			if c, _, _ := From(ctx); c == nil || c.shard.typ != "t" {
				t.Errorf("context %d belongs to %+v", i, c)
			}
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func offer[C, Req, Resp any](s *Shard[C, Req, Resp], id string, m Message[Req]) error {
	return s.Deliver(id, PlaceOf(Hash([]byte(id))), &m)
}
