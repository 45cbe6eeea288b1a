package endpoint

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/headers"
	"github.com/peerage-go/peerage/sharding/strategy"
	"github.com/zeebo/xxh3"
)

// Address is the address of one entity. Its zero value cannot be used.
type Address struct {
	ID    string
	Shard strategy.ShardID
	// Start is set for a request that starts the entity and has no message.
	Start bool
	place activation.Place
}

// AddressOf returns the address of the entity id.
func (e *Endpoint) AddressOf(id string) Address {
	hash := xxh3.HashString(id)
	return Address{ID: id, Shard: e.Extract.ofHashed(id, hash), place: activation.PlaceOf(hash)}
}

// Origin is what messages of a call carry of its context: the Context of the handler that the
// context belongs to, nil outside of handlers, and headers.
type Origin struct {
	Handler *activation.Context
	Headers headers.List
}

// checkAddress returns the error of a call that must not begin. in is the origin of the call,
// here and in all functions below.
func (e *Endpoint) checkAddress(ctx context.Context, in Origin, to *Address) error {
	switch {
	case to.ID == "" || len(to.ID) > e.IDBytes:
		return failure.BadID
	case to.Shard == NoShard:
		return NoShardFor(to.ID)
	}
	err := ctx.Err()
	if err != nil {
		if _, late := activation.SenderOf(in.Handler); late != nil {
			return late
		}
	}
	return err
}

// NoShardFor returns the error of an id for which the application's ShardOf has no shard.
func NoShardFor(id string) error {
	return fmt.Errorf("%w: ShardOf has none for %q", failure.NoShard, id)
}

// Tell sends a request that is not answered: see sharding.Ref.Tell.
func (t *Typed[C, Req, Resp]) Tell(ctx context.Context, in Origin, to Address, req Req) error {
	if err := t.checkAddress(ctx, in, &to); err != nil {
		return err
	}
	return t.sendRequest(ctx, in, to, req, askCall{}, 0)
}

// sendRequest takes a request to its shard, or its way there, waiting for room until ctx ends.
// at is the node of the call in the table of calls.
func (t *Typed[C, Req, Resp]) sendRequest(ctx context.Context, in Origin, to Address, req Req, call askCall, at gossip.NodeID) error {
	for {
		if s := t.locals[to.Shard].Load(); s != nil {
			if call.number != 0 && s.Node() != at && !t.Calls.Move(call.number, s.Node()) {
				return delivery.ErrCallOver
			}
			if done, err := t.sendLocal(ctx, in, s, to, req, call); done {
				return err
			}
		}
		if err := t.sendEncoded(ctx, in, to, req, call); err != delivery.ErrRunsHere {
			return err
		}
	}
}

// sendLocal passes a message to a shard of this node. It reports false if the shard no longer
// accepts messages.
func (t *Typed[C, Req, Resp]) sendLocal(ctx context.Context, in Origin, s *activation.Shard[C, Req, Resp], to Address, req Req, call askCall) (done bool, err error) {
	m := activation.Message[Req]{Req: req}
	if to.Start {
		m = m.ForStart()
	} else if t.strict.Load() {
		if m.Req, err = copyStrictly(&t.buffers, t.spec.Requests, req, t.PayloadBytes); err != nil {
			return true, err
		}
	}
	m.SetHeaders(in.Headers)
	if call.number != 0 {
		chain := activation.ChainOf(in.Handler)
		m.Reply = activation.ReplyTo{Node: s.Node(), Call: call.number}
		m.SetChain(chain)
		t.noteArrival(chain.Asker(), to.ID)
		if end := call.deadlineIn(ctx); !end.IsZero() {
			m.Expires = max(end.Sub(t.epoch), 1)
		}
	}
	if m.From, err = activation.SenderOf(in.Handler); err != nil {
		return true, err
	}
	switch err := s.Deliver(to.ID, to.place, &m); err {
	case nil:
		t.Counters.Sent(figures.RouteLocal, to.Shard)
		return true, nil
	case failure.MailboxFull:
		if isToItself(m.From, t.Name, to.ID) {
			// It would wait for itself.
			return true, failure.MailboxFull
		}
		ctx, cancel := delivery.WithLimit(ctx, call.until)
		defer cancel()
		return t.awaitLocal(ctx, s, to, &m)
	default:
		return false, nil
	}
}

// awaitLocal waits for room in a mailbox that is full.
func (t *Typed[C, Req, Resp]) awaitLocal(ctx context.Context, s *activation.Shard[C, Req, Resp], to Address, m *activation.Message[Req]) (done bool, err error) {
	patience := ctx
	if m.From != nil {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, delivery.HandlerWait)
		defer cancel()
	}
	switch s.Await(patience, to.ID, m) {
	case nil:
		t.Counters.Sent(figures.RouteLocal, to.Shard)
		return true, nil
	case activation.ErrNotHosted:
		return false, nil
	}
	if ctx.Err() == nil {
		return true, failure.Because(failure.MailboxFull, delivery.ErrHandlerWait)
	}
	return true, failure.Because(failure.MailboxFull, ctx.Err())
}

// isControl reports whether a request is a control message of its type. If the type's function
// panics, it is none, as at the home, where the panic is counted.
func isControl[Req any](control func(Req) bool, req Req) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	return control(req)
}

// isToItself reports whether a message goes from an entity to itself. The nodes are not
// compared: while the handler runs, the entity lives here.
func isToItself(from *activation.Sender, typ, id string) bool {
	return from != nil && from.ID == id && from.Type == typ
}

func (t *Typed[C, Req, Resp]) sendEncoded(ctx context.Context, in Origin, to Address, req Req, call askCall) error {
	from, err := activation.SenderOf(in.Handler)
	if err != nil {
		return err
	}
	buf := t.buffers.Get().(*[]byte)
	frame, err := t.appendRequest((*buf)[:0], in, from, to, req, call.number)
	if err != nil {
		t.buffers.Put(buf)
		return err
	}
	var it delivery.Item
	it.Msg.Frame, it.Msg.Call = frame, call.number
	it.Msg.Handler, it.Msg.ToItself = from != nil, isToItself(from, t.Name, to.ID)
	if call.number != 0 {
		it.Msg.Expires = call.deadlineIn(ctx)
	}
	delivery.InitItem(&it, to.ID, t.spec.Control != nil && !to.Start && isControl(t.spec.Control, req))
	kept, err := t.Post(ctx, to.Shard, &it)
	if !kept {
		*buf = frame
	} else {
		*buf = nil
	}
	t.buffers.Put(buf)
	return err
}

// appendRequest appends the frame of a request.
func (t *Typed[C, Req, Resp]) appendRequest(b []byte, in Origin, from *activation.Sender, to Address, req Req, call uint64) ([]byte, error) {
	var chain *activation.Chain
	if call != 0 {
		chain = activation.ChainOf(in.Handler)
	}
	if to.Start {
		return frames.AppendAsk(b, t.Name, to.Shard, to.ID, call, from, chain, in.Headers, frames.FlagStart), nil
	}
	return t.appendPayload(frames.AppendAsk(b, t.Name, to.Shard, to.ID, call, from, chain, in.Headers, 0), req)
}

func (t *Typed[C, Req, Resp]) appendPayload(b []byte, req Req) ([]byte, error) {
	return appendBounded(t.spec.Requests, b, req, t.PayloadBytes)
}
