package sharding

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// Requests come in blocks: all that one read of a connection returned. The requests of a block
// share the costs that each would have alone: the look-up of the type, the counters, the
// memory for payloads, the run queues of entities and the goroutines behind them. So the way
// of a request from the connection to the mailbox is
//
//	transport  reads as much as has come, hands out frames where they lie
//	block      looks the type up, once for a run of requests of one type
//	inflow     parses in place, copies the payload into memory shared with its neighbours
//	Inlet      puts the message into the mailbox; who was woken begins with the flush
//
// and nothing on it is kept of the frame.
type intake interface {
	// take takes a request, of this node or another. It reports false when its shard
	// does not run here under its token, and an error when the frame is malformed.
	take(from gossip.NodeID, frame []byte) (hosted bool, err error)
	// flush lets what was taken run, and gives the intake back.
	flush()
}

// inflow is the intake of a path, in the hands of one goroutine.
type inflow[Req, Resp any] struct {
	p *path[Req, Resp]
	// in is an Inlet of host, nil at first.
	in   *activation.BatchInserter[*Context, Req, Resp]
	host *activation.Host[*Context, Req, Resp]
	slab slab
	// from is the sender of the block, nil at first; touched are its accounts whose runs
	// must be flushed.
	from    *delivery.PeerAccounts
	touched []*delivery.Account
	// q is the request in hand: large, so it is made once.
	q frames.Request
}

func (p *path[Req, Resp]) intake() intake { return p.intakes.Get().(*inflow[Req, Resp]) }

func (f *inflow[Req, Resp]) take(from gossip.NodeID, frame []byte) (hosted bool, err error) {
	q := &f.q
	if err := q.Parse(frame); err != nil {
		return false, err
	}
	if uint32(q.Shard) >= f.p.shards {
		// That node's settings differ.
		f.p.fail(from, q, frames.CodeSettings, delivery.DropSettings, "")
		return true, nil
	}
	return f.hand(from, q, len(frame)), nil
}

// inlet returns the Inlet for the shards of h.
func (f *inflow[Req, Resp]) inlet(h *activation.Host[*Context, Req, Resp]) *activation.BatchInserter[*Context, Req, Resp] {
	if f.host != h {
		f.leave()
		f.in, f.host = h.NewBatchInserter(), h
	}
	return f.in
}

// leave ends the use of the Inlet.
func (f *inflow[Req, Resp]) leave() {
	if f.in != nil {
		f.in.Flush()
	}
}

// sender returns the accounts of the node that sent the block.
func (f *inflow[Req, Resp]) sender(node gossip.NodeID) *delivery.PeerAccounts {
	if f.from == nil || f.from.Node != node {
		f.grant()
		f.from = f.p.Serving().Accounts.Sender(node)
	}
	return f.from
}

// grant adds the requests of the block to the accounts, and sends the grants that are due.
func (f *inflow[Req, Resp]) grant() {
	if f.from == nil {
		return
	}
	f.from.Flush(f.touched)
	f.touched = f.touched[:0]
}

func (f *inflow[Req, Resp]) flush() {
	f.leave()
	f.grant()
	f.from = nil
	f.q = frames.Request{}
	f.p.intakes.Put(f)
}

func (f *inflow[Req, Resp]) decode(payload []byte) (Req, error) {
	if f.p.owns != nil {
		return f.p.owns.own(f.slab.copy(payload)), nil
	}
	return decode(f.p.typ.ReqCodec, payload)
}

// lateBytes is the payload size from which the reader of a connection copies a payload and
// leaves the decoding to another goroutine: all frames behind a payload wait while the reader
// decodes it. The entity's goroutine decodes a request in its turn, the asker an answer. From
// this size, copying costs less than decoding with a codec that reads fields.
const lateBytes = 8 << 10

// decodesLate reports whether the entity's goroutine decodes a request. Codecs that own their
// bytes decode nothing. A control message can be recognised only after decoding. A reliable
// message must be rejected before it counts as received.
func decodesLate[Req, Resp any](p *path[Req, Resp], q *frames.Request) bool {
	return len(q.Payload) >= lateBytes && p.owns == nil && p.typ.Control == nil && q.Reliable == nil
}

func requestDecoder[Req, Resp any](p *path[Req, Resp]) func(payload []byte) (Req, error) {
	return func(payload []byte) (Req, error) { return decode(p.typ.ReqCodec, payload) }
}

// undecodedRefuser returns the function that counts a request that the entity's goroutine
// could not decode, and answers it if it is an ask.
func undecodedRefuser[Req, Resp any](p *path[Req, Resp], inc *incarnation) func(to activation.ReplyTo, err error) {
	return func(to activation.ReplyTo, err error) {
		p.counters.Drop(delivery.DropCodec, 1)
		failCall(p, inc, to, frames.CodeCodec, err.Error())
	}
}

// failCall answers an ask that is not handled. It does nothing for a tell.
func failCall[Req, Resp any](p *path[Req, Resp], inc *incarnation, to activation.ReplyTo, c frames.Code, text string) {
	switch {
	case to.Call == 0:
	case to.Node == inc.self:
		p.FailAsk(to.Call, errorOf(c, text))
	default:
		inc.Out.Send(to.Node, append(frames.AppendReply(nil, p.name, to.Call, c), frames.CutText(text)...))
	}
}

// slab is memory for small payloads that come one behind the other. A payload that is kept
// keeps the whole slab, at most slabBytes.
type slab struct{ free []byte }

const (
	slabBytes = 1 << 10
	// slabMost is the largest payload that shares memory with its neighbours.
	slabMost = slabBytes / 4
)

func (s *slab) copy(p []byte) []byte {
	n := len(p)
	if n > slabMost {
		return append(make([]byte, 0, n), p...)
	}
	if n > len(s.free) || s.free == nil {
		s.free = make([]byte, slabBytes)
	}
	q := s.free[:n:n]
	s.free = s.free[n:]
	copy(q, p)
	return q
}
