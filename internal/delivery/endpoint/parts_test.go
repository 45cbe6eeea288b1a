package endpoint

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/transport"
)

// isOver reports whether a channel is closed.
func isOver(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// TestABarrierWaitsForEachNodeOnce checks that a wait ends with the last node, which has acknowledged
// the marker of this wait or is lost.
func TestABarrierWaitsForEachNodeOnce(t *testing.T) {
	var f flushBarrier
	if _, all := f.beginWait(nil); !isOver(all) {
		t.Error("a wait for no node goes on")
	}
	former, formerAll := f.beginWait([]gossip.NodeID{2})
	number, all := f.beginWait([]gossip.NodeID{2, 3, 4})
	if number == former {
		t.Fatal("two waits have one number")
	}
	f.onMarkerAcked(2, former)
	f.onMarkerAcked(9, number)
	f.onMarkerAcked(2, number)
	f.onMarkerAcked(2, number)
	f.onNodeLost(3)
	if isOver(all) {
		t.Error("a wait has ended without node 4")
	}
	f.onMarkerAcked(4, number)
	f.onMarkerAcked(4, number)
	f.onNodeLost(4)
	if !isOver(all) || isOver(formerAll) {
		t.Error("the wait goes on, or the replaced one has ended")
	}
}

// TestMutualAsksAreFound checks that an ask is found that waits for one in the other direction, as long
// as that is open, and that it is logged.
func TestMutualAsksAreFound(t *testing.T) {
	var log bytes.Buffer
	m := mutualAsks{log: slog.New(slog.NewTextHandler(&log, nil))}
	a, b := activation.EntityHash("t", "a"), activation.EntityHash("t", "b")
	if m.noteArrival(b, "t", "a") {
		t.Error("no ask is open")
	}
	first, second := m.beginAsk(a, "t", "b"), m.beginAsk(a, "t", "b")
	if m.noteArrival(0, "t", "a") || m.noteArrival(a, "t", "b") || m.noteArrival(b, "u", "a") || log.Len() > 0 {
		t.Error("an ask in one direction is mutual")
	}
	if !m.noteArrival(b, "t", "a") || !strings.Contains(log.String(), "two entities ask each other") || !strings.Contains(log.String(), "entity=a") {
		t.Errorf("two entities that ask each other are not found: %q", log.String())
	}
	if first(); !m.noteArrival(b, "t", "a") || m.count.Load() != 1 {
		t.Error("the second ask is open still")
	}
	other := m.beginAsk(b, "t", "c")
	if second(); m.noteArrival(b, "t", "a") || m.count.Load() != 1 {
		t.Errorf("an ask that is over is found, or %d pairs are counted", m.count.Load())
	}
	if other(); m.count.Load() != 0 || len(m.pairs) != 0 {
		t.Errorf("%d pairs are left", m.count.Load())
	}
}

// TestPayloadsInASlabAreApart checks that small payloads share memory without touching each other, and
// that large ones have their own.
func TestPayloadsInASlabAreApart(t *testing.T) {
	var s slab
	var all [][]byte
	for i, n := range []int{0, 1, slabMost, slabMost, slabMost, slabMost + 1, slabMost, slabBytes, slabBytes + 1} {
		p := bytes.Repeat([]byte{byte(i + 1)}, n)
		q := s.copyOf(p)
		clear(p)
		_ = append(q, 99) // of its owner: not the next payload's memory
		all = append(all, q)
		if q == nil || n > slabMost && cap(q) > n {
			t.Errorf("a payload of %d bytes is nil: %v, or keeps %d", n, q == nil, cap(q))
		}
	}
	for i, q := range all {
		if bytes.Count(q, []byte{byte(i + 1)}) != len(q) {
			t.Errorf("payload %d was changed", i)
		}
	}
}

// wild is a codec that panics, or fails.
type wild struct{ fails bool }

func (w wild) Append([]byte, string) ([]byte, error) {
	if w.fails {
		return nil, errors.New("no")
	}
	panic("wild")
}

func (w wild) Decode([]byte) (string, error) {
	_, err := w.Append(nil, "")
	return "x", err
}

// TestCodecsAreContained checks that a codec's panic is an error, and that an encoding has at most its
// bound.
func TestCodecsAreContained(t *testing.T) {
	pool := &sync.Pool{New: func() any { return new([]byte) }}
	for _, fails := range []bool{true, false} {
		w := wild{fails}
		if _, err := appendBounded[string](w, nil, "x", 10); !errors.Is(err, failure.Codec) {
			t.Errorf("fails %v: encoded: %v", fails, err)
		}
		if _, err := copyStrictly[string](pool, w, "x", 10); !errors.Is(err, failure.Codec) {
			t.Errorf("fails %v: copied: %v", fails, err)
		}
		if _, err := decodeSafely[string](w, nil); err == nil {
			t.Errorf("fails %v: decoded", fails)
		}
	}
	for n, want := range map[int]error{10: nil, 11: failure.TooLarge} {
		b, err := appendBounded[string](texts{}, []byte("head"), strings.Repeat("x", n), 10)
		if err != want || err == nil && string(b) != "head"+strings.Repeat("x", n) {
			t.Errorf("%d bytes: %q, %v", n, b, err)
		}
		if got, err := copyStrictly[string](pool, texts{}, strings.Repeat("y", n), 10); err != want || err == nil && got != strings.Repeat("y", n) {
			t.Errorf("%d bytes: copied %q, %v", n, got, err)
		}
	}
}

// fullLinks are connections whose peers are gone.
type fullLinks struct{ Links }

func (fullLinks) Send(gossip.NodeID, transport.Class, transport.Kind, []byte) error {
	return transport.ErrUnknownPeer
}

// TestLostAnswersAreCounted checks that an answer to a node that is gone is counted.
func TestLostAnswersAreCounted(t *testing.T) {
	s := NewSet(Config{Self: 1, Links: fullLinks{}, Ctx: t.Context(), Work: &sync.WaitGroup{}})
	if s.Out.Send(2, []byte{1}); s.AnswersLost.Load() != 1 {
		t.Errorf("%d answers are counted as lost, want 1", s.AnswersLost.Load())
	}
	if s.AsksPending() || len(s.All()) != 0 {
		t.Error("asks wait without an endpoint")
	}
}

// TestRepliesReachTheirCalls checks that an ask waits until its reply, of any size, or the error in its
// place, and that a reply without a call is counted.
func TestRepliesReachTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		reply := func(call uint64, code frames.Code, payload string) []byte {
			return append(frames.AppendReply(nil, "t", call, code), payload...)
		}
		large := strings.Repeat("x", lateBytes)
		for payload, code := range map[string]frames.Code{"small": frames.CodeOK, large: frames.CodeOK, "no": frames.CodeAbandoned} {
			if n.AsksPending() {
				t.Error("an ask waits before it was made")
			}
			c := n.e.Calls.Begin(0, 2, time.Time{})
			if !n.AsksPending() || n.e.PendingAsks() != 1 {
				t.Error("an ask does not wait")
			}
			n.frame(reply(c.Number, code, payload))
			if !c.Await(t.Context()) {
				t.Fatal("the call is open")
			}
			if late := c.Late != nil; late != (payload == large) {
				t.Errorf("a reply of %d bytes is decoded by its caller: %v", len(payload), late)
			}
			resp, err := n.e.resultOf(c)
			if code == frames.CodeOK && (resp != payload || err != nil) || code != frames.CodeOK && !errors.Is(err, failure.Abandoned) {
				t.Errorf("code %d: %d bytes, %v", code, len(resp), err)
			}
			before := n.e.Counters.Dropped(delivery.DropReplyLate)
			n.frame(reply(c.Number, frames.CodeOK, "again"))
			if got := n.e.Counters.Dropped(delivery.DropReplyLate); got != before+1 {
				t.Errorf("%d late replies are counted, want %d", got, before+1)
			}
			n.e.Calls.Release(c)
		}
	})
}

// TestNodesAreGreetedAndCancelsNoted checks the answers to greetings and markers, and that a cancelled
// ask is noted.
func TestNodesAreGreetedAndCancelsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		if sent := n.frame([]byte{byte(frames.KindHello)}); len(sent) != 1 || !bytes.Equal(sent[0], []byte{byte(frames.KindHelloAck)}) {
			t.Errorf("a greeting is answered with %q", sent)
		}
		if sent := n.frame([]byte{byte(frames.KindHelloAck)}); len(sent) != 0 {
			t.Errorf("an answer is answered with %q", sent)
		}
		sent := n.frame(frames.AppendMarker(nil, frames.KindMarker, "t", 1, token))
		if len(sent) != 1 || frames.KindOf(sent[0]) != frames.KindMarkerAck {
			t.Errorf("a marker is answered with %q", sent)
		}
		n.frame(frames.AppendCancel(nil, "t", 77))
		if to := (activation.ReplyTo{Node: 2, Call: 77}); !n.e.cancelled.Take(to) || n.e.cancelled.Take(to) {
			t.Error("a cancelled ask is not noted, or twice")
		}
		before := n.Malformed.Load()
		for _, bad := range [][]byte{nil, {255}, {byte(frames.KindCancel)}, {byte(frames.KindMarker)}, {byte(frames.KindReply)}, {byte(frames.KindMarkerAck)}, {byte(frames.KindRefused)}} {
			n.frame(bad)
		}
		if got := n.Malformed.Load() - before; got != 7 {
			t.Errorf("%d frames are counted as malformed, want 7", got)
		}
	})
}

// TestOnlyCancelledAsksAreCancelledThere checks which ends of an ask are sent to its home.
func TestOnlyCancelledAsksAreCancelledThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		for _, c := range []struct {
			at   gossip.NodeID
			why  error
			want int
		}{{2, context.Canceled, 1}, {2, context.DeadlineExceeded, 0}, {0, context.Canceled, 0}, {hostingSelf, context.Canceled, 0}} {
			n.e.sendCancel(c.at, 7, c.why)
			if sent := n.takeSent(); len(sent) != c.want {
				t.Errorf("at node %v, for %v: %d frames", c.at, c.why, len(sent))
			}
		}
		for at, want := range map[gossip.NodeID]error{0: failure.NoHome, 2: context.Canceled, hostingSelf: context.Canceled} {
			if err := n.e.obstacleOf(at, context.Canceled); !errors.Is(err, want) || !errors.Is(err, context.Canceled) || errors.Is(err, failure.Paused) {
				t.Errorf("an ask at node %v ended: %v", at, err)
			}
		}
		n.alive.Store(false)
		if err := n.e.obstacleOf(hostingSelf, context.Canceled); !errors.Is(err, failure.Paused) {
			t.Errorf("without a lease: %v", err)
		}
		if err := n.e.obstacleOf(2, context.Canceled); errors.Is(err, failure.Paused) {
			t.Errorf("without a lease here, at another node: %v", err)
		}
		limit := time.Now().Add(time.Hour)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		defer cancel()
		if !(askCall{1, limit}).deadlineIn(ctx).Equal(limit) || (askCall{1, time.Time{}}).deadlineIn(t.Context()) != (time.Time{}) || (askCall{1, time.Time{}}).deadlineIn(ctx).IsZero() {
			t.Error("another deadline than the limit of the ask, or that of its context")
		}
		_ = n.e.Detach()(t.Context())
		if err := n.e.obstacleOf(0, context.Canceled); !errors.Is(err, failure.NotReady) {
			t.Errorf("without an incarnation: %v", err)
		}
		for _, at := range []gossip.NodeID{2, hostingSelf} {
			if err := n.e.obstacleOf(at, context.Canceled); err != context.Canceled {
				t.Errorf("without an incarnation, at node %v: %v", at, err)
			}
		}
		if n.e.sendCancel(2, 7, context.Canceled); len(n.takeSent()) != 0 {
			t.Error("a node without an incarnation sends")
		}
		n.e.Abandon() // nothing is hosted
	})
}

// TestAFlushIsAcknowledgedByItsMembers checks that a node which leaves sends a marker to each member with
// a connection, and waits for their acknowledgements, for a bounded time.
func TestAFlushIsAcknowledgedByItsMembers(t *testing.T) {
	for _, acked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			n := newHostingNode(t)
			n.shut = map[gossip.NodeID]bool{3: true}
			wait := n.BeginFlush([]gossip.Member{{Node: gossip.Node{ID: hostingSelf}}, {Node: gossip.Node{ID: 2}}, {Node: gossip.Node{ID: 3}}})
			began, ended := time.Now(), make(chan time.Duration, 1)
			go func() { wait(t.Context()); ended <- time.Since(began) }()
			synctest.Wait()
			sent := n.takeSent()
			if len(sent) != 1 || frames.KindOf(sent[0]) != frames.KindMarker {
				t.Fatalf("sent %q", sent)
			}
			m, err := frames.ParseMarker(sent[0])
			if err != nil || len(m.Type) != 0 {
				t.Fatalf("%+v, %v", m, err)
			}
			if acked {
				n.frame(frames.AppendMarker(nil, frames.KindMarkerAck, "", 0, m.Token))
			}
			if took := <-ended; acked && took != 0 || !acked && took != FlushTimeout {
				t.Errorf("acknowledged %v: waited %v", acked, took)
			}
		})
	}
}

// TestCallsThatMustNotBegin checks the errors of calls before they begin: of ids, of contexts that have
// ended, and of a handler that has returned, which explains the end of its context.
func TestCallsThatMustNotBegin(t *testing.T) {
	e := &Endpoint{Settings: Settings{Name: "t", IDBytes: 3}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		in   Origin
		to   Address
		want error
	}{
		"good":                          {t.Context(), Origin{}, Address{ID: "abc"}, nil},
		"no id":                         {t.Context(), Origin{}, Address{}, failure.BadID},
		"too long":                      {t.Context(), Origin{}, Address{ID: "abcd"}, failure.BadID},
		"no shard":                      {t.Context(), Origin{}, Address{ID: "a", Shard: NoShard}, failure.NoShard},
		"an ended context":              {ended, Origin{}, Address{ID: "a"}, context.Canceled},
		"a handler that returned":       {ended, Origin{Handler: &activation.Context{}}, Address{ID: "a"}, failure.ContextEnded},
		"its context outlives the call": {t.Context(), Origin{Handler: &activation.Context{}}, Address{ID: "a"}, nil},
	} {
		if err := e.checkAddress(c.ctx, c.in, &c.to); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestLargeRequestsAreDecodedLate checks which requests the entity's goroutine decodes.
func TestLargeRequestsAreDecodedLate(t *testing.T) {
	large := make([]byte, lateBytes)
	for name, c := range map[string]struct {
		spec Spec[*activation.Context, string, string]
		q    frames.Request
		want bool
	}{
		"large":                 {q: frames.Request{Payload: large}, want: true},
		"small":                 {q: frames.Request{Payload: large[1:]}},
		"reliable":              {q: frames.Request{Payload: large, Reliable: []byte{1}}},
		"with control messages": {spec: Spec[*activation.Context, string, string]{Control: func(string) bool { return false }}, q: frames.Request{Payload: large}},
		"of its own bytes":      {spec: Spec[*activation.Context, string, string]{OwnRequest: func(p []byte) string { return "" }}, q: frames.Request{Payload: large}},
	} {
		typed := &Typed[*activation.Context, string, string]{spec: c.spec}
		if got := typed.decodesLate(&c.q); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
