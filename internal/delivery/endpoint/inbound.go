package endpoint

import (
	"bytes"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// HandleFrame handles a frame of KindEntity. It keeps nothing of payload. Frames of one peer
// must be passed one at a time, in the order in which they were sent.
func (s *Set) HandleFrame(from gossip.NodeID, payload []byte) {
	if len(payload) == 0 || s.dispatchFrame(from, payload) != nil {
		s.Malformed.Add(1)
	}
}

func (s *Set) dispatchFrame(from gossip.NodeID, payload []byte) error {
	switch frames.KindOf(payload) {
	case frames.KindTell, frames.KindAsk:
		return s.onRequest(from, payload)
	case frames.KindReply:
		return s.onReply(payload)
	case frames.KindRefused:
		return s.onRefused(from, payload)
	case frames.KindMarker:
		return s.onMarker(from, payload)
	case frames.KindMarkerAck:
		return s.onMarkerAck(from, payload)
	case frames.KindState, frames.KindStateAck:
		return s.cfg.HandleTransfer(from, payload)
	case frames.KindStandby:
		return s.cfg.HandleReplication(from, payload)
	case frames.KindCancel:
		return s.onCancel(from, payload)
	case frames.KindConfirm:
		return s.onConfirm(from, payload)
	case frames.KindDismiss:
		return s.onDismiss(payload)
	case frames.KindHello:
		s.Out.Send(from, []byte{byte(frames.KindHelloAck)})
		return nil
	case frames.KindHelloAck:
		s.OnPeerUp(from)
		return nil
	}
	return s.dispatchFlow(from, payload)
}

// dispatchFlow handles the frames of back-pressure.
func (s *Set) dispatchFlow(from gossip.NodeID, payload []byte) error {
	switch frames.KindOf(payload) {
	case frames.KindGrant:
		return s.onGrants(from, payload)
	case frames.KindBlocked:
		return s.onBlocked(from, payload)
	case frames.KindStop:
		return s.onStop(from, payload)
	case frames.KindStopped:
		return s.onStopped(from, payload)
	case frames.KindShrink:
		return s.onShrink(from, payload)
	case frames.KindShrunk:
		return s.onShrunk(from, payload)
	}
	return frames.ErrMalformed
}

// HandleFrames is HandleFrame for frames that arrived one behind the other. It does the common
// work of consecutive requests of one type once, and starts the entities that they wake
// together. Next returns the next frame, which must be valid until HandleFrames returns.
func (s *Set) HandleFrames(from gossip.NodeID, in interface {
	Next() (frame []byte, ok bool)
}) {
	var run typeRun
	for f, ok := in.Next(); ok; f, ok = in.Next() {
		if frames.IsRequest(f) {
			if err := s.takeRequest(&run, from, f); err != nil {
				s.Malformed.Add(1)
			}
		} else {
			s.HandleFrame(from, f)
		}
	}
	run.endRun()
}

// typeRun is what consecutive requests of one type have in common.
type typeRun struct {
	typ      []byte
	e        *Endpoint
	batch    requestBatch
	received uint64
}

// beginRun makes r that of another type.
func (r *typeRun) beginRun(e *Endpoint, typ []byte) {
	r.endRun()
	*r = typeRun{typ: typ, e: e, batch: e.rim.newBatch()}
}

func (r *typeRun) endRun() {
	if r.batch != nil {
		r.batch.flush()
		r.e.Counters.Received.Add(r.received)
		r.batch = nil
	}
}

// onRequest handles a request that arrived alone.
func (s *Set) onRequest(from gossip.NodeID, frame []byte) error {
	var run typeRun
	defer run.endRun()
	return s.takeRequest(&run, from, frame)
}

func (s *Set) takeRequest(run *typeRun, from gossip.NodeID, frame []byte) error {
	typ, err := frames.RequestType(frame)
	if err != nil {
		return err
	}
	if run.batch == nil || !bytes.Equal(typ, run.typ) {
		e := s.Find(typ)
		if e == nil {
			return s.rejectUnknownType(from, frame)
		}
		run.beginRun(e, typ)
	}
	hosted, err := run.batch.takeRequest(from, frame)
	if err != nil {
		return err
	}
	run.received++
	if !hosted {
		s.Out.Send(from, frames.AppendRefused(nil, run.e.HostedUnder(frames.ShardOf(frame)), frame))
	}
	return nil
}

// rejectUnknownType answers a request of a type that is not registered here.
func (s *Set) rejectUnknownType(from gossip.NodeID, frame []byte) error {
	q, err := frames.ParseRequest(frame)
	if err != nil {
		return err
	}
	s.UnknownType.Add(1)
	if q.Call != 0 {
		s.Out.Send(from, frames.AppendReply(nil, string(q.Type), q.Call, frames.CodeUnknownType))
	}
	return nil
}

// findShard returns the endpoint of the type that a frame about a shard names, nil if the type
// is not registered here, and the incarnation that serves it, nil if none does. It fails if
// the type has no such shard.
func (s *Set) findShard(typ []byte, shard strategy.ShardID) (e *Endpoint, inc *delivery.Incarnation, err error) {
	if e = s.Find(typ); e == nil {
		return nil, nil, nil
	}
	if uint32(shard) >= e.Extract.Shards {
		return nil, nil, frames.ErrMalformed
	}
	return e, e.Serving(), nil
}

// atType calls do with the endpoint of the type that a frame names, unless the frame could not
// be parsed, or the type is not registered here.
func (s *Set) atType(typ []byte, parsed error, do func(*Endpoint) error) error {
	if parsed != nil {
		return parsed
	}
	if e := s.Find(typ); e != nil {
		return do(e)
	}
	return nil
}

// atShard is atType for a frame about a shard, which the type must have. The incarnation that
// do gets is nil if none serves.
func (s *Set) atShard(typ []byte, shard strategy.ShardID, parsed error, do func(*Endpoint, *delivery.Incarnation)) error {
	if parsed != nil {
		return parsed
	}
	e, inc, err := s.findShard(typ, shard)
	if e != nil {
		do(e, inc)
	}
	return err
}

func (s *Set) onReply(frame []byte) error {
	r, err := frames.ParseReply(frame)
	return s.atType(r.Type, err, func(e *Endpoint) error {
		e.rim.onReply(r)
		return nil
	})
}

// onCancel handles the news that the caller of an ask has given up. The ask arrived before it,
// on the same connection.
func (s *Set) onCancel(from gossip.NodeID, frame []byte) error {
	typ, call, err := frames.ParseCancel(frame)
	return s.atType(typ, err, func(e *Endpoint) error {
		e.onCancel(from, call)
		return nil
	})
}

// onDismiss handles the order to end an instance.
func (s *Set) onDismiss(frame []byte) error {
	m, err := frames.ParseStopped(frame)
	return s.atShard(m.Type, m.Shard, err, func(e *Endpoint, _ *delivery.Incarnation) {
		e.dismissHere(m.Shard, m.Token, string(m.ID))
	})
}

// onConfirm handles the outcome of a reliable message.
func (s *Set) onConfirm(from gossip.NodeID, frame []byte) error {
	typ, c, err := frames.ParseConfirm(frame)
	return s.atType(typ, err, func(e *Endpoint) error {
		if uint32(c.Shard) < e.Extract.Shards {
			e.OnConfirm(from, &c)
		}
		return nil
	})
}

func (s *Set) onRefused(from gossip.NodeID, frame []byte) error {
	_, inner, q, err := frames.ParseRefused(frame)
	if err != nil {
		return err
	}
	e, inc, _ := s.findShard(q.Type, q.Shard)
	if e == nil {
		return frames.ErrMalformed
	}
	if inc != nil {
		e.OnRefused(inc, from, &q, inner)
	} else if q.Call == 0 && q.Reliable == nil {
		// The incarnation that sent it is over. Its asks have failed, producers send again.
		e.GiveBack(0)
	}
	return nil
}

// onMarker answers a marker. Frames of one connection are handled one after the other, so all
// that arrived before it is in mailboxes, or refused.
func (s *Set) onMarker(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseMarker(frame)
	if err != nil {
		return err
	}
	s.Out.Send(from, frames.AppendMarker(nil, frames.KindMarkerAck, string(m.Type), m.Shard, m.Token))
	return nil
}

func (s *Set) onMarkerAck(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseMarker(frame)
	if err != nil {
		return err
	}
	if len(m.Type) == 0 {
		s.flushed.onMarkerAcked(from, m.Token.Seq)
		return nil
	}
	e, inc, _ := s.findShard(m.Type, m.Shard)
	if e == nil {
		return frames.ErrMalformed
	}
	if inc != nil {
		e.OnMarkerAcked(inc, from, m)
	}
	return nil
}

// onBlocked handles the report of a sender that is blocked. A sender whose shard does not run
// here may send one request, which is refused: so it asks for another home.
func (s *Set) onBlocked(from gossip.NodeID, frame []byte) error {
	m, report, err := frames.ParseReport(frame)
	return s.atShard(m.Type, m.Shard, err, func(e *Endpoint, inc *delivery.Incarnation) {
		if inc == nil || inc.Accounts == nil || e.HostedUnder(m.Shard) != m.Token {
			b := frames.AppendGrantHead(nil, string(m.Type))
			s.Out.Send(from, frames.AppendGrant(b, &frames.Grant{Shard: m.Shard, Token: m.Token, Grant: flow.Grant{Limit: report.Sent + 1, LimitBytes: report.SentBytes + 1, Asked: report.Asked}}))
			return
		}
		sender := inc.Accounts.Sender(from)
		sender.Reconcile(m.Shard, m.Token, report)
		sender.Transmit()
	})
}

func (s *Set) onGrants(from gossip.NodeID, frame []byte) error {
	typ, grants, err := frames.ParseGrants(frame)
	return s.atType(typ, err, func(e *Endpoint) error { return e.OnGrants(from, grants) })
}

func (s *Set) onStop(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseStop(frame)
	return s.atShard(m.Type, m.Shard, err, func(e *Endpoint, inc *delivery.Incarnation) {
		if inc != nil {
			e.OnStop(inc, from, &m)
		}
	})
}

// onStopped answers a sender that asks whether it must still stop for an entity.
func (s *Set) onStopped(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseStopped(frame)
	return s.atShard(m.Type, m.Shard, err, func(e *Endpoint, inc *delivery.Incarnation) {
		if inc == nil || inc.Accounts == nil || e.HostedUnder(m.Shard) != m.Token {
			s.Out.Send(from, frames.AppendStop(nil, string(m.Type), m.Shard, m.Token, string(m.ID), flow.Open))
			return
		}
		inc.Accounts.Sender(from).AnswerStopped(m.Shard, m.Token, string(m.ID))
	})
}

func (s *Set) onShrink(from gossip.NodeID, frame []byte) error {
	m, asked, err := frames.ParseShrink(frame)
	return s.atShard(m.Type, m.Shard, err, func(e *Endpoint, inc *delivery.Incarnation) {
		if inc != nil {
			e.OnShrink(inc, from, m, asked)
		}
	})
}

func (s *Set) onShrunk(from gossip.NodeID, frame []byte) error {
	m, report, err := frames.ParseReport(frame)
	return s.atShard(m.Type, m.Shard, err, func(_ *Endpoint, inc *delivery.Incarnation) {
		if inc != nil && inc.Accounts != nil {
			sender := inc.Accounts.Sender(from)
			sender.OnShrunk(m.Shard, m.Token, report)
			sender.Transmit()
		}
	})
}
