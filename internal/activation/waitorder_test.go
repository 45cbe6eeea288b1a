package activation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// await starts a caller that waits for room, and returns what becomes of it.
func (r *rig) await(ctx context.Context, s *Shard[*Context, int, int], req int) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Await(ctx, "a", &Message[int]{Req: req}) }()
	synctest.Wait()
	return done
}

// fill starts an entity that works off a message per receipt from r.gate, and fills its
// mailbox with zeros.
func (r *rig) fill(t *testing.T, s *Shard[*Context, int, int], most int) {
	t.Helper()
	deliver(t, s, "a", Message[int]{})
	synctest.Wait()
	for range most {
		deliver(t, s, "a", Message[int]{})
	}
}

// gated is a rig whose entities note what they handle when the gate lets them.
func gated(t *testing.T, most int) *rig {
	return scripted(t, func(p *script, _ *Context, req int) (int, error) {
		<-p.r.gate
		return req, nil
	}, nil, func(c *Config[*Context, int, int]) { urgent(c); c.Mailbox = most })
}

// Waiters enter the mailbox in the order of arrival, and a message that comes later does
// not pass them, although the mailbox has room.
func TestWaitersEnterInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, waiting = 4, 20
		r := gated(t, most)
		s := r.start(t, 0)
		r.fill(t, s, most)
		var want []string
		for range most + 1 {
			want = append(want, "a:0")
		}
		for i := range waiting {
			r.await(t.Context(), s, i+1)
			want = append(want, fmt.Sprintf("a:%d", i+1))
		}
		for range waiting {
			r.gate <- struct{}{}
			synctest.Wait()
			if len(s.waiters.queues) > 0 && offer(s, "a", Message[int]{Req: 99}) != failure.MailboxFull {
				t.Fatal("a message passed those that wait for room")
			}
		}
		for len(s.waiters.queues) > 0 {
			r.gate <- struct{}{}
			synctest.Wait()
		}
		close(r.gate)
		r.expectLog(t, want...)
	})
}

// A caller that gives up leaves the queue; those behind it keep their order, and nothing
// of its message is handled.
func TestAWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := gated(t, 1)
		s := r.start(t, 0)
		r.fill(t, s, 1)
		var ends [5]<-chan error
		var stops [5]context.CancelFunc
		for i := range ends {
			ctx, cancel := context.WithCancel(t.Context())
			ends[i], stops[i] = r.await(ctx, s, i+1), cancel
		}
		for _, i := range []int{4, 0, 2} { // the last, the first, one between
			stops[i]()
			if err := <-ends[i]; err != context.Canceled {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
		close(r.gate)
		for _, i := range []int{1, 3} {
			if err := <-ends[i]; err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
			stops[i]()
		}
		r.expectLog(t, "a:0", "a:0", "a:2", "a:4")
		if len(s.waiters.queues) != 0 || s.entities.Find("a").hasFlag(flagWaited|flagUrgent) {
			t.Error("the queue is empty and was kept")
		}
	})
}

// Control messages have a queue of their own: the first of them is handled before
// ordinary ones that came long before, and in order among themselves.
func TestControlMessagesWaitInAQueueOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := gated(t, 2)
		s := r.start(t, 0)
		r.fill(t, s, 2)
		deliver(t, s, "a", Message[int]{Req: 100}, Message[int]{Req: 101})
		for i := range 2 {
			r.await(t.Context(), s, i+1)
		}
		for i := range 3 {
			r.await(t.Context(), s, 102+i)
		}
		close(r.gate)
		r.expectLog(t, "a:0", "a:100", "a:101", "a:102", "a:103", "a:104", "a:0", "a:0", "a:1", "a:2")
	})
}

// Messages of handlers have a reserve of a quarter of the mailbox. Once the reserve is used
// up, messages of handlers wait, and take turns with messages from outside entities.
func TestMessagesOfHandlersHaveAReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		r := gated(t, most)
		s := r.start(t, 0)
		r.fill(t, s, most)
		by := &Sender{Type: "other", ID: "b"}
		for i := range most / 4 {
			deliver(t, s, "a", Message[int]{Req: 10 + i, From: by})
		}
		for _, m := range []Message[int]{{}, {From: by}} {
			if err := offer(s, "a", m); err != failure.MailboxFull {
				t.Errorf("beyond the reserve, from %v: %v", m.From, err)
			}
		}
		for i := range 3 {
			r.await(t.Context(), s, 1+i)
		}
		for i := range 3 {
			go func() { _ = s.Await(t.Context(), "a", &Message[int]{Req: 20 + i, From: by}) }()
			synctest.Wait()
		}
		close(r.gate)
		var want []string
		for _, req := range []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 11, 1, 20, 2, 21, 22, 3} {
			want = append(want, fmt.Sprintf("a:%d", req))
		}
		r.expectLog(t, want...)
	})
}

// Those that wait for an instance which does not end in time wait for its successor.
func TestWaitersWaitForTheSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := loosen(t, func(c *Config[*Context, int, int]) { c.Mailbox = 1 })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-3, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 2))
		ends := []<-chan error{r.await(t.Context(), s, 2), r.await(t.Context(), s, 3)}
		pass(2 * time.Second)
		for _, end := range ends {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
		r.expectLog(t, "a:-3", "a:stop", "a:1", "a:2", "a:3")
		close(r.gate)
	})
}

// TestTheLastWaiterGivesUp checks that a message which arrives after the last one in the queue has given up
// stands behind those that are left.
func TestTheLastWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2
		r := gated(t, most)
		s := r.start(t, 0)
		r.fill(t, s, most)
		first := r.await(t.Context(), s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		last := r.await(ctx, s, 2)
		cancel()
		if err := <-last; err == nil {
			t.Fatal("a caller that gave up counts as served")
		}
		later := r.await(t.Context(), s, 3)
		close(r.gate)
		r.expectLog(t, "a:0", "a:0", "a:0", "a:1", "a:3")
		for _, done := range []<-chan error{first, later} {
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("a caller still waits")
			}
		}
	})
}

// TestControlMessagesWaitForTheirRoom checks that control messages which wait enter the mailbox as far as their
// room goes, in order.
func TestControlMessagesWaitForTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2
		r := gated(t, most)
		s := r.start(t, 0)
		deliver(t, s, "a", Message[int]{})
		synctest.Wait()
		deliver(t, s, "a", Message[int]{Req: 100}, Message[int]{Req: 101})
		for req := 102; req < 105; req++ {
			r.await(t.Context(), s, req)
		}
		for waiting := 3; waiting > 0; waiting-- {
			if n := r.counters.Waiting.Load(); int(n) != waiting {
				t.Errorf("%d messages wait, want %d", n, waiting)
			}
			r.gate <- struct{}{}
			synctest.Wait()
		}
		close(r.gate)
		r.expectLog(t, "a:0", "a:100", "a:101", "a:102", "a:103", "a:104")
	})
}
