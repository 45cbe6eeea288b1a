package entity

import (
	"errors"
	"testing"
	"testing/synctest"
)

func urgent(c *Config[int, int]) { c.Control = func(req int) bool { return req >= 100 } }

// Control messages keep their order among themselves, also behind one that met its
// entity at rest.
func TestControlMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, urgent)
		s, in := r.start(t, 0), r.NewInlet()
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
				if err := offer(s, "a", ask(req, call)); errors.Is(err, ErrMailboxFull) {
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
