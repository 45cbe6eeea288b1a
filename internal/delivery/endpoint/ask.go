package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
)

// The pauses between the attempts of an ask that is repeated.
const (
	retryFirst = time.Millisecond
	RetryMost  = 50 * time.Millisecond
)

// AskOptions changes one Ask.
type AskOptions struct {
	// Retry repeats the request after each failure that may pass.
	Retry bool
	// Until is the time limit of the ask, zero for none. The deadline of its context holds too.
	Until time.Time
}

// Ask sends a request and waits for the response: see sharding.Ref.Ask.
func (t *Typed[C, Req, Resp]) Ask(ctx context.Context, in Origin, to Address, req Req, o AskOptions) (resp Resp, err error) {
	if err := t.checkAddress(ctx, in, &to); err != nil {
		return resp, err
	}
	if end, bounded := ctx.Deadline(); bounded && !o.Until.Before(end) {
		o.Until = time.Time{}
	} else if o.Retry && !bounded && o.Until.IsZero() {
		return resp, failure.NoDeadline
	}
	chain := activation.ChainOf(in.Handler)
	if chain.Waits(t.Name, to.ID) {
		t.Counters.SelfAsks.Add(1)
		return resp, fmt.Errorf("%w: %s %q", failure.SelfAsk, t.Name, to.ID)
	}
	if inc := t.Current.Load(); chain != nil && inc != nil {
		defer inc.mutual.beginAsk(chain.Asker(), t.Name, to.ID)()
	}
	if resp, err = t.askObserved(ctx, in, to, req, o.Until); o.Retry && err != nil {
		return t.askAgain(ctx, in, to, req, o.Until, err)
	}
	return resp, err
}

// askAgain repeats an ask that failed with err, until it succeeds or fails for good, or its time
// is over.
func (t *Typed[C, Req, Resp]) askAgain(ctx context.Context, in Origin, to Address, req Req, until time.Time, err error) (resp Resp, _ error) {
	ctx, cancel := delivery.WithLimit(ctx, until)
	defer cancel()
	var unknown error
	for pause := retryFirst; err != nil && failure.Retryable(err) && ctx.Err() == nil; pause = min(2*pause, RetryMost) {
		if failure.OutcomeUnknown(err) {
			unknown = err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return resp, lastError(err, unknown)
		}
		resp, err = t.askObserved(ctx, in, to, req, time.Time{})
	}
	return resp, lastError(err, unknown)
}

// lastError returns the error of the last attempt, unless it would hide that an earlier attempt
// may have run the handler.
func lastError(err, unknown error) error {
	if err == nil || unknown == nil || failure.OutcomeUnknown(err) {
		return err
	}
	if isSaid(err) || errors.Is(err, failure.Panicked) {
		return err // the handler's own answer
	}
	return &failure.Retried{Last: err, Unknown: unknown}
}

func (t *Typed[C, Req, Resp]) askObserved(ctx context.Context, in Origin, to Address, req Req, until time.Time) (Resp, error) {
	inc := t.Current.Load()
	if inc == nil || inc.observer == nil {
		return t.askOnce(ctx, in, to, req, until)
	}
	route := figures.RouteRemote
	if t.locals[to.Shard].Load() != nil {
		route = figures.RouteLocal
	}
	start := time.Now()
	resp, err := t.askOnce(ctx, in, to, req, until)
	inc.observer.AskDone(t.Name, route, time.Since(start), err)
	return resp, err
}

// askOnce makes one attempt. Its time limit is until, zero if only ctx bounds it.
func (t *Typed[C, Req, Resp]) askOnce(ctx context.Context, in Origin, to Address, req Req, until time.Time) (resp Resp, err error) {
	var node gossip.NodeID
	if s := t.locals[to.Shard].Load(); s != nil {
		node = s.Node()
	}
	c := t.Calls.Begin(to.Shard, node, until)
	// An ask that is over before it left has its answer in the call.
	if err = t.sendRequest(ctx, in, to, req, askCall{c.Number, until}, node); err == nil || errors.Is(err, delivery.ErrCallOver) {
		if c.Await(ctx) {
			resp, err = t.resultOf(c)
			t.Calls.Release(c)
			return resp, err
		}
		err = ctx.Err()
	}
	at, cancelled := t.Calls.Cancel(c)
	if !cancelled {
		<-c.Done
	}
	switch {
	case !cancelled && c.Err != delivery.ErrLimit:
		resp, err = t.resultOf(c)
	case err == ctx.Err():
		t.sendCancel(at, c.Number, err)
		err = t.obstacleOf(at, err)
	}
	t.Calls.Release(c)
	return resp, err
}

// askCall is the call of an ask, as its request needs it; the zero askCall is that of a tell.
type askCall struct {
	number uint64
	// until is the time limit of the ask, zero if only its context bounds it.
	until time.Time
}

// deadlineIn returns the deadline of a call that is made with ctx, zero for none.
func (c askCall) deadlineIn(ctx context.Context) time.Time {
	if !c.until.IsZero() {
		return c.until
	}
	end, _ := ctx.Deadline()
	return end
}

// obstacleOf returns the obstacle of an ask when its context or its time limit has ended it.
func (e *Endpoint) obstacleOf(at gossip.NodeID, err error) error {
	inc := e.Current.Load()
	switch {
	case at == 0 && inc == nil:
		return failure.Because(failure.NotReady, err)
	case at == 0:
		return failure.Because(failure.NoHome, err)
	case inc != nil && at == inc.Self && !inc.leaseValid():
		return failure.Because(failure.Paused, err)
	}
	return err
}

// sendCancel informs the home of an ask that its caller has given up. A deadline has travelled
// with the ask and needs no message. If the message is lost, the ask is handled, and its
// reply dropped.
func (e *Endpoint) sendCancel(at gossip.NodeID, call uint64, why error) {
	inc := e.Current.Load()
	if inc == nil || at == 0 || at == inc.Self || !errors.Is(why, context.Canceled) {
		return
	}
	_ = inc.Send(at, frames.AppendCancel(nil, e.Name, call))
}

// onCancel handles that message.
func (e *Endpoint) onCancel(from gossip.NodeID, call uint64) {
	e.cancelled.Add(activation.ReplyTo{Node: from, Call: call})
}

// resultOf returns the result of a completed call. It decodes a large response here, in the
// caller's goroutine. The call has a copy of its own, so a codec that owns its bytes needs no
// second one.
func (t *Typed[C, Req, Resp]) resultOf(c *delivery.Call[Resp]) (Resp, error) {
	if c.Late == nil {
		if c.Err == delivery.ErrLimit {
			return c.Resp, t.obstacleOf(c.Node(), context.DeadlineExceeded)
		}
		return c.Resp, c.Err
	}
	if t.spec.OwnResponse != nil {
		return t.spec.OwnResponse(c.Late), nil
	}
	return t.decodeResponse(c.Late)
}

func (t *Typed[C, Req, Resp]) decodeResponse(payload []byte) (resp Resp, err error) {
	if resp, err = decodeSafely(t.spec.Responses, payload); err != nil {
		err = failure.Because(failure.Codec, err)
	}
	return resp, err
}
