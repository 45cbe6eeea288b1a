package endpoint

import (
	"context"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// EncodeReliable returns the shard and the frame of a reliable message.
func (t *Typed[C, Req, Resp]) EncodeReliable(ctx context.Context, in Origin, id string, req Req) (strategy.ShardID, []byte, error) {
	to := t.AddressOf(id)
	if err := t.checkAddress(ctx, in, &to); err != nil {
		return 0, nil, err
	}
	from, err := activation.SenderOf(in.Handler)
	if err != nil {
		return 0, nil, err
	}
	buf := t.buffers.Get().(*[]byte)
	defer t.buffers.Put(buf)
	b, err := t.appendPayload(frames.AppendReliable((*buf)[:0], t.Name, to.Shard, id, from, in.Headers), req)
	if err != nil {
		return 0, nil, err
	}
	*buf = b
	return to.Shard, slices.Clone(b), nil
}

// ReliableReporter returns the function for delivery.NewProducer that calls report for each
// finished message; it is nil if report is.
func (t *Typed[C, Req, Resp]) ReliableReporter(report func(id string, req Req, err error)) func(reliable.Done) {
	if report == nil {
		return nil
	}
	return func(d reliable.Done) {
		q, err := frames.ParseRequest(d.Data)
		if err != nil {
			return
		}
		req, err := t.decodeRequest(q.Payload)
		if err != nil {
			report(d.ID, req, failure.Because(failure.Codec, err))
			return
		}
		report(d.ID, req, d.Result)
	}
}

// confirmer returns the function that sends the outcome of a copy of a reliable message to its
// producer.
func (e *Endpoint) confirmer(inc *Incarnation) activation.Confirm {
	return func(to gossip.NodeID, shard strategy.ShardID, s *activation.ReliableMark, o activation.Outcome, all bool, err error) {
		c := frames.Confirmation{
			Shard: shard, Producer: s.Stamp.Producer, Seq: s.Stamp.Seq, Try: s.Stamp.Try,
			Outcome: byte(o), All: all,
		}
		c.Code, c.Text = codeOf(err)
		e.ConfirmReliable(inc.Incarnation, to, &c)
	}
}
