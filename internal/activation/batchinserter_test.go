package activation

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

func bring(t *testing.T, in *BatchInserter[*Context, int, int], s *Shard[*Context, int, int], id string, ms ...Message[int]) {
	t.Helper()
	for _, m := range ms {
		if err := s.DeliverTo(in, []byte(id), PlaceOf(Hash([]byte(id))), &m, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatAnInletWokeBeginsWithItsFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 100 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1), ask(2, 2))
		deliver(t, s, "a", ask(3, 3))
		r.expectLog(t)
		in.Flush()
		r.expectLog(t, "a:1", "a:2", "a:3")
		in.Flush()
		bring(t, in, s, "a", ask(4, 4))
		in.Flush()
		r.expectLog(t, "a:1", "a:2", "a:3", "a:4")
		if n := r.counters.Handled.Load(); n != 4 {
			t.Errorf("%d messages counted, want 4", n)
		}
	})
}

// An entity that an ask woke does not wait for all that tells woke before it, nor these for all
// asks. Each kind keeps its order.
func TestAsksAndTellsTakeTurns(t *testing.T) {
	q := &runQueue[*Context, int, int]{pending: true}
	w := newWorker[*Context, int, int]("t", func() (*Context, *Context) { return new(Context), new(Context) })
	push := func(id string, m Message[int]) { q.pushTask(nil, &instance[*Context, int, int]{id: id}, &m, false) }
	var got []string
	pop := func(n int) {
		for range n {
			_, in := q.pop(w, false)
			got = append(got, in.id)
			w.own.dropAll()
		}
	}
	for i := range 4 {
		push(fmt.Sprint("tell", i), Message[int]{Req: i})
	}
	push("ask0", ask(1, 1))
	pop(2)
	for i := range 3 {
		push(fmt.Sprint("ask", i+1), ask(1, 1))
	}
	pop(6)
	if want := []string{"ask0", "tell0", "ask1", "tell1", "ask2", "tell2", "ask3", "tell3"}; !slices.Equal(got, want) {
		t.Errorf("popped %q, want %q", got, want)
	}
	if q.nextList() != nil || len(q.appendBusy(nil)) != 0 {
		t.Error("tasks are left")
	}
}

func TestAnInletFlushesBeforeMailboxesFillUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 8 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1))
		r.expectLog(t)
		bring(t, in, s, "a", ask(2, 2))
		r.expectLog(t, "a:1", "a:2")
	})
}

func TestControlMessagesPassOneThatCameAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Control, c.Mailbox = func(i int) bool { return i > 100 }, 100 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1), ask(2, 2), ask(101, 3), ask(102, 4))
		in.Flush()
		r.expectLog(t, "a:101", "a:102", "a:1", "a:2")
	})
}

func TestWithoutLeaseWhatAnInletBroughtWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 100 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1))
		r.alive.Store(false)
		in.Flush()
		bring(t, in, s, "a", ask(2, 2))
		in.Flush()
		r.expectLog(t)
		bring(t, in, s, "b", ask(3, 3))
		in.Flush()
		r.alive.Store(true)
		r.Resume()
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.log) != 3 || slices.Index(r.log, "a:1") > slices.Index(r.log, "a:2") {
			t.Errorf("handled: %q", r.log)
		}
	})
}

func TestAStopWaitsForWhatAnInletBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 100 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1), ask(2, 2))
		stopped := make(chan Stopped, 1)
		r.StopShard(1, s.Token(), time.Minute, false, func(st Stopped) { stopped <- st })
		r.expectLog(t)
		in.Flush()
		r.expectLog(t, "a:1", "a:2", "a:stop")
		if st := <-stopped; st.Forced {
			t.Error("the stop was forced")
		}
	})
}

func TestCloseWaitsForTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 100 })
		s, in := r.start(t, 1), r.NewBatchInserter()
		bring(t, in, s, "a", ask(1, 1), Message[int]{Req: 2})
		closed := make(chan error, 1)
		go func() { closed <- r.Close(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed while an Inlet holds messages: %v", err)
		default:
		}
		in.Flush()
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		r.expectLog(t)
		r.expectReply(t, 1, failure.Abandoned)
		if n := r.counters.AbandonedTells.Load(); n != 1 {
			t.Errorf("%d tells counted as abandoned, want 1", n)
		}
		m := ask(3, 3)
		if err := s.DeliverTo(in, []byte("a"), 0, &m, nil, 0); err != ErrNotHosted {
			t.Errorf("delivered to a closed host: %v", err)
		}
	})
}

func TestAHandlerThatEndsItsGoroutineLeavesNothingOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last Sender
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.New = func(string) Entity[*Context, int, int] {
				return Func[*Context, int, int](func(ctx *Context, req int) (int, error) {
					last = ctx.Self()
					err := ctx.Err()
					if req == -4 {
						runtime.Goexit()
					}
					return req, err
				})
			}
		})
		s := r.start(t, 1)
		for i := range 50 {
			id := fmt.Sprint("e", i)
			deliver(t, s, id, ask(-4, uint64(2*i+1)))
			synctest.Wait()
			deliver(t, s, id+"'", ask(1, uint64(2*i+2)))
			synctest.Wait()
			if last.ID != id+"'" {
				t.Fatalf("%s' sends as %q", id, last.ID)
			}
			r.expectReply(t, uint64(2*i+2), nil)
		}
	})
}

func TestARemovedInstanceIsNotFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s, in := r.start(t, 1), r.NewBatchInserter()
		for i := range 3 {
			bring(t, in, s, "a", ask(-3, uint64(2*i+1)))
			in.Flush()
			synctest.Wait()
			if n := s.Entities(); n != 0 {
				t.Fatalf("%d instances after the end of the only one", n)
			}
			bring(t, in, s, "a", ask(1, uint64(2*i+2)))
			in.Flush()
			synctest.Wait()
			if n := s.Entities(); n != 1 || !s.Lives("a") {
				t.Fatalf("%d instances, want that of the new activation", n)
			}
		}
	})
}
