package sharding

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
)

// The pauses between the attempts of an Ask with Retry.
const (
	retryFirst = time.Millisecond
	retryMax   = 50 * time.Millisecond
)

func (p *path[Req, Resp]) ask(ctx context.Context, f Ref[Req, Resp], req Req, opts []AskOption) (Resp, error) {
	if err := p.check(ctx, f); err != nil {
		var none Resp
		return none, err
	}
	retry := false
	for _, o := range opts {
		retry = retry || o.retry
	}
	if _, bounded := ctx.Deadline(); retry && !bounded {
		var none Resp
		return none, ErrNoDeadline
	}
	chain := activation.ChainOf(contextOf(ctx))
	if chain.Waits(p.name, f.id) {
		p.counters.selfAsks.Add(1)
		var none Resp
		return none, fmt.Errorf("%w: %s %q", ErrSelfAsk, p.name, f.id)
	}
	if chain != nil {
		defer p.asking(chain.Asker(), f.id)()
	}
	var unknown error
	for pause := retryFirst; ; pause = min(2*pause, retryMax) {
		resp, err := p.askObserved(ctx, f, req)
		if err == nil || !retry || !Retryable(err) || ctx.Err() != nil {
			return resp, afterAll(err, unknown)
		}
		if OutcomeUnknown(err) {
			unknown = err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return resp, afterAll(err, unknown)
		}
	}
}

// afterAll returns the error of the last attempt, unless it would hide that an earlier
// one may have run the handler.
func afterAll(err, unknown error) error {
	if err == nil || unknown == nil || OutcomeUnknown(err) {
		return err
	}
	if said := (*HandlerError)(nil); errors.As(err, &said) || errors.Is(err, ErrPanicked) {
		return err // the handler's own answer
	}
	return &retriedError{err, unknown}
}

func (p *path[Req, Resp]) askObserved(ctx context.Context, f Ref[Req, Resp], req Req) (Resp, error) {
	inc := p.now.Load()
	if inc == nil || inc.observer == nil {
		return p.askOnce(ctx, f, req)
	}
	route := figures.RouteRemote
	if p.locals[f.shard].Load() != nil {
		route = figures.RouteLocal
	}
	start := time.Now()
	resp, err := p.askOnce(ctx, f, req)
	inc.observer.AskDone(p.name, route, time.Since(start), err)
	return resp, err
}

func (p *path[Req, Resp]) askOnce(ctx context.Context, f Ref[Req, Resp], req Req) (resp Resp, err error) {
	var node gossip.NodeID
	if s := p.locals[f.shard].Load(); s != nil {
		node = s.Node()
	}
	c := p.calls.Begin(f.shard, node)
	// An ask that is over before it left has its answer in the call.
	if err = p.send(ctx, f, req, c.Number, node); err == nil || errors.Is(err, delivery.ErrCallOver) {
		if c.Await(ctx) {
			resp, err = answerOf(p, c)
			p.calls.Release(c)
			return resp, err
		}
		err = ctx.Err()
	}
	at, cancelled := p.calls.Cancel(c)
	if !cancelled {
		<-c.Done
		resp, err = answerOf(p, c)
	} else if err == ctx.Err() {
		p.callOff(at, c.Number, err)
		err = p.whyLate(at, err)
	}
	p.calls.Release(c)
	return resp, err
}

// whyLate returns the obstacle of an ask when its context ended.
func (p *path[Req, Resp]) whyLate(at gossip.NodeID, err error) error {
	inc := p.now.Load()
	switch {
	case at == 0 && inc == nil:
		return delivery.GaveUp(ErrNotReady, err)
	case at == 0:
		return delivery.GaveUp(ErrNoHome, err)
	case inc != nil && at == inc.self && !inc.alive():
		return delivery.GaveUp(ErrPaused, err)
	}
	return err
}

// replies gives the answers of one incarnation's handlers to their askers.
type replies[Req, Resp any] struct {
	p   *path[Req, Resp]
	inc *incarnation
}

// Cancelled reports whether the asker has given up, as far as this node has learned.
func (r *replies[Req, Resp]) Cancelled(to activation.ReplyTo) bool {
	if to.Node == r.inc.self {
		return !r.p.calls.Waits(to.Call)
	}
	return r.p.gone.Take(to)
}

// Reply answers an ask.
func (r *replies[Req, Resp]) Reply(to activation.ReplyTo, resp Resp, err error) {
	if to.Node != r.inc.self {
		r.away(to, resp, err)
		return
	}
	if err == nil && r.inc.strict {
		resp, err = strictly(&r.p.frames, r.p.typ.RespCodec, resp, r.p.limits.PayloadBytes)
	} else if err != nil {
		c, text := codeOf(err)
		err = errorOf(c, text)
	}
	if !r.p.calls.Finish(to.Call, resp, err) {
		r.p.counters.Drop(delivery.DropReplyLate, 1)
	}
}

// away sends the answer to an asker on another node.
func (r *replies[Req, Resp]) away(to activation.ReplyTo, resp Resp, err error) {
	if err == activation.ErrExpired {
		// The asker has given up by its own clock.
		return
	}
	buf := r.p.frames.Get().(*[]byte)
	*buf = r.p.encodeReply((*buf)[:0], to.Call, resp, err)
	r.inc.Out.Send(to.Node, *buf)
	r.p.frames.Put(buf)
}

func (p *path[Req, Resp]) encodeReply(b []byte, call uint64, resp Resp, err error) []byte {
	c, text := codeOf(err)
	if c != frames.CodeOK {
		return append(frames.AppendReply(b, p.name, call, c), text...)
	}
	b = frames.AppendReply(b, p.name, call, frames.CodeOK)
	head := len(b)
	out, err := encode(p.typ.RespCodec, b, resp)
	switch {
	case err != nil:
		return append(frames.AppendReply(b[:0], p.name, call, frames.CodeCodec), frames.CutText(err.Error())...)
	case len(out)-head > p.limits.PayloadBytes:
		return frames.AppendReply(b[:0], p.name, call, frames.CodeTooLarge)
	}
	return out
}

// replied takes the reply to an ask of this node.
func (p *path[Req, Resp]) replied(r frames.Reply) {
	var resp Resp
	var late []byte
	var err error
	switch {
	case r.Code != frames.CodeOK:
		err = errorOf(r.Code, string(r.Payload))
	case !p.calls.Waits(r.Call):
	case len(r.Payload) >= lateBytes:
		late = bytes.Clone(r.Payload)
	default:
		resp, err = decodeAnswer(p.typ.RespCodec, r.Payload)
	}
	if !p.calls.FinishLate(r.Call, resp, late, err) {
		p.counters.Drop(delivery.DropReplyLate, 1)
	}
}

// answerOf returns the result of a completed call. It decodes a large answer here, in the
// asker's goroutine. The call has a copy of its own, so an owner needs no second one.
func answerOf[Req, Resp any](p *path[Req, Resp], c *delivery.Call[Resp]) (Resp, error) {
	if c.Late == nil {
		return c.Resp, c.Err
	}
	if o := ownerOf(p.typ.RespCodec); o != nil {
		return o.own(c.Late), nil
	}
	return decodeAnswer(p.typ.RespCodec, c.Late)
}

func decodeAnswer[Resp any](codec Codec[Resp], payload []byte) (resp Resp, err error) {
	if resp, err = decode(codec, payload); err != nil {
		err = &codecError{err}
	}
	return resp, err
}

// callOff informs the home of an ask that its asker has given up. A deadline has travelled
// with the ask and needs no message. If the message is lost, the ask is handled, and its
// answer dropped.
func (p *path[Req, Resp]) callOff(at gossip.NodeID, call uint64, why error) {
	inc := p.now.Load()
	if inc == nil || at == 0 || at == inc.self || !errors.Is(why, context.Canceled) {
		return
	}
	_ = inc.Send(at, frames.AppendCancel(nil, p.name, call))
}

// cancelled takes that news.
func (p *path[Req, Resp]) cancelled(from gossip.NodeID, call uint64) {
	p.gone.Add(activation.ReplyTo{Node: from, Call: call})
}
