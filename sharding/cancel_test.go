package sharding

import (
	"context"
	"errors"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// An asker on another node that gives up is heard of at the home: its ask, which
// waits behind a slow one, is never handled.
func TestCancelledRemoteAsksDoNoWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		j.gate = make(chan struct{})
		_, nodes, regions := three(t, j, nil)
		first, err := regions[0].Ask(within(t, 5*time.Second), "e", say{"x", 1})
		if err != nil {
			t.Fatal(err)
		}
		remote := regions[first.Node%3]
		if nodes[first.Node%3].self.ID == first.Node {
			t.Fatal("the asker must be another node")
		}
		if _, err := remote.Ask(within(t, 5*time.Second), "e", say{"y", 1}); err != nil {
			t.Fatal(err)
		}
		if err := remote.Tell(t.Context(), "e", say{"y", stuck}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := remote.Ask(ctx, "e", say{"y", 2})
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled ask: %v", err)
		}
		synctest.Wait()
		close(j.gate)
		if _, err := remote.Ask(within(t, 5*time.Second), "e", say{"y", 3}); err != nil {
			t.Fatal(err)
		}
		if n := j.count("e"); n != 4 {
			t.Errorf("%d messages handled, want 4: %v", n, j.lines["e"])
		}
	})
}

// An Ask ends at the limit of Within, wherever its home is, as at a deadline of its context. The
// limit travels: no handler runs the ask later. An earlier deadline of the context holds.
func TestAnAskEndsWithinItsLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		j.gate = make(chan struct{})
		_, _, regions := three(t, j, nil)
		for _, r := range regions {
			if _, err := r.Ask(t.Context(), "e", say{"x", 1}, Retry(), Within(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		if err := regions[0].Tell(t.Context(), "e", say{"x", stuck}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, r := range regions {
			for _, ask := range []func() error{
				func() error { _, err := r.Ask(t.Context(), "e", say{"y", i}, Within(time.Second)); return err },
				func() error { _, err := r.Ask(within(t, time.Hour), "e", say{"y", i}, Within(time.Second)); return err },
				func() error { _, err := r.Ask(within(t, time.Second), "e", say{"y", i}, Within(time.Hour)); return err },
				func() error {
					_, err := r.Ask(t.Context(), "e", say{"y", i}, Within(time.Hour), Within(time.Second), Retry())
					return err
				},
				func() error { return r.Start(t.Context(), "e", Within(time.Second)) },
			} {
				began := time.Now()
				err := ask()
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < time.Second || took > time.Second+5*time.Millisecond {
					t.Errorf("node %d: %v after %v", i, err, took)
				}
			}
		}
		close(j.gate)
		if _, err := regions[0].Ask(t.Context(), "e", say{"x", 3}, Within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n := j.count("e"); n != 5 {
			t.Errorf("%d messages handled, want 5: %v", n, j.lines["e"])
		}
	})
}

// An Ask whose message waits for room, here or at its home, ends within its limit too, and its
// error names the obstacle.
func TestAnAskWaitsForRoomWithinItsLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		j.gate = make(chan struct{})
		defer close(j.gate)
		_, _, regions := three(t, j, func(typ *Type[say, heard]) { typ.Limits.Mailbox = 4 })
		if _, err := regions[0].Ask(t.Context(), "e", say{"x", 1}, Within(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := regions[0].Tell(t.Context(), "e", say{"x", stuck}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, r := range regions {
			for r.Tell(within(t, time.Second), "e", say{"y", i}) == nil {
			}
			began := time.Now()
			_, err := r.Ask(t.Context(), "e", say{"z", i}, Within(time.Second))
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrMailboxFull) || took > time.Second+5*time.Millisecond {
				t.Errorf("node %d: %v after %v", i, err, took)
			}
		}
	})
}

// A request under another token than the shard's is one that is late, from before a
// move away and back, or that went out before its sender knew: it must not be
// handled, since what left behind it may have been handled elsewhere. It goes back.
func TestRequestsUnderAnotherTokenAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		n, o := c.add("n"), c.add("o")
		r := n.register(j, nil)
		o.register(j, nil)
		n.start()
		o.start()
		c.install(n, o)
		shard := ShardID(0)
		for ; ; shard++ {
			got, err := r.Ask(within(t, 5*time.Second), idIn(r, shard), say{"x", 1})
			if err != nil {
				t.Fatal(err)
			}
			if got.Node == n.self.ID {
				break
			}
		}
		id := idIn(r, shard)
		token := n.s.endpoints.Find([]byte("ear")).HostedUnder(shard)
		payload, err := Msgpack[say]{}.Append(nil, say{"y", 9})
		if err != nil {
			t.Fatal(err)
		}
		for i, wrong := range []Token{{}, {Term: token.Term, Seq: token.Seq - 1}, {Term: token.Term, Seq: token.Seq + 1}, {Term: token.Term + 1, Seq: token.Seq}} {
			for _, call := range []uint64{0, 1 << 40} {
				frame := append(frames.AppendRequest(nil, "ear", shard, id, call, nil), payload...)
				frames.Stamp(frame, protocol.Token(wrong), 1)
				n.s.HandleEntity(o.self.ID, frame)
			}
			synctest.Wait()
			if s := r.Stats(); j.count(id) != 1 || s.Stale != uint64(2*i+2) {
				t.Errorf("token %v of %v: %d messages handled, %d stale", protocol.Token(wrong), token, j.count(id), s.Stale)
			}
		}
		frame := append(frames.AppendRequest(nil, "ear", shard, id, 0, nil), payload...)
		frames.Stamp(frame, token, 1)
		n.s.HandleEntity(o.self.ID, frame)
		synctest.Wait()
		if j.count(id) != 2 {
			t.Error("the shard's own token was refused")
		}
	})
}
