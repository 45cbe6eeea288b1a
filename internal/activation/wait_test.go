package activation

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// What is in hand takes no room, however long its handler runs: who waits is told when it
// begins, not when it ends.
func TestRoomIsToldWhenAMessageBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = 4 })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		for i := range 4 {
			deliver(t, s, "a", ask(-2, uint64(10+i)))
		}
		r.gate <- struct{}{}
		synctest.Wait() // one of four is in hand
		deliver(t, s, "a", ask(-2, 20))
		var in atomic.Bool
		go func() {
			if err := s.Await(context.Background(), "a", &Message[int]{}); err != nil {
				t.Error(err)
			}
			in.Store(true)
		}()
		for range 2 { // then one waits of those four, and the one behind them
			synctest.Wait()
			r.gate <- struct{}{}
		}
		synctest.Wait()
		if !in.Load() {
			t.Error("half of the mailbox is free, and who waits for room was not told")
		}
		close(r.gate)
	})
}

// Who waits for room need not wait for the end of the batch that is worked off.
func TestRoomIsToldBeforeTheBatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 16
		r := newRig(t, func(c *Config[*Context, int, int]) { c.Mailbox = most })
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		for i := range most {
			deliver(t, s, "a", ask(-2, uint64(10+i)))
		}
		r.gate <- struct{}{}
		synctest.Wait()
		deliver(t, s, "a", ask(-2, 90))
		var in atomic.Bool
		go func() {
			m := ask(-2, 99)
			if err := s.Await(t.Context(), "a", &m); err != nil {
				t.Error(err)
			}
			in.Store(true)
		}()
		synctest.Wait()
		handled := 0
		for ; !in.Load() && handled < most; handled++ {
			r.gate <- struct{}{}
			synctest.Wait()
		}
		if handled > most/4+2 {
			t.Errorf("%d of %d messages were handled before another one had room", handled, most)
		}
		close(r.gate)
		r.expectReply(t, 99, nil)
	})
}
