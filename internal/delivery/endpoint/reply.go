package endpoint

import (
	"bytes"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// replies sends the replies of one incarnation's handlers to their callers.
type replies[C, Req, Resp any] struct {
	t   *Typed[C, Req, Resp]
	inc *Incarnation
}

// Cancelled reports whether the caller has given up, as far as this node has learned.
func (r *replies[C, Req, Resp]) Cancelled(to activation.ReplyTo) bool {
	if to.Node == r.inc.Self {
		return !r.t.Calls.Waits(to.Call)
	}
	return r.t.cancelled.Take(to)
}

// Reply answers an ask.
func (r *replies[C, Req, Resp]) Reply(to activation.ReplyTo, resp Resp, err error) {
	if to.Node != r.inc.Self {
		r.sendReply(to, resp, err)
		return
	}
	if err == nil && r.inc.strict {
		resp, err = copyStrictly(&r.t.buffers, r.t.spec.Responses, resp, r.t.PayloadBytes)
	} else if err != nil {
		c, text := codeOf(err)
		err = errorOf(c, text)
	}
	if !r.t.Calls.Finish(to.Call, resp, err) {
		r.t.Counters.Drop(delivery.DropReplyLate, 1)
	}
}

// sendReply sends the reply to a caller on another node.
func (r *replies[C, Req, Resp]) sendReply(to activation.ReplyTo, resp Resp, err error) {
	if err == activation.ErrExpired {
		// The caller has given up by its own clock.
		return
	}
	buf := r.t.buffers.Get().(*[]byte)
	*buf = r.t.appendReply((*buf)[:0], to.Call, resp, err)
	r.inc.Out.Send(to.Node, *buf)
	r.t.buffers.Put(buf)
}

func (t *Typed[C, Req, Resp]) appendReply(b []byte, call uint64, resp Resp, err error) []byte {
	c, text := codeOf(err)
	if c != frames.CodeOK {
		return append(frames.AppendReply(b, t.Name, call, c), text...)
	}
	b = frames.AppendReply(b, t.Name, call, frames.CodeOK)
	head := len(b)
	out, err := encodeSafely(t.spec.Responses, b, resp)
	switch {
	case err != nil:
		return append(frames.AppendReply(b[:0], t.Name, call, frames.CodeCodec), frames.CutText(err.Error())...)
	case len(out)-head > t.PayloadBytes:
		return frames.AppendReply(b[:0], t.Name, call, frames.CodeTooLarge)
	}
	return out
}

// onReply handles the reply to an ask of this node.
func (t *Typed[C, Req, Resp]) onReply(r frames.Reply) {
	var resp Resp
	var late []byte
	var err error
	switch {
	case r.Code != frames.CodeOK:
		err = errorOf(r.Code, string(r.Payload))
	case !t.Calls.Waits(r.Call):
	case len(r.Payload) >= lateBytes:
		late = bytes.Clone(r.Payload)
	default:
		resp, err = t.decodeResponse(r.Payload)
	}
	if !t.Calls.FinishLate(r.Call, resp, late, err) {
		t.Counters.Drop(delivery.DropReplyLate, 1)
	}
}
