package activation

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/internal/failure"
)

func urgent(c *Config[*Context, int, int]) { c.Control = func(req int) bool { return req >= 100 } }

// Control messages keep their order among themselves, also behind one that met its
// entity at rest.
func TestControlMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, urgent)
		s, in := r.start(t, 0), r.NewBatchInserter()
		bring(t, in, s, "a", ask(100, 1), ask(101, 2))
		in.Flush()
		r.expectLog(t, "a:100", "a:101")
		r.alive.Store(false)
		deliver(t, s, "b", ask(100, 3), ask(1, 4), ask(101, 5))
		synctest.Wait()
		deliver(t, s, "b", ask(102, 6), ask(2, 7))
		r.alive.Store(true)
		r.Resume()
		r.expectLog(t, "a:100", "a:101", "b:100", "b:101", "b:102", "b:1", "b:2")
	})
}

// Who waits with a control message waits for room among such, and not behind the others;
// and the other way round.
func TestEachPriorityWaitsForItsOwnRoom(t *testing.T) {
	for name, c := range map[string]struct{ waits, steps int }{
		"control": {100, 6}, "ordinary": {1, 16 + 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most = 16
				step, call := make(chan bool), uint64(0)
				r := frails(t, func(f *frail) {
					f.handle = func(_ *Context, req int) (int, error) { <-step; return req, nil }
				}, func(c *Config[*Context, int, int]) { urgent(c); c.Mailbox = most })
				s := r.start(t, 0)
				deliver(t, s, "a", ask(1, 1_000_000))
				synctest.Wait()
				for _, req := range []int{1, 100} {
					for range most {
						call++
						deliver(t, s, "a", ask(req, call))
					}
				}
				var in atomic.Bool
				go func() {
					m := ask(c.waits, 2_000_000)
					if err := s.Await(context.Background(), "a", &m); err != nil {
						t.Error(err)
					}
					in.Store(true)
				}()
				synctest.Wait()
				steps := 0
				for ; !in.Load() && steps < 3*most; steps++ {
					step <- true
					synctest.Wait()
				}
				if steps > c.steps {
					t.Errorf("%d messages were handled before there was room, want %d at most", steps, c.steps)
				}
				close(step)
			})
		})
	}
}

// What an instance had put aside when it ended comes first at the next one, but behind
// control messages.
func TestControlMessagesPassWhatWasAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(t, func(p *script, ctx *Context, req int) (int, error) {
			switch {
			case req == 9 && p.calls == 1:
				return 0, ctx.Stash()
			case req == -3:
				<-p.r.gate
				ctx.Passivate()
			}
			return req, nil
		}, nil, urgent)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(9, 1))
		synctest.Wait()
		deliver(t, s, "a", ask(-3, 2))
		synctest.Wait()
		deliver(t, s, "a", ask(1, 3), ask(100, 4))
		close(r.gate)
		r.expectLog(t, "a:9", "a:-3", "a:100", "a:9", "a:1")
	})
}

// Each priority has the room of a mailbox: neither takes the other's, and a handler that
// control messages outrun does not gather more of them than that.
func TestEachPriorityHasAMailboxOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan bool)
		r := frails(t, func(f *frail) {
			f.handle = func(_ *Context, req int) (int, error) { <-step; return req, nil }
		}, urgent)
		s, call := r.start(t, 0), uint64(0)
		fill := func(req int) (n int) {
			for ; ; n++ {
				call++
				if err := offer(s, "a", ask(req, call)); errors.Is(err, failure.MailboxFull) {
					return n
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		deliver(t, s, "a", ask(1, 1_000_000))
		synctest.Wait() // it is in hand
		if n, m := fill(100), fill(1); n != 10 || m != 10 {
			t.Fatalf("%d control messages and %d others fit, want 10 and 10", n, m)
		}
		for range 30 {
			step <- true
			synctest.Wait()
			if n := fill(100); n != 1 {
				t.Fatalf("%d control messages fit in the place of one", n)
			}
			if n := fill(1); n != 0 {
				t.Fatalf("%d others fit although none was handled", n)
			}
		}
		close(step)
		synctest.Wait()
		if n, m := fill(1), fill(100); n == 0 || m == 0 {
			t.Errorf("%d and %d fit when all is done", n, m)
		}
	})
}
