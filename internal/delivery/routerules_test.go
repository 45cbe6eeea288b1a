package delivery

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TestAClosedRouteSendsItsMarkerAndHoldsMessages checks that the close of a route sends its owner the marker
// with the token, behind the messages before it, and that later messages wait in the buffer for a home.
func TestAClosedRouteSendsItsMarkerAndHoldsMessages(t *testing.T) {
	r, inc, w := wired(&hostHere{})
	r.OpenRoute(inc, 0, 2, firstToken)
	post := func() {
		t.Helper()
		if _, err := r.Post(t.Context(), 0, tellItem(3)); err != nil {
			t.Fatal(err)
		}
	}
	post()
	closing := protocol.Token{Term: 1, Seq: 7}
	r.CloseRoute(inc, 0, 2, closing)
	post()
	if len(w.frames) != 2 || frames.KindOf(w.frames[0]) != frames.KindTell || frames.KindOf(w.frames[1]) != frames.KindMarker || w.to[1] != 2 {
		t.Fatalf("%d frames are sent, to %v", len(w.frames), w.to)
	}
	if m, err := frames.ParseMarker(w.frames[1]); err != nil || m.Token != closing || m.Shard != 0 {
		t.Errorf("the marker is %+v, %v", m, err)
	}
	if held, _ := r.Held(); held != 1 || r.Status(0).Buffered != 1 || r.Status(0).State != "closed" {
		t.Errorf("%d messages are held, the route is %+v", held, r.Status(0))
	}
	r.OpenRoute(inc, 0, 3, protocol.Token{Term: 1, Seq: 8})
	if held, _ := r.Held(); held != 0 || w.to[len(w.to)-1] != 3 {
		t.Errorf("%d messages are held after a new home, the frames went to %v", held, w.to)
	}
}

// TestARouteToThisNodeIsHiddenWhenItCloses checks that local senders no longer find a shard without the lock
// once its route is closed.
func TestARouteToThisNodeIsHiddenWhenItCloses(t *testing.T) {
	local := &hostHere{hosts: true}
	r, inc, _ := wired(local)
	r.OpenRoute(inc, 0, self, firstToken)
	if local.published != 1 {
		t.Fatalf("published %d times", local.published)
	}
	local.hidden = 0
	inc.Acked = func(gossip.NodeID, strategy.ShardID, protocol.Token) {}
	if r.CloseRoute(inc, 0, self, protocol.Token{Term: 1, Seq: 2}); local.hidden != 1 {
		t.Errorf("hidden %d times after the route was closed", local.hidden)
	}
}

// TestTheEndOfAnIncarnationForgetsHomes checks that messages after it wait for a home that the next
// incarnation names, and are not sent to the former one.
func TestTheEndOfAnIncarnationForgetsHomes(t *testing.T) {
	r, inc, w := wired(&hostHere{})
	r.OpenRoute(inc, 0, 2, firstToken)
	r.End()
	if s := r.Status(0); s.Home != 0 {
		t.Errorf("the route is %+v after the end", s)
	}
	if _, _, err := r.tryOnce(inc, r.routes.routeTo(0), tellItem(3)); !errors.Is(err, failure.NotReady) {
		t.Errorf("without an incarnation: %v", err)
	}
	next := *inc
	r.Serve(&next)
	// A call that began under the former incarnation tries again under the next one.
	if _, _, err := r.tryOnce(inc, r.routes.routeTo(0), tellItem(3)); !errors.Is(err, failure.NotReady) {
		t.Errorf("under the former incarnation: %v", err)
	}
	if kept, err := r.Post(t.Context(), 0, tellItem(3)); !kept || err != nil || len(w.frames) != 0 {
		t.Errorf("kept %v, %v; %d frames are sent", kept, err, len(w.frames))
	}
}

// TestAFullBufferDropsAsksThatHaveEnded checks that asks whose callers have given up leave a full buffer for a
// new message, and that a message is refused if none has, or if their room is too small for it.
func TestAFullBufferDropsAsksThatHaveEnded(t *testing.T) {
	for name, c := range map[string]struct {
		open  map[uint64]bool
		bytes int
		err   error
		drops uint64
	}{
		"one has ended":       {map[uint64]bool{5: true}, 10, nil, 1},
		"none has ended":      {map[uint64]bool{5: true, 6: true}, 10, failure.BufferFull, 0},
		"too little room yet": {map[uint64]bool{5: true}, 90, failure.BufferFull, 1},
	} {
		r, inc, _ := wired(&hostHere{open: c.open})
		r.bounds = Bounds{BufferMessages: 2, BufferBytes: 100, ShardMessages: 2, ShardBytes: 100}
		rt := r.routes.routeTo(0)
		keep := func(call uint64, bytes int) error {
			it := NewItem(Message{Call: call, Frame: frames.AppendRequest(nil, "t", 0, "e", call, nil)}, "e", false)
			it.Bytes = bytes
			rt.mu.Lock()
			defer rt.mu.Unlock()
			_, err := r.bufferItem(inc, rt, &it)
			return err
		}
		if err := errors.Join(keep(5, 20), keep(6, 20)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := keep(0, c.bytes); !errors.Is(err, c.err) || r.counters.Dropped(DropExpired) != c.drops {
			t.Errorf("%s: %v, want %v; %d dropped, want %d", name, err, c.err, r.counters.Dropped(DropExpired), c.drops)
		}
		want := 2 - int(c.drops)
		if c.err == nil {
			want++
		}
		if held, _ := r.Held(); held != want {
			t.Errorf("%s: %d messages are held, want %d", name, held, want)
		}
	}
}

// TestAMessageWithoutRoomAsksForAHome checks that a message for which no buffer has room asks for the home of its
// shard, once: with a home it needs no room.
func TestAMessageWithoutRoomAsksForAHome(t *testing.T) {
	r, inc, _ := wired(&hostHere{})
	var needs []strategy.ShardID
	inc.Need = func(i strategy.ShardID) { needs = append(needs, i) }
	r.heldMessages.Store(int64(r.bounds.BufferMessages)) // those of other shards
	rt := r.routes.routeTo(0)
	for range 2 {
		if kept, _, err := r.tryOnce(inc, rt, tellItem(3)); kept || !errors.Is(err, failure.BufferFull) {
			t.Errorf("kept %v, %v", kept, err)
		}
	}
	if !slices.Equal(needs, []strategy.ShardID{0}) {
		t.Errorf("asks for the homes of shards %v", needs)
	}
}

// TestAMessageOfAWaitingCallerCountsAsSent checks that a message which leaves at a grant, after its caller has
// waited for it, counts by its route once, and does not count if it cannot be sent.
func TestAMessageOfAWaitingCallerCountsAsSent(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, inc, w := wired(&hostHere{})
			r.OpenRoute(inc, 0, 2, firstToken)
			for range flow.FirstMessages {
				if _, err := r.Post(t.Context(), 0, tellItem(3)); err != nil {
					t.Fatal(err)
				}
			}
			before := r.counters.SentBy(figures.RouteRemote)
			failed := make(chan error, 1)
			go func() {
				_, err := r.Post(t.Context(), 0, tellItem(3))
				failed <- err
			}()
			synctest.Wait()
			if fails {
				w.fails = transport.ErrFrameTooLarge
			}
			grant := frames.Grant{Token: firstToken, Grant: flow.Grant{Limit: 2 * flow.FirstMessages, LimitBytes: 1 << 20}}
			if err := r.OnGrants(2, frames.AppendGrant(nil, &grant)); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; fails != errors.Is(err, failure.TooLarge) || !fails && err != nil {
				t.Errorf("fails %v: %v", fails, err)
			}
			// The caller counts a message of its own that left at its first attempt.
			if n := r.counters.SentBy(figures.RouteRemote) - before; n != map[bool]uint64{false: 1, true: 0}[fails] {
				t.Errorf("fails %v: %d messages count as sent", fails, n)
			}
		})
	}
}

// TestGrantsWithoutAnIncarnationAreDropped checks that a node which serves the type no longer looks at grants,
// and that one which serves it refuses those of a shard that the type does not have.
func TestGrantsWithoutAnIncarnationAreDropped(t *testing.T) {
	r, inc, _ := wired(&hostHere{})
	grants := frames.AppendGrant(nil, &frames.Grant{Shard: 1, Token: firstToken})
	if err := r.OnGrants(2, grants); !errors.Is(err, frames.ErrMalformed) {
		t.Errorf("a grant of a shard that does not exist: %v", err)
	}
	r.End()
	if err := r.OnGrants(2, grants); err != nil {
		t.Errorf("without an incarnation: %v", err)
	}
	if r.Serving() == inc {
		t.Error("the incarnation serves after its end")
	}
}

// TestIdleWindowsOfDistantShardsAreAsked checks that the look for idle windows finds the accounts of shards in
// any page, and passes the pages without one.
func TestIdleWindowsOfDistantShardsAreAsked(t *testing.T) {
	var asked []strategy.ShardID
	accounts := newAccounts("t", 3*pageShards, self, NewBudgets(), func(_ gossip.NodeID, frame []byte) {
		if m, _, err := frames.ParseShrink(frame); err == nil && frames.KindOf(frame) == frames.KindShrink {
			asked = append(asked, m.Shard)
		}
	})
	s := accounts.Sender(2)
	const shard = 3*pageShards - 1
	s.Reconcile(shard, firstToken, flow.Report{Sent: flow.FirstMessages, Limit: flow.FirstMessages})
	s.Transmit()
	for range 4 {
		accounts.AskIdle()
	}
	if len(asked) == 0 || slices.ContainsFunc(asked, func(i strategy.ShardID) bool { return i != shard }) {
		t.Errorf("asks for the windows of shards %v, want %d", asked, shard)
	}
}

// TestARejectedReliableMessageIsAnswered checks that its producer learns that the copy was refused, or that the
// message is given up if it cannot be decoded. A message without a stamp, and one that arrives when no
// incarnation serves, are not answered.
func TestARejectedReliableMessageIsAnswered(t *testing.T) {
	stamp := make([]byte, reliable.StampBytes)
	(&reliable.Stamp{Producer: 9, Seq: 4, Floor: 1, Try: 3}).Put(stamp)
	for name, c := range map[string]struct {
		code    frames.Code
		stamp   []byte
		serves  bool
		outcome byte
	}{
		"refused":          {frames.CodeMailboxFull, stamp, true, byte(activation.ReliableRefused)},
		"not decoded":      {frames.CodeCodec, stamp, true, frames.OutcomeGivenUp},
		"without a stamp":  {frames.CodeCodec, stamp[:4], true, 0},
		"no node serves":   {frames.CodeCodec, stamp, false, 0},
		"without anything": {frames.CodeMailboxFull, nil, false, 0},
	} {
		r, _, w := wired(&hostHere{})
		if !c.serves {
			r.End()
		}
		r.RejectReliable(2, &frames.Request{Shard: 0, Reliable: bytes.Clone(c.stamp)}, c.code, "why")
		sent := w.ofKind(frames.KindConfirm)
		if answered := c.serves && len(c.stamp) == reliable.StampBytes; len(sent) != map[bool]int{true: 1}[answered] {
			t.Errorf("%s: %d answers", name, len(sent))
			continue
		} else if !answered {
			continue
		}
		_, got, err := frames.ParseConfirm(sent[0])
		if err != nil || got.Producer != 9 || got.Seq != 4 || got.Try != 3 || got.Outcome != c.outcome || got.Code != c.code || got.Text != "why" || w.to[0] != 2 {
			t.Errorf("%s: answers %+v to %v, %v", name, got, w.to, err)
		}
	}
}

// TestAReliableMessageThatIsTooLargeIsGivenUp checks that a message which no frame can carry is reported once,
// and that the messages behind it are sent.
func TestAReliableMessageThatIsTooLargeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducing(t, 10, func() {})
		p.w.fails = transport.ErrFrameTooLarge
		if err := p.produce(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(p.done) != 1 || !errors.Is(p.done[0].Result, failure.TooLarge) || p.Unconfirmed() != 0 {
			t.Fatalf("done %+v, %d are unconfirmed", p.done, p.Unconfirmed())
		}
		p.w.fails = nil
		if err := p.produce(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.confirm(2)
		if got := p.copies(); len(got) != 1 || got[0][0] != 2 || len(p.done) != 2 || p.r.ReliableFigures().GivenUp != 1 {
			t.Errorf("copies %v, done %+v", got, p.done)
		}
	})
}

// TestAProducerSendsAgainUnderTheNextIncarnation checks that a message which was in flight at the end of an
// incarnation is sent again once the next one has a home for it, before its pause ends.
func TestAProducerSendsAgainUnderTheNextIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducing(t, 10, nil)
		if err := p.produce(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.r.End()
		next := *p.inc
		p.r.Serve(&next)
		p.r.OpenRoute(&next, 0, 3, protocol.Token{Term: 2, Seq: 1})
		<-time.After(time.Second)
		if got := p.copies(); len(got) != 2 || p.w.to[len(p.w.to)-1] != 3 {
			t.Errorf("copies %v, sent to %v", got, p.w.to)
		}
	})
}

// TestAWaitEndsAtTheEarlierLimit checks that a call which waits for room waits until its context's deadline or its
// own limit, whichever comes first.
func TestAWaitEndsAtTheEarlierLimit(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct{ end, until, want time.Time }{
		"neither":          {},
		"a deadline":       {end: now.Add(time.Hour), want: now.Add(time.Hour)},
		"a limit":          {until: now.Add(time.Hour), want: now.Add(time.Hour)},
		"a limit before":   {now.Add(2 * time.Hour), now.Add(time.Hour), now.Add(time.Hour)},
		"a limit behind":   {now.Add(time.Hour), now.Add(2 * time.Hour), now.Add(time.Hour)},
		"at the same time": {now.Add(time.Hour), now.Add(time.Hour), now.Add(time.Hour)},
	} {
		ctx, cancel := t.Context(), func() {}
		if !c.end.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, c.end)
		}
		limited, release := WithLimit(ctx, c.until)
		if got, _ := limited.Deadline(); !got.Equal(c.want) {
			t.Errorf("%s: ends at %v, want %v", name, got, c.want)
		}
		release()
		cancel()
	}
}
