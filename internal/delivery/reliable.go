package delivery

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
)

// sendReliable makes one attempt to send a copy of a reliable message, which must be able to
// leave immediately. It is never put into a buffer, where it could outlive the memory of its
// home: the window is its buffer.
func (r *Router) sendReliable(t *reliable.Transmit) (at gossip.NodeID, err error) {
	rt := r.routes.routeTo(t.Shard)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	inc := r.now.Load()
	switch {
	case r.closed.Load():
		return 0, failure.NodeStopping
	case inc == nil:
		return 0, failure.NotReady
	}
	it := NewItem(Message{Frame: t.Data, Handler: true}, t.ID, false)
	a := rt.core.OfferNow(&it)
	r.carryOut(inc, rt)
	switch a.Kind {
	case route.NoHome:
		return 0, failure.NoHome
	case route.Stopped:
		return 0, errStopped
	case route.Wait:
		return 0, errHeldUp
	}
	q, err := frames.ParseRequest(t.Data)
	if err != nil {
		return 0, err
	}
	t.Stamp.Put(q.Reliable)
	return a.To, r.performOffered(inc, rt, &a)
}

// ConfirmReliable sends the outcome of a copy of a reliable message to its producer.
func (r *Router) ConfirmReliable(inc *Incarnation, to gossip.NodeID, c *frames.Confirmation) {
	if to == inc.Self {
		r.OnConfirm(to, c)
		return
	}
	b := make([]byte, 0, frames.ConfirmHead+binary.MaxVarintLen16+len(r.typeName)+len(c.Text))
	inc.Out.Send(to, frames.AppendConfirm(b, r.typeName, c))
}

// OnConfirm passes the outcome that a home has sent to the producer.
func (r *Router) OnConfirm(from gossip.NodeID, c *frames.Confirmation) {
	done := reliable.Confirmed{Shard: c.Shard, Seq: c.Seq, From: from, All: c.All}
	switch c.Outcome {
	case byte(activation.ReliableHandled), frames.OutcomeGivenUp:
		done.Result = r.errorOf(c.Code, c.Text)
	case byte(activation.ReliableRepeated):
		done.Result = failure.ResultLost
	default:
		r.producers.noteOne(c.Producer, reliable.Refused{
			Shard: c.Shard, Seq: c.Seq, Try: c.Try, Gap: c.Outcome == byte(activation.ReliableGap),
		})
		return
	}
	r.producers.noteOne(c.Producer, done)
}

// RejectReliable rejects a copy that cannot be handled here. A message that does not decode is
// given up; all else may succeed later.
func (r *Router) RejectReliable(from gossip.NodeID, q *frames.Request, c frames.Code, text string) {
	stamp, err := reliable.ParseStamp(q.Reliable)
	inc := r.now.Load()
	if err != nil || inc == nil {
		return
	}
	answer := frames.Confirmation{
		Shard: q.Shard, Producer: stamp.Producer, Seq: stamp.Seq, Try: stamp.Try,
		Outcome: byte(activation.ReliableRefused), Code: c, Text: frames.CutText(text),
	}
	if c == frames.CodeCodec {
		answer.Outcome = frames.OutcomeGivenUp
	}
	r.ConfirmReliable(inc, from, &answer)
}
