package activation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// A pause keeps the room of the mailbox, and may come again and again; nobody need call
// Resume, and who calls it twice starts nothing twice.
func TestPausesOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.midBatch(t)
		r.alive.Store(false)
		r.gate <- struct{}{}
		synctest.Wait()
		n := 0
		for ; offer(s, "a", ask(-2, uint64(10+n))) == nil; n++ {
		}
		if n != 8 {
			t.Errorf("%d fit beside two, want 8", n)
		}
		r.alive.Store(true)
		r.Resume()
		synctest.Wait() // the first of eight is in hand
		r.Resume()
		r.expectLog(t, "a:-2", "a:-2", "a:5", "a:6", "a:-2")
		deliver(t, s, "a", ask(7, 50))
		r.expectLog(t, "a:-2", "a:-2", "a:5", "a:6", "a:-2") // one at a time
		for range 2 {
			r.alive.Store(false)
			r.gate <- struct{}{}
			synctest.Wait()
			before := len(r.log)
			r.alive.Store(true)
			pass(2 * parkedLook)
			if synctest.Wait(); len(r.log) != before+1 {
				t.Errorf("%d handlers began behind a pause", len(r.log)-before)
			}
		}
		close(r.gate)
	})
}

// A shard that stops ends each instance once, and not too many at a time, also those
// that were idle for long, or beyond the limit, while they waited for their turn.
func TestAStopEndsEachInstanceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit, now, most atomic.Int64
		limit.Store(1000)
		r := frails(t, func(f *frail) {
			f.stop = func(*Context) {
				most.Store(max(most.Load(), now.Add(1)))
				<-f.r.gate
				now.Add(-1)
			}
		}, func(c *Config[*Context, int, int]) {
			c.IdleTimeout = 4 * time.Second
			c.Passivation, c.Limit = Passivation{Limit: 1}, &limit
		})
		s := r.start(t, 0)
		const n = parallelStops + 20
		for i := range n {
			deliver(t, s, fmt.Sprint("e", i), ask(1, uint64(i+1)))
		}
		synctest.Wait()
		r.mu.Lock()
		r.log = nil
		r.mu.Unlock()
		done := make(chan Stopped, 1)
		r.StopShard(0, s.Token(), time.Hour, false, func(st Stopped) { done <- st })
		limit.Store(1)
		for i := range n {
			s.Dismiss(fmt.Sprint("e", i))
		}
		pass(time.Minute)
		if now.Load() != parallelStops {
			t.Errorf("%d end side by side, want %d", now.Load(), parallelStops)
		}
		close(r.gate)
		if st := <-done; st.Forced {
			t.Error("forced")
		}
		slices.Sort(r.log)
		if len(r.log) != n || len(slices.Compact(r.log)) != n || most.Load() != parallelStops {
			t.Errorf("%d goodbyes of %d, %d side by side", len(r.log), n, most.Load())
		}
	})
}

// A stop begins once, ends the timers, and lets nobody wait for room any longer.
func TestAStopBeginsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			err := ctx.Every("tick", time.Second)
			<-p.r.gate
			return req, err
		}, nil, func(c *Config[*Context, int, int]) { c.Mailbox = 1 })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(2, 2))
		waited := make(chan error, 1)
		go func() { waited <- s.Await(context.Background(), "a", &Message[int]{}) }()
		synctest.Wait()
		var first, second atomic.Int32
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) { first.Add(1) })
		synctest.Wait()
		select {
		case err := <-waited:
			if err != ErrNotHosted {
				t.Error(err)
			}
		default:
			t.Error("a sender waits for room in a shard that takes nothing more")
		}
		if err := s.Await(context.Background(), "a", &Message[int]{}); err != ErrNotHosted {
			t.Error(err)
		}
		r.StopShard(0, s.Token(), time.Second, true, func(Stopped) { second.Add(1) })
		pass(5 * time.Second)
		close(r.gate)
		r.expectLog(t, "a:1", "a:2")
		pass(2 * time.Minute)
		if first.Load() != 1 || second.Load() != 0 || r.counters.Forced.Load() != 0 {
			t.Errorf("reported %d and %d times, %d forced", first.Load(), second.Load(), r.counters.Forced.Load())
		}
	})
}

// What was put aside is nobody's when its shard is abandoned: the asker is told, and a
// tell is counted.
func TestWhatWasAsideIsAbandonedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(_ *script, ctx *Context, _ int) (int, error) {
			return 0, errors.Join(ctx.Stash(), ctx.After("soon", time.Second))
		}, nil, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), Message[int]{Req: 2})
		synctest.Wait()
		r.alive.Store(false)
		pass(2 * time.Second) // the timer waits in the mailbox: it is no tell
		r.Abandon()
		r.expectReply(t, 1, failure.Abandoned)
		if n := r.counters.AbandonedTells.Load(); n != 1 || r.counters.Abandoned.Load() != 1 {
			t.Errorf("%d tells, %d instances counted", n, r.counters.Abandoned.Load())
		}
	})
}

// Who waits for room in a shard that is abandoned waits no longer.
func TestNobodyWaitsForRoomInAnAbandonedShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 1 })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 2))
		waited := make(chan error, 1)
		go func() { waited <- s.Await(context.Background(), "a", &Message[int]{}) }()
		synctest.Wait()
		r.Abandon()
		if err := <-waited; err != ErrNotHosted {
			t.Error(err)
		}
		close(r.gate)
	})
}

// A closed Host starts nothing, and a shard that stops takes nothing, from whoever it
// comes.
func TestClosedAndStoppingTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		if !s.Open() {
			t.Error("a shard that runs is not open")
		}
		r.StopShard(0, s.Token(), time.Minute, false, func(Stopped) {})
		m, in := ask(1, 2), r.NewBatchInserter()
		if err := s.DeliverTo(in, []byte("a"), PlaceOf(Hash([]byte("a"))), &m, nil, 0); !errors.Is(err, ErrNotHosted) {
			t.Errorf("to one that lives in a shard that stops: %v", err)
		}
		in.Flush()
		if s.Ensure("b") || s.Open() {
			t.Error("a shard that stops takes starts, or is open")
		}
		close(r.gate)
		synctest.Wait()
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.StartShard(1, Token{Term: 1}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("StartShard after Close: %v", err)
		}
		r.StopShard(1, Token{Term: 1}, time.Minute, false, func(Stopped) { t.Error("a closed Host reports") })
		synctest.Wait()
	})
}
