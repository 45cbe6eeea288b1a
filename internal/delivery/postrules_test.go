package delivery

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// wires are the connections of a node: they keep what is sent, or have no room until relieved.
type wires struct {
	mu     sync.Mutex
	full   bool
	fails  error
	room   chan struct{}
	frames [][]byte
	to     []gossip.NodeID
}

func (w *wires) Send(to gossip.NodeID, _ transport.Class, _ transport.Kind, frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return transport.ErrQueueFull
	}
	if w.fails != nil {
		return w.fails
	}
	w.frames, w.to = append(w.frames, append([]byte(nil), frame...)), append(w.to, to)
	return nil
}

func (w *wires) WaitRoom(ctx context.Context, _ gossip.NodeID, _ transport.Class) error {
	select {
	case <-w.room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// relieve gives the connections room.
func (w *wires) relieve() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = false
	close(w.room)
}

// ofKind returns the frames of a kind that were sent.
func (w *wires) ofKind(k frames.Kind) (all [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.frames {
		if frames.KindOf(f) == k {
			all = append(all, f)
		}
	}
	return all
}

var firstToken = protocol.Token{Term: 1, Seq: 1}

// wired returns a router of one shard, served by an incarnation over wires.
func wired(h *hostHere) (*Router, *Incarnation, *wires) {
	r, w := h.router(), &wires{room: make(chan struct{})}
	inc := &Incarnation{Self: self, Ctx: context.Background(), Work: &sync.WaitGroup{}, Links: w,
		Need: func(strategy.ShardID) {}, Misrouted: func(strategy.ShardID, protocol.Token) {}}
	inc.Out = &Outbox{Links: w, Ctx: inc.Ctx, Work: inc.Work, Lost: func(int) {}}
	r.Serve(inc)
	return r, inc, w
}

// tellItem is a message without a reply to the entity e, of some bytes.
func tellItem(bytes int) *Item {
	it := NewItem(Message{Frame: frames.AppendRequest(nil, "t", 0, "e", 0, nil)}, "e", false)
	it.Bytes = bytes
	return &it
}

// TestBuffersAreBounded checks the bounds in messages and bytes, for one shard and for all.
func TestBuffersAreBounded(t *testing.T) {
	bounds := Bounds{BufferMessages: 5, BufferBytes: 100, ShardMessages: 3, ShardBytes: 50}
	for name, c := range map[string]struct {
		here, bytesHere     int // in the buffer of the shard
		others, bytesOthers int64
		more                int
		room                bool
	}{
		"empty":                        {0, 0, 0, 0, 50, true},
		"too large for a shard":        {0, 0, 0, 0, 51, false},
		"room for one message":         {2, 20, 0, 0, 1, true},
		"as many messages as may be":   {3, 20, 0, 0, 1, false},
		"as many bytes as may be":      {1, 20, 0, 0, 30, true},
		"more bytes":                   {1, 20, 0, 0, 31, false},
		"room for one message of all":  {0, 0, 4, 10, 1, true},
		"as many messages of all":      {0, 0, 5, 10, 1, false},
		"as many bytes of all":         {0, 0, 1, 60, 40, true},
		"more bytes of all":            {0, 0, 1, 60, 41, false},
		"the bytes of both are summed": {1, 20, 1, 60, 20, true},
		"more than the sum may be":     {1, 20, 1, 60, 21, false},
	} {
		r := (&hostHere{}).router()
		r.bounds = bounds
		rt := r.routes.routeTo(0)
		for i := range c.here {
			it := tellItem(0)
			if i == 0 {
				it.Bytes = c.bytesHere
			}
			rt.core.Keep(it)
		}
		r.heldMessages.Store(c.others + int64(c.here))
		r.heldBytes.Store(c.bytesOthers + int64(c.bytesHere))
		if got := hasRoom(r, rt, c.more); got != c.room {
			t.Errorf("%s: has room %v", name, got)
		}
	}
}

// TestTheGaugesFollowARoute checks that each change of a route changes the gauges of messages, bytes and
// gates. The wait for a home counts from the first message on, and room wakes the senders that wait for
// it.
func TestTheGaugesFollowARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, inc, _ := wired(&hostHere{})
		r.heldMessages.Store(10)
		r.heldBytes.Store(1000)
		rt := r.routes.routeTo(0)
		began := time.Now()
		check := func(what string, messages, bytes, gates int, woken bool, room <-chan struct{}) {
			t.Helper()
			m, b := r.Held()
			took, waits := rt.waited()
			if m != 10+messages || b != 1000+bytes || r.counters.Gates.Load() != gates || waits != (messages > 0) || waits && took != time.Since(began) {
				t.Errorf("%s: %d messages, %d bytes, %d gates, waited for %v", what, m-10, b-1000, r.counters.Gates.Load(), took)
			}
			select {
			case <-room:
				if !woken {
					t.Errorf("%s: wakes those that wait for room", what)
				}
			default:
				if woken {
					t.Errorf("%s: wakes nothing", what)
				}
			}
		}
		room := r.room.Wait()
		r.onRoute(inc, rt, func(c *route.Route[Message]) { c.Keep(tellItem(7)) })
		check("the first message", 1, 7, 0, false, room)
		<-time.After(time.Second)
		r.onRoute(inc, rt, func(c *route.Route[Message]) { c.Keep(tellItem(8)) })
		check("the second message", 2, 15, 0, false, room)
		r.onRoute(inc, rt, func(c *route.Route[Message]) { c.Filter(func(it *Item) bool { return it.Bytes == 7 }) })
		check("one is dropped", 1, 8, 0, true, room)
		room = r.room.Wait()
		r.OpenRoute(inc, 0, 2, firstToken)
		check("a home", 0, 0, 0, true, room)
		r.OnStop(inc, 2, &frames.StopNotice{Marker: frames.Marker{Shard: 0, Token: firstToken}, ID: []byte("e"), Gate: flow.Handler})
		check("a stop", 0, 0, 1, false, r.room.Wait())
		r.OnStop(inc, 2, &frames.StopNotice{Marker: frames.Marker{Shard: 0, Token: firstToken}, ID: []byte("e"), Gate: flow.Open})
		if r.counters.Gates.Load() != 0 {
			t.Errorf("%d gates at the end", r.counters.Gates.Load())
		}
	})
}

// TestARefusedAskIsKeptOrGivenBack checks that a refused ask is kept if it may be sent again. Else its
// caller gets the error that the entity has moved; a tell is counted.
func TestARefusedAskIsKeptOrGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		call     uint64
		from     gossip.NodeID
		messages int
		dropped  uint64
		failed   bool
	}{
		"a tell, of the home":         {0, 2, 1, 0, false},
		"a tell, of another node":     {0, 3, 0, 1, false},
		"an ask, of the home":         {7, 2, 1, 0, false},
		"an ask, of another node":     {7, 3, 0, 0, true},
		"an ask that is over, at all": {8, 2, 0, 0, false},
	} {
		failed := false
		local := &failing{hostHere{open: map[uint64]bool{7: true}}, func() { failed = true }}
		r, inc, w := wired(&local.hostHere)
		r.local = local
		r.OpenRoute(inc, 0, 2, firstToken)
		it := NewItem(Message{Frame: frames.AppendRequest(nil, "t", 0, "e", c.call, nil), Call: c.call}, "e", false)
		if _, err := r.Post(t.Context(), 0, &it); err != nil && c.call != 8 {
			t.Fatal(err)
		}
		frame := it.Msg.Frame
		if len(w.frames) > 0 {
			frame = w.frames[0]
		}
		q, err := frames.ParseRequest(frame)
		if err != nil {
			t.Fatal(err)
		}
		q.Token, q.Number = firstToken, 1
		r.OnRefused(inc, c.from, &q, frame)
		for _, m := range w.ofKind(frames.KindMarker) {
			marker, _ := frames.ParseMarker(m)
			r.OnMarkerAcked(inc, 2, marker)
		}
		if n, _ := r.Held(); n != c.messages || r.counters.Dropped(DropNotHome) != c.dropped || failed != c.failed {
			t.Errorf("%s: %d kept, %d dropped, failed %v", name, n, r.counters.Dropped(DropNotHome), failed)
		}
	}
}

// failing is a Local that reports the asks that fail.
type failing struct {
	hostHere
	onFail func()
}

func (f *failing) FailAsk(call uint64, err error) bool {
	if f.onFail(); !errors.Is(err, failure.Moved) {
		panic(err)
	}
	return true
}

// TestAPostWaitsForWhatItLacks checks that a post waits for room on the connection, for a node that serves
// the type, and for room in the buffer. The wait ends with the message, or with the caller's context.
func TestAPostWaitsForWhatItLacks(t *testing.T) {
	for name, c := range map[string]struct {
		lack    func(r *Router, inc *Incarnation, w *wires)
		mend    func(r *Router, inc *Incarnation, w *wires)
		kept    bool
		why     error
		dropped uint64
	}{
		"room on the connection": {func(r *Router, inc *Incarnation, w *wires) {
			r.OpenRoute(inc, 0, 2, firstToken)
			w.full = true
		}, func(_ *Router, _ *Incarnation, w *wires) { w.relieve() }, false, failure.BufferFull, 1},
		"a node that serves": {func(r *Router, inc *Incarnation, _ *wires) { r.End() },
			func(r *Router, inc *Incarnation, _ *wires) { r.Serve(inc) }, true, failure.NotReady, 0},
		"room in the buffer": {func(r *Router, _ *Incarnation, _ *wires) { r.heldMessages.Store(100) }, func(r *Router, inc *Incarnation, _ *wires) {
			r.heldMessages.Store(0)
			r.room.Broadcast()
		}, true, failure.BufferFull, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, inc, w := wired(&hostHere{})
			c.lack(r, inc, w)
			began := time.Now()
			it := tellItem(3)
			it.Msg.Expires = began.Add(time.Minute)
			kept, err := r.Post(t.Context(), 0, it)
			if kept || !errors.Is(err, c.why) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute || r.counters.Dropped(DropBufferFull) != c.dropped {
				t.Errorf("%s: %v, %v after %v, %d dropped", name, kept, err, time.Since(began), r.counters.Dropped(DropBufferFull))
			}
			time.AfterFunc(time.Second, func() { c.mend(r, inc, w) })
			began = time.Now()
			if kept, err = r.Post(t.Context(), 0, tellItem(3)); kept != c.kept || err != nil || time.Since(began) != time.Second {
				t.Errorf("%s: %v, %v after %v", name, kept, err, time.Since(began))
			}
			if sent := len(w.ofKind(frames.KindTell)); (sent == 1) == c.kept {
				t.Errorf("%s: %d sent", name, sent)
			}
			r.Close()
			if _, err = r.Post(t.Context(), 0, tellItem(3)); !errors.Is(err, failure.NodeStopping) {
				t.Errorf("%s: %v after Close", name, err)
			}
		})
	}
}

// TestAHomeLearnsThatACallerWaits checks that the home is sent a report, once, when callers wait for its
// grant, and that a grant sends their messages.
func TestAHomeLearnsThatACallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, inc, w := wired(&hostHere{})
		r.OpenRoute(inc, 0, 2, firstToken)
		post := func() {
			if kept, err := r.Post(t.Context(), 0, tellItem(3)); kept || err != nil {
				t.Errorf("kept %v, %v", kept, err)
			}
		}
		for range flow.FirstMessages {
			post()
		}
		if n := len(w.ofKind(frames.KindBlocked)); n != 0 || r.counters.Blocked.Load() != 0 {
			t.Errorf("%d reports before a caller waits, %d are counted", n, r.counters.Blocked.Load())
		}
		for range 2 {
			go post()
			synctest.Wait()
			if n, sent := len(w.ofKind(frames.KindBlocked)), len(w.ofKind(frames.KindTell)); n != 1 || sent != flow.FirstMessages {
				t.Errorf("%d reports, %d messages; want 1 and %d", n, sent, flow.FirstMessages)
			}
			if n := r.counters.Blocked.Load(); n != 1 {
				t.Errorf("the route counts as blocked %d times, want once", n)
			}
		}
		if waiting := r.counters.HeldUp.Load(); waiting != 2 {
			t.Errorf("%d callers count as waiting, want 2", waiting)
		}
		r.OpenRoute(inc, 0, 2, protocol.Token{Term: 1, Seq: 2})
		synctest.Wait()
		if sent := len(w.ofKind(frames.KindTell)); sent != flow.FirstMessages+2 || r.counters.HeldUp.Load() != 0 {
			t.Errorf("%d messages after a new home, want %d", sent, flow.FirstMessages+2)
		}
	})
}

// TestACallerWaitsForAHomeWithoutRoom checks that a caller is queued only if the home has no room, and a
// node serves the type: otherwise it tries again, and a handler that sends to its own entity fails.
func TestACallerWaitsForAHomeWithoutRoom(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(r *Router, inc *Incarnation, it *Item)
		want error
	}{
		"no room":        {func(*Router, *Incarnation, *Item) {}, nil},
		"no node serves": {func(r *Router, _ *Incarnation, _ *Item) { r.now.Store(nil) }, errTryAgain},
		"the end":        {func(r *Router, _ *Incarnation, _ *Item) { r.Close() }, errTryAgain},
		"another home":   {func(r *Router, inc *Incarnation, _ *Item) { r.OpenRoute(inc, 0, 3, protocol.Token{Term: 1, Seq: 2}) }, errTryAgain},
		"its own entity": {func(_ *Router, _ *Incarnation, it *Item) { it.Msg.ToItself = true }, failure.MailboxFull},
	} {
		r, inc, _ := wired(&hostHere{})
		r.OpenRoute(inc, 0, 2, firstToken)
		for range flow.FirstMessages {
			if _, err := r.Post(t.Context(), 0, tellItem(3)); err != nil {
				t.Fatal(err)
			}
		}
		it := tellItem(3)
		c.edit(r, inc, it)
		if w, err := r.beginWait(r.routes.routeTo(0), it); !errors.Is(err, c.want) || (w != nil) != (c.want == nil) {
			t.Errorf("%s: waits %v, %v; want %v", name, w != nil, err, c.want)
		}
	}
}

// TestGrantsAreListedOnce checks that a grant is listed once until it is taken. An urgent grant is sent
// with the block that made it urgent, and a grant for this node wakes the loop of its accounts.
func TestGrantsAreListedOnce(t *testing.T) {
	for _, node := range []gossip.NodeID{self, 2} {
		sent := 0
		accounts := newAccounts("t", 2, self, NewBudgets(), func(gossip.NodeID, []byte) { sent++ })
		s := accounts.Sender(node)
		a, _ := s.Accept(0, firstToken, 1, 1)
		if s.Flush([]*Account{a}); len(s.due) != 0 || s.urgent || sent != 0 {
			t.Errorf("node %d: lists %d grants that are not due", node, len(s.due))
		}
		for n := uint64(2); n <= flow.FirstMessages/2; n++ {
			s.Accept(0, firstToken, n, 1)
		}
		if s.Flush([]*Account{a}); len(s.due) != 1 || s.urgent || sent != 0 {
			t.Fatalf("node %d: %d grants, urgent %v, %d sent after half a window", node, len(s.due), s.urgent, sent)
		}
		s.mu.Lock()
		if s.listDue(a) || len(s.due) != 1 {
			t.Errorf("node %d: listed %d times", node, len(s.due))
		}
		s.mu.Unlock()
		s.Reconcile(1, firstToken, flow.Report{Sent: flow.FirstMessages, Limit: flow.FirstMessages})
		if len(s.due) != 2 || !s.urgent {
			t.Errorf("node %d: %d grants, urgent %v after a report", node, len(s.due), s.urgent)
		}
		s.Flush(nil)
		select {
		case <-accounts.wake:
			if node != self {
				t.Error("another node's grants wake the loop")
			}
			s.Transmit()
		default:
			if node == self {
				t.Error("the loop is not woken")
			}
		}
		if sent != 1 || len(s.due) != 0 || s.urgent || a.listed {
			t.Errorf("node %d: %d frames, %d due, urgent %v, listed %v", node, sent, len(s.due), s.urgent, a.listed)
		}
		if s.Flush(nil); sent != 1 {
			t.Errorf("node %d: nothing is due, and %d frames leave", node, sent)
		}
	}
}

// stampOf returns the stamp of a reliable message.
func stampOf(t *testing.T, frame []byte) reliable.Stamp {
	t.Helper()
	q, err := frames.ParseRequest(frame)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := reliable.ParseStamp(q.Reliable)
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}

// TestTheWaitOfAShardForItsHomeIsReported checks that the report has the time since the first message
// came into the buffer, and that there is none about messages which a home refused: these have left
// once, so when they came is not known.
func TestTheWaitOfAShardForItsHomeIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, inc, w := wired(&hostHere{})
		var took []time.Duration
		inc.HomeResolved = func(d time.Duration) { took = append(took, d) }
		if kept, err := r.Post(t.Context(), 0, tellItem(7)); !kept || err != nil {
			t.Fatalf("without a home: kept %v, %v", kept, err)
		}
		<-time.After(time.Second)
		r.OpenRoute(inc, 0, 2, firstToken)
		if len(took) != 1 || took[0] != time.Second {
			t.Fatalf("reported are %v, want one wait of a second", took)
		}
		frame := w.ofKind(frames.KindTell)[0]
		q, err := frames.ParseRequest(frame)
		if err != nil {
			t.Fatal(err)
		}
		r.OnRefused(inc, 2, &q, frame)
		r.OpenRoute(inc, 0, 3, protocol.Token{Term: 1, Seq: 2})
		if sent := w.ofKind(frames.KindTell); len(took) != 1 || len(sent) != 2 || w.to[len(w.to)-1] != 3 {
			t.Errorf("reported are %v; %d requests were sent, the last one to %v", took, len(sent), w.to)
		}
	})
}
