package endpoint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
)

// askThere asks the entity e of shard 1, whose home is node 2, and answers its attempts with codes, one
// after the other, as soon as they are sent. It returns the pauses between the attempts.
func (n *hostingNode) askThere(ctx context.Context, codes ...frames.Code) (pauses []time.Duration, resp string, err error) {
	type result struct {
		resp string
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		resp, err := n.e.Ask(ctx, Origin{}, Address{Shard: 1, ID: "e"}, "hello", AskOptions{Retry: true})
		ended <- result{resp, err}
	}()
	last := time.Now()
	for i, c := range codes {
		var asked []byte
		for asked == nil {
			synctest.Wait()
			for _, f := range n.takeSent() {
				if frames.IsRequest(f) {
					asked = f
				}
			}
			if asked == nil {
				select {
				case r := <-ended:
					return pauses, r.resp, r.err
				case <-time.After(100 * time.Microsecond):
				}
			}
		}
		if i > 0 {
			pauses = append(pauses, time.Since(last))
		}
		last = time.Now()
		q, err := frames.ParseRequest(asked)
		if err != nil {
			n.t.Fatal(err)
		}
		reply := frames.AppendReply(nil, "t", q.Call, c)
		if c == frames.CodeOK {
			reply = append(reply, "done"...)
		}
		n.HandleFrame(2, reply)
	}
	r := <-ended
	return pauses, r.resp, r.err
}

// TestAnAskIsRepeatedUntilItIsAnswered checks that an ask with Retry is repeated after each failure that may
// pass, with pauses that double up to RetryMost, and that it ends with the first response, or with the
// first failure that lasts. An attempt that may have run the handler is not hidden by a later one.
func TestAnAskIsRepeatedUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		full := slices.Repeat([]frames.Code{frames.CodeMailboxFull}, 9)
		pauses, resp, err := n.askThere(ctx, append(full, frames.CodeOK)...)
		if resp != "done" || err != nil {
			t.Errorf("%q, %v after nine failures, want the response", resp, err)
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 50, 50, 50} {
			if want *= time.Millisecond; i >= len(pauses) || pauses[i] != want {
				t.Fatalf("pauses are %v, want %v at number %d", pauses, want, i)
			}
		}
		if pauses, resp, err = n.askThere(ctx, frames.CodeOK); resp != "done" || err != nil || len(pauses) != 0 {
			t.Errorf("%q, %v without a failure", resp, err)
		}
		began := time.Now()
		if pauses, _, err = n.askThere(ctx, frames.CodeMailboxFull, frames.CodePanicked); !errors.Is(err, failure.Panicked) || len(pauses) != 1 {
			t.Errorf("the handler panics in the second attempt: %v after %d pauses", err, len(pauses))
		}
		if pauses, _, err = n.askThere(ctx, frames.CodeSettings); failure.Retryable(err) || err == nil || len(pauses) != 0 {
			t.Errorf("a failure that lasts: %v after %d pauses", err, len(pauses))
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("failures that last end their asks after %v", took)
		}
		for first, unknown := range map[frames.Code]bool{frames.CodeAbandoned: true, frames.CodeMailboxFull: false} {
			if _, _, err = n.askThere(ctx, first, frames.CodeSettings); failure.OutcomeUnknown(err) != unknown || failure.Retryable(err) {
				t.Errorf("code %d, and then a failure that lasts: %v, want an unknown outcome: %v", first, err, unknown)
			}
		}
	})
}

// TestARequestOfOtherSettingsIsRejected checks that a request for a shard beyond those of the type is
// answered with CodeSettings, and a request for the last shard, which does not run here, is given back.
// A request that names no type is of an unknown type.
func TestARequestOfOtherSettingsIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		if all := n.frame(frames.AppendRequest(nil, "t", 1, "e", 9, nil)); len(all) != 1 || frames.KindOf(all[0]) != frames.KindRefused {
			t.Errorf("the last shard: %d frames, want the request back", len(all))
		}
		if got := n.e.Counters.Dropped(delivery.DropSettings); got != 0 {
			t.Errorf("%d requests count as of other settings", got)
		}
		all := n.frame(frames.AppendRequest(nil, "t", 2, "e", 9, nil))
		if len(all) != 1 {
			t.Fatalf("a shard beyond the last one: %d frames", len(all))
		}
		if r, err := frames.ParseReply(all[0]); err != nil || r.Code != frames.CodeSettings || n.e.Counters.Dropped(delivery.DropSettings) != 1 {
			t.Errorf("a shard beyond the last one is answered with code %d, %v", r.Code, err)
		}
		all = n.frame(frames.AppendRequest(nil, "", 0, "e", 9, nil))
		if len(all) != 1 || n.UnknownType.Load() != 1 {
			t.Fatalf("no type: %d frames, %d of an unknown type", len(all), n.UnknownType.Load())
		}
		if r, err := frames.ParseReply(all[0]); err != nil || r.Code != frames.CodeUnknownType {
			t.Errorf("no type is answered with code %d, %v", r.Code, err)
		}
		if got := n.e.Counters.Received.Load(); got != 2 {
			t.Errorf("%d requests of the type are counted, want 2", got)
		}
	})
}

// listed are frames that arrived one behind the other.
type listed struct{ left [][]byte }

func (l *listed) Next() (frame []byte, ok bool) {
	if len(l.left) == 0 {
		return nil, false
	}
	frame, l.left = l.left[0], l.left[1:]
	return frame, true
}

// TestRequestsOfSeveralTypesGoToTheirOwn checks that each request in a block is handled by its own type,
// also between requests of another one.
func TestRequestsOfSeveralTypesGoToTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		other := frames.AppendRequest(nil, "other", 0, "e", 0, nil)
		frames.Stamp(other, token, 1)
		n.HandleFrames(2, &listed{[][]byte{tell(token, 1), other, tell(token, 2), tell(token, 3), other, nil}})
		if got := n.handled(); got != 3 || n.e.Counters.Received.Load() != 3 || n.UnknownType.Load() != 2 || n.Malformed.Load() != 1 {
			t.Errorf("%d handled, %d received, %d of an unknown type, %d malformed; want 3, 3, 2 and 1", got, n.e.Counters.Received.Load(), n.UnknownType.Load(), n.Malformed.Load())
		}
	})
}
