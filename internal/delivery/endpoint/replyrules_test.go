package endpoint

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TestCancelledAsksAreSkipped checks which asks the runtime of entities may skip, and how a late answer is
// counted.
func TestCancelledAsksAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		r := &replies[*activation.Context, string, string]{n.e, n.inc}
		call := n.e.Calls.Begin(0, hostingSelf, time.Time{})
		own, there := activation.ReplyTo{Node: hostingSelf, Call: call.Number}, activation.ReplyTo{Node: 2, Call: 7}
		n.e.cancelled.Add(own) // as if it were of another node
		if r.Cancelled(own) || r.Cancelled(there) {
			t.Error("an ask that is open is cancelled")
		}
		if r.Reply(own, "done", nil); !call.Await(t.Context()) || call.Resp != "done" || !r.Cancelled(own) {
			t.Errorf("the answer is %q", call.Resp)
		}
		if late := n.e.Counters.Dropped(delivery.DropReplyLate); late != 0 {
			t.Errorf("%d late replies are counted", late)
		}
		moved := n.e.Calls.Begin(0, hostingSelf, time.Time{})
		r.Reply(activation.ReplyTo{Node: hostingSelf, Call: moved.Number}, "", activation.ErrNotHosted)
		if !moved.Await(t.Context()) || moved.Err != failure.Moved {
			t.Errorf("an entity that has moved answers its own node with %v", moved.Err)
		}
		failed := n.e.Calls.Begin(0, 2, time.Time{})
		if !n.e.FailAsk(failed.Number, failure.Moved) || n.e.FailAsk(failed.Number, failure.NodeLost) || failed.Err != failure.Moved {
			t.Errorf("an ask that fails ends with %v", failed.Err)
		}
		n.e.cancelled.Add(there)
		if !r.Cancelled(there) || r.Cancelled(there) {
			t.Error("the cancelled ask of another node is not skipped, or twice")
		}
		if r.Reply(own, "late", nil); n.e.Counters.Dropped(delivery.DropReplyLate) != 1 {
			t.Errorf("%d late replies are counted", n.e.Counters.Dropped(delivery.DropReplyLate))
		}
		if r.Reply(there, "", activation.ErrExpired); len(n.takeSent()) != 0 {
			t.Error("an ask that has expired is answered")
		}
	})
}

// TestReliableMessagesAreEncodedAndReported checks the frame of a reliable message, and the report of its
// outcome.
func TestReliableMessagesAreEncodedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, withPicky)
		shard, first, err := n.e.EncodeReliable(t.Context(), Origin{}, "e", "first")
		if err != nil || shard != 0 {
			t.Fatalf("shard %d, %v", shard, err)
		}
		if _, second, err := n.e.EncodeReliable(t.Context(), Origin{}, "e", "other"); err != nil || len(second) != len(first) {
			t.Fatalf("%d bytes, %v", len(second), err)
		}
		q, err := frames.ParseRequest(first)
		if err != nil || q.Reliable == nil || string(q.ID) != "e" || string(q.Payload) != "first" {
			t.Errorf("encoded %+v, %v", q, err)
		}
		ended := &activation.Context{}
		for name, call := range map[string]func() error{
			"no id": func() error { _, _, err := n.e.EncodeReliable(t.Context(), Origin{}, "", "x"); return err },
			"ended handler": func() error {
				_, _, err := n.e.EncodeReliable(t.Context(), Origin{Handler: ended}, "e", "x")
				return err
			},
			"too large": func() error {
				_, _, err := n.e.EncodeReliable(t.Context(), Origin{}, "e", strings.Repeat("x", 1<<20+1))
				return err
			},
		} {
			if call() == nil {
				t.Errorf("%s: encoded", name)
			}
		}
		if n.e.ReliableReporter(nil) != nil {
			t.Error("a producer without a report has one")
		}
		type outcome struct {
			id, req string
			err     error
		}
		var got []outcome
		report := n.e.ReliableReporter(func(id, req string, err error) { got = append(got, outcome{id, req, err}) })
		_, bad, err := n.e.EncodeReliable(t.Context(), Origin{}, "f", "bad")
		if err != nil {
			t.Fatal(err)
		}
		report(reliable.Done{ID: "e", Data: first, Result: failure.ResultLost})
		report(reliable.Done{ID: "f", Data: bad})
		report(reliable.Done{ID: "g", Data: []byte("no frame")})
		if len(got) != 2 || got[0] != (outcome{"e", "first", failure.ResultLost}) || got[1].id != "f" || !errors.Is(got[1].err, failure.Codec) {
			t.Errorf("reported %+v", got)
		}
	})
}

// TestCopiesOfReliableMessagesAreConfirmed checks the confirmation of a copy that was handled, of one whose
// handler fails, and of one that cannot be decoded; and that a confirmation ends its message at the
// producer, unless it names a shard that the type does not have.
func TestCopiesOfReliableMessagesAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, withPicky)
		n.handle = func(_ *activation.Context, req string) (string, error) {
			if req == "fail" {
				return "", errors.New("failed")
			}
			return req, nil
		}
		for i, c := range []struct {
			req, text string
			outcome   byte
			code      frames.Code
		}{
			{"hello", "", byte(activation.ReliableHandled), frames.CodeOK},
			{"fail", "failed", byte(activation.ReliableHandled), frames.CodeHandler},
			{"bad", "picky", frames.OutcomeGivenUp, frames.CodeCodec},
		} {
			_, f, err := n.e.EncodeReliable(t.Context(), Origin{}, "e", c.req)
			if err != nil {
				t.Fatal(err)
			}
			frames.Stamp(f, token, uint64(i+1))
			q, err := frames.ParseRequest(f)
			if err != nil {
				t.Fatal(err)
			}
			stamp := reliable.Stamp{Producer: 9, Seq: uint64(i + 1), Floor: uint64(i + 1), Try: 1}
			stamp.Put(q.Reliable)
			all := n.frame(f)
			if len(all) != 1 || frames.KindOf(all[0]) != frames.KindConfirm {
				t.Fatalf("%s: %d frames", c.req, len(all))
			}
			_, got, err := frames.ParseConfirm(all[0])
			if err != nil || got.Producer != 9 || got.Seq != stamp.Seq || got.Outcome != c.outcome || got.Code != c.code || got.Text != c.text {
				t.Errorf("%s: %+v, %v", c.req, got, err)
			}
		}
		var done []reliable.Done
		p := delivery.NewProducer(n.e.Router, reliable.Config{Producer: 5, Messages: 4}, func(d reliable.Done) { done = append(done, d) })
		defer p.Close()
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		_, f, err := n.e.EncodeReliable(t.Context(), Origin{}, "e", "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Send(t.Context(), 1, "e", f); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sent, err := frames.ParseRequest(n.takeSent()[0])
		if err != nil {
			t.Fatal(err)
		}
		stamp, err := reliable.ParseStamp(sent.Reliable)
		if err != nil {
			t.Fatal(err)
		}
		for _, shard := range []strategy.ShardID{2, 1} {
			n.HandleFrame(2, frames.AppendConfirm(nil, "t", &frames.Confirmation{Shard: shard, Producer: 5, Seq: stamp.Seq, Try: stamp.Try}))
			synctest.Wait()
			if want := 2 - int(shard); len(done) != want {
				t.Errorf("a confirmation of shard %d: %d messages have ended, want %d", shard, len(done), want)
			}
		}
	})
}
