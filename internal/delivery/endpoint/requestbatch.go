package endpoint

import (
	"bytes"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/headers"
)

// Requests arrive in blocks: all that one read of a connection returned. The requests of a
// block share the costs that each would have alone: the look-up of the type, the counters, the
// memory for payloads, the run queues of entities and the goroutines behind them. So the way of
// a request from the connection to the mailbox is
//
//	transport      reads as much as has arrived, hands out frames where they lie
//	typeRun        looks the type up, once for a run of requests of one type
//	requestBatch   parses in place, copies the payload into memory shared with its neighbours
//	BatchInserter  puts the message into the mailbox; entities begin with the flush
//
// and nothing on it is kept of the frame.
type requestBatch interface {
	// takeRequest takes a request, of this node or another. It reports false if its shard does
	// not run here under its token, and an error if the frame is malformed.
	takeRequest(from gossip.NodeID, frame []byte) (hosted bool, err error)
	// flush lets the entities of the requests begin, and gives the batch back.
	flush()
}

// typedBatch is the requestBatch of a Typed. One goroutine uses it at a time.
type typedBatch[C, Req, Resp any] struct {
	t *Typed[C, Req, Resp]
	// in inserts into the mailboxes of host, nil at first.
	in   *activation.BatchInserter[C, Req, Resp]
	host *activation.Host[C, Req, Resp]
	slab slab
	// from are the accounts of the block's sender, nil at first; touched are those whose runs
	// must be flushed.
	from    *delivery.PeerAccounts
	touched []*delivery.Account
	// q is the present request: large, so it is made once.
	q frames.Request
}

func (t *Typed[C, Req, Resp]) newBatch() requestBatch {
	return t.batches.Get().(*typedBatch[C, Req, Resp])
}

func (b *typedBatch[C, Req, Resp]) takeRequest(from gossip.NodeID, frame []byte) (hosted bool, err error) {
	q := &b.q
	if err := q.Parse(frame); err != nil {
		return false, err
	}
	if uint32(q.Shard) >= b.t.Extract.Shards {
		// That node's settings differ.
		b.t.rejectRequest(from, q, frames.CodeSettings, delivery.DropSettings, "")
		return true, nil
	}
	return b.insertRequest(from, q, len(frame)), nil
}

// insertRequest passes a request to the shard that runs here under its token.
func (b *typedBatch[C, Req, Resp]) insertRequest(from gossip.NodeID, q *frames.Request, size int) bool {
	t := b.t
	h := t.host.Load()
	if h == nil {
		return false
	}
	s := h.Shard(q.Shard)
	if s == nil {
		return false
	}
	if s.Token() != q.Token {
		t.Counters.Stale.Add(1)
		return false
	}
	accounts := b.accountsOf(from)
	if accounts == nil {
		return false
	}
	account, enough := accounts.Accept(q.Shard, q.Token, q.Number, size)
	if enough {
		b.touched = append(b.touched, account)
	}
	hash := activation.Hash(q.ID)
	if t.Extract.ofBytes(q.ID, hash) != q.Shard {
		t.rejectRequest(from, q, frames.CodeSettings, delivery.DropSettings, "")
		return true
	}
	m := activation.Message[Req]{From: t.senders.senderOf(from, q)}
	switch {
	case q.Start:
		m = m.ForStart()
	case t.decodesLate(q):
		m.SetLate(bytes.Clone(q.Payload))
	default:
		var err error
		if m.Req, err = b.decodePayload(q.Payload); err != nil {
			t.rejectRequest(from, q, frames.CodeCodec, delivery.DropCodec, err.Error())
			return true
		}
	}
	if q.Headers != nil {
		m.SetHeaders(headers.List(q.Headers))
	}
	if q.Reliable != nil {
		stamp, _ := reliable.ParseStamp(q.Reliable) // parsed before
		m.Reply = activation.ReplyTo{Node: from}
		m.SetReliable(&activation.ReliableMark{Stamp: stamp})
	}
	if q.Call != 0 {
		m.Reply = activation.ReplyTo{Node: from, Call: q.Call}
		if q.Chain != nil {
			chain := activation.ParseChain(q.Chain)
			m.SetChain(chain)
			t.noteArrival(chain.Asker(), string(q.ID))
		}
		if q.Left > 0 {
			m.Expires = time.Since(t.epoch) + q.Left
		}
	}
	switch s.DeliverTo(b.inserterOf(h), q.ID, activation.PlaceOf(hash), &m, account, size) {
	case nil:
		return true
	case failure.MailboxFull:
		t.rejectRequest(from, q, frames.CodeMailboxFull, delivery.DropMailboxFull, "")
		return true
	}
	return false
}

// inserterOf returns the BatchInserter for the shards of h.
func (b *typedBatch[C, Req, Resp]) inserterOf(h *activation.Host[C, Req, Resp]) *activation.BatchInserter[C, Req, Resp] {
	if b.host != h {
		b.flushInserter()
		b.in, b.host = h.NewBatchInserter(), h
	}
	return b.in
}

// flushInserter lets the entities begin.
func (b *typedBatch[C, Req, Resp]) flushInserter() {
	if b.in != nil {
		b.in.Flush()
	}
}

// accountsOf returns the accounts of the node that sent the block. It returns nil once the
// incarnation has ended: Detach closes the host a moment later.
func (b *typedBatch[C, Req, Resp]) accountsOf(node gossip.NodeID) *delivery.PeerAccounts {
	if b.from == nil || b.from.Node != node {
		b.flushAccounts()
		inc := b.t.Serving()
		if inc == nil {
			return nil
		}
		b.from = inc.Accounts.Sender(node)
	}
	return b.from
}

// flushAccounts adds the requests of the block to the accounts, and sends the grants that are
// due.
func (b *typedBatch[C, Req, Resp]) flushAccounts() {
	if b.from == nil {
		return
	}
	b.from.Flush(b.touched)
	b.touched = b.touched[:0]
}

func (b *typedBatch[C, Req, Resp]) flush() {
	b.flushInserter()
	b.flushAccounts()
	b.from = nil
	b.q = frames.Request{}
	b.t.batches.Put(b)
}

func (b *typedBatch[C, Req, Resp]) decodePayload(payload []byte) (Req, error) {
	if own := b.t.spec.OwnRequest; own != nil {
		return own(b.slab.copyOf(payload)), nil
	}
	return decodeSafely(b.t.spec.Requests, payload)
}

// lateBytes is the payload size from which the reader of a connection copies a payload and
// leaves the decoding to another goroutine: all frames behind a payload wait while the reader
// decodes it. The entity's goroutine decodes a request in its turn, the caller a response. From
// this size, copying costs less than decoding with a codec that reads fields.
const lateBytes = 8 << 10

// decodesLate reports whether the entity's goroutine decodes a request. Codecs that own their
// bytes decode nothing. A control message can be recognised only after decoding. A reliable
// message must be rejected before it counts as received.
func (t *Typed[C, Req, Resp]) decodesLate(q *frames.Request) bool {
	return len(q.Payload) >= lateBytes && t.spec.OwnRequest == nil && t.spec.Control == nil && q.Reliable == nil
}
