package delivery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
)

// producing is a producer whose shard has its home at node 2.
type producing struct {
	*Producer
	t    *testing.T
	r    *Router
	inc  *Incarnation
	w    *wires
	done []reliable.Done
}

// newProducing returns one whose callback, if it has one, is called before a message counts as
// reported.
func newProducing(t *testing.T, messages int, callback func()) *producing {
	p := &producing{t: t}
	p.r, p.inc, p.w = wired(&hostHere{})
	p.r.errorOf = func(frames.Code, string) error { return nil }
	p.r.OpenRoute(p.inc, 0, 2, firstToken)
	p.Producer = NewProducer(p.r, reliable.Config{Producer: 9, Window: 100, Messages: messages, Bytes: 1 << 20, Resend: time.Minute, KeepDone: callback != nil}, func(d reliable.Done) {
		if p.done = append(p.done, d); callback != nil {
			callback()
		}
	})
	t.Cleanup(func() { p.Close() })
	return p
}

// produce sends a message to the entity e.
func (p *producing) produce(ctx context.Context) error {
	return p.Send(ctx, 0, "e", frames.AppendReliable(nil, "t", 0, "e", nil, ""))
}

// copies returns the copies that were sent, as number and try.
func (p *producing) copies() (all [][2]uint64) {
	synctest.Wait()
	for _, f := range p.w.ofKind(frames.KindTell) {
		s := stampOf(p.t, f)
		all = append(all, [2]uint64{s.Seq, uint64(s.Try)})
	}
	return all
}

// confirm has the home confirm a message.
func (p *producing) confirm(seq uint64) {
	p.r.OnConfirm(2, &frames.Confirmation{Shard: 0, Producer: 9, Seq: seq, Try: 1, Outcome: byte(activation.ReliableHandled)})
	synctest.Wait()
}

// firstCopy produces a message, and returns the frame of its copy, also parsed.
func (p *producing) firstCopy(t *testing.T) ([]byte, frames.Request) {
	t.Helper()
	if err := p.produce(t.Context()); err != nil {
		t.Fatal(err)
	}
	frame := p.w.ofKind(frames.KindTell)[0]
	q, err := frames.ParseRequest(frame)
	if err != nil {
		t.Fatal(err)
	}
	return frame, q
}

// TestAnUnansweredMessageIsSentAgain checks that a message is sent again after Resend, without an event.
func TestAnUnansweredMessageIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducing(t, 10, nil)
		synctest.Wait() // its goroutine has nothing to wait for, and sleeps
		if err := p.produce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for passed, want := range []int{1, 1, 2} {
			if got := p.copies(); len(got) != want {
				t.Errorf("%d copies after %d half minutes", len(got), passed)
			}
			<-time.After(31 * time.Second)
		}
		if f := p.r.ReliableFigures(); f.Resends != 1 || f.Unconfirmed != 1 || f.Producers != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// TestARefusedReliableMessageIsSentAgain checks that the producer of a refused message sends it again
// soon, whichever node has refused it.
func TestARefusedReliableMessageIsSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		from     gossip.NodeID
		producer reliable.Producer
		stamped  bool
		again    bool
	}{
		"refused":             {3, 9, true, true},
		"of another producer": {3, 8, true, false},
		"without a stamp":     {3, 9, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newProducing(t, 10, nil)
			frame, q := p.firstCopy(t)
			stamp := stampOf(t, frame)
			stamp.Producer = c.producer
			if stamp.Put(q.Reliable); !c.stamped {
				q.Reliable = q.Reliable[:4]
			}
			p.r.OnRefused(p.inc, c.from, &q, frame)
			<-time.After(time.Second)
			if got := p.copies(); (len(got) == 2) != c.again || got[len(got)-1] != [2]uint64{1, uint64(len(got))} {
				t.Errorf("%s: copies %v", name, got)
			}
			if n := p.r.counters.Dropped(DropNotHome); n != 0 {
				t.Errorf("%s: %d dropped", name, n)
			}
		})
	}
}

// TestAReliableMessageThatItsHomeRefusesKeepsItsPlace checks that the route asks for another home, and
// that only the producer sends the message there.
func TestAReliableMessageThatItsHomeRefusesKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducing(t, 10, nil)
		frame, q := p.firstCopy(t)
		p.r.OnRefused(p.inc, 2, &q, frame)
		if s := p.r.Status(0); s.State != "closed" || s.Buffered != 0 {
			t.Errorf("the route is %+v", s)
		}
		p.r.OpenRoute(p.inc, 0, 3, firstToken)
		<-time.After(time.Second)
		if got := p.copies(); len(got) != 2 || p.w.to[len(p.w.to)-1] != 3 {
			t.Errorf("copies %v, the last to %v", got, p.w.to[len(p.w.to)-1])
		}
	})
}

// TestAWindowOpensWithAConfirmation checks that the next message waits for a confirmation, until its
// caller's context ends.
func TestAWindowOpensWithAConfirmation(t *testing.T) {
	for _, callback := range []func(){nil, func() {}} {
		synctest.Test(t, func(t *testing.T) {
			p := newProducing(t, 1, callback)
			if err := p.produce(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := p.produce(ctx); !errors.Is(err, failure.WindowFull) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a second message: %v", err)
			}
			time.AfterFunc(time.Second, func() {
				p.r.OnConfirm(2, &frames.Confirmation{Shard: 0, Producer: 9, Seq: 1, Try: 1, Outcome: byte(activation.ReliableHandled)})
			})
			began := time.Now()
			if err := p.produce(t.Context()); err != nil || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			if got := p.copies(); len(got) != 2 || got[1] != [2]uint64{2, 1} || len(p.done) != 1 {
				t.Errorf("copies %v, %d done", got, len(p.done))
			}
		})
	}
}

// TestAClosedProducerTakesNoMessage checks that a caller which waits for room ends when the producer is
// closed, and that a message after that fails immediately.
func TestAClosedProducerTakesNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducing(t, 1, nil)
		if err := p.produce(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { p.Close() })
		began := time.Now()
		for range 2 {
			if err := p.produce(t.Context()); !errors.Is(err, failure.ReliableClosed) || time.Since(began) != time.Second {
				t.Errorf("%v after %v, want the end of the producer after a second", err, time.Since(began))
			}
		}
		if got := p.copies(); len(got) != 1 {
			t.Errorf("copies %v, want the first message alone", got)
		}
	})
}

// TestAFlushWaitsForNoLaterReports checks that a flush whose messages are finished waits for their reports,
// and not for those of messages that finish meanwhile.
func TestAFlushWaitsForNoLaterReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducing(t, 10, nil)
		advance := func(finished, reported uint64) {
			p.mu.Lock()
			p.finished, p.reported = p.finished+finished, p.reported+reported
			p.mu.Unlock()
			p.room.Broadcast()
			synctest.Wait()
		}
		advance(1, 0)
		flushed := make(chan error, 1)
		go func() { flushed <- p.Flush(t.Context()) }()
		synctest.Wait()
		advance(1, 0)
		if len(flushed) != 0 {
			t.Error("the flush ends before the report")
		}
		if advance(1, 1); len(flushed) != 1 {
			t.Error("the flush waits for reports of later messages")
		}
		advance(0, 2)
		if err := <-flushed; err != nil {
			t.Error(err)
		}
	})
}

// TestAFlushWaitsForReports checks that a flush waits for reports of the messages before it, and ends with
// the producer.
func TestAFlushWaitsForReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newProducing(t, 10, func() { <-gate })
		if err := p.Flush(t.Context()); err != nil {
			t.Errorf("nothing to wait for: %v", err)
		}
		for range 2 {
			if err := p.produce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		flushed := make(chan error, 1)
		go func() { flushed <- p.Flush(t.Context()) }()
		pending := func(what string) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-flushed:
				t.Fatalf("%s: the flush ends with %v", what, err)
			default:
			}
		}
		pending("nothing is confirmed")
		if err := p.produce(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.confirm(1)
		gate <- struct{}{}
		pending("one of two is confirmed")
		p.confirm(2)
		pending("the second one is not reported")
		gate <- struct{}{}
		synctest.Wait()
		if err := <-flushed; err != nil || p.Unconfirmed() != 1 {
			t.Errorf("%v, %d unconfirmed", err, p.Unconfirmed())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the third one is not confirmed: %v", err)
		}
		go func() { flushed <- p.Flush(t.Context()) }()
		pending("the third one is not confirmed")
		if left := p.Close(); left != 1 || !errors.Is(<-flushed, failure.ReliableClosed) {
			t.Errorf("%d are left", left)
		}
		if err := p.produce(t.Context()); !errors.Is(err, failure.ReliableClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
