package activation

import (
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/internal/failure"
)

func TestNothingRunsWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		r.expectLog(t, "a:1")
		r.alive.Store(false)
		deliver(t, s, "a", ask(2, 2), ask(3, 3))
		deliver(t, s, "b", ask(4, 4))
		r.expectLog(t, "a:1")
		r.alive.Store(true)
		r.Resume()
		synctest.Wait()
		r.expectReply(t, 2, nil)
		r.expectReply(t, 4, nil)
		if r.made != 2 {
			t.Errorf("%d instances made: a pause must not restart", r.made)
		}
	})
}

// A lease may lapse in the middle of a batch, and come back before anyone was
// told that it was gone.
func TestLapseInsideABatchNeedsNoResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1), ask(5, 2), ask(6, 3))
		synctest.Wait()
		deliver(t, s, "a", ask(7, 4))
		r.alive.Store(false)
		close(r.gate)
		r.expectLog(t, "a:-2")
		deliver(t, s, "a", ask(8, 5))
		r.alive.Store(true)
		pass(2 * parkedLook)
		r.expectLog(t, "a:-2", "a:5", "a:6", "a:7", "a:8")
	})
}

// The lease is asked for before every message, not before every batch.
func TestALapseEndsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.midBatch(t)
		r.alive.Store(false)
		close(r.gate)
		r.expectLog(t, "a:-2", "a:-2")
		if n := r.counters.Handled.Load(); n != 2 {
			t.Errorf("%d counted, want 2", n)
		}
		r.alive.Store(true)
		r.Resume()
		r.expectLog(t, "a:-2", "a:-2", "a:5", "a:6")
	})
}

// slowStarter waits in OnStart for the gate.
type slowStarter struct{ *probe }

func (s slowStarter) OnStart(*Context) error {
	<-s.r.gate
	return nil
}

// A lease may lapse while an instance begins, or its state is fetched: its first message
// waits as any other does, for a node that others took for gone may be replaced by then.
func TestALapseWhileAnInstanceBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cfg.New = func(id string) Entity[*Context, int, int] { return slowStarter{&probe{id: id, r: r}} }
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1), ask(2, 2))
		synctest.Wait()
		r.alive.Store(false)
		close(r.gate)
		r.expectLog(t)
		if n := r.counters.Handled.Load(); n != 0 {
			t.Errorf("%d counted", n)
		}
		r.alive.Store(true)
		r.Resume()
		r.expectLog(t, "a:1", "a:2")
		r.expectReply(t, 1, nil)
		r.expectReply(t, 2, nil)
	})
}

// A large payload takes long to decode: a lease that lapses meanwhile keeps its message
// from the handler.
func TestALapseWhileAPayloadIsDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cfg.Decode = func(b []byte) (int, error) {
			<-r.gate
			return int(b[0]), nil
		}
		s := r.start(t, 0)
		deliver(t, s, "a", ask(1, 1))
		r.expectLog(t, "a:1")
		large := ask(0, 2)
		large.SetLate([]byte{2})
		deliver(t, s, "a", large)
		synctest.Wait()
		r.alive.Store(false)
		close(r.gate)
		r.expectLog(t, "a:1")
		r.alive.Store(true)
		r.Resume()
		r.expectLog(t, "a:1", "a:2")
		r.expectReply(t, 2, nil)
	})
}

// TestAnAbandonedShardRunsNothingWithoutLease checks that no handler begins if a shard is abandoned at the
// moment in which its runner finds that the lease has lapsed: its messages fail.
func TestAnAbandonedShardRunsNothingWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lapses func() bool
		r := newRig(t, func(cfg *Config[*Context, int, int]) {
			cfg.Alive = func() bool { return lapses == nil || lapses() }
		})
		s := r.midBatch(t)
		lapses = func() bool {
			r.Abandon()
			return false
		}
		close(r.gate)
		r.expectLog(t, "a:-2", "a:-2")
		for call := uint64(3); call <= 4; call++ {
			r.expectReply(t, call, failure.Abandoned)
		}
		if s.Entities() != 0 {
			t.Errorf("%d instances are left", s.Entities())
		}
	})
}

// TestAStartNeedsNoLeaseOnceItHasBegun checks that an instance which began before the lease lapsed is
// reported as started, since no handler runs for a start.
func TestAStartNeedsNoLeaseOnceItHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		create := r.cfg.New
		r.cfg.New = func(id string) Entity[*Context, int, int] {
			r.alive.Store(false)
			return create(id)
		}
		deliver(t, r.start(t, 0), "a", ask(0, 1).ForStart())
		r.expectReply(t, 1, ErrStarted)
		r.expectLog(t)
	})
}
