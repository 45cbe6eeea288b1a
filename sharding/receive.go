package sharding

import (
	"bytes"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// HandleEntity handles a frame of KindEntity. It keeps nothing of payload. Frames of one
// peer must be passed one at a time, in the order in which they were sent.
func (s *service) HandleEntity(from gossip.NodeID, payload []byte) {
	if len(payload) == 0 {
		s.malformed.Add(1)
		return
	}
	var err error
	switch frames.KindOf(payload) {
	case frames.KindTell, frames.KindAsk:
		err = s.handleRequest(from, payload)
	case frames.KindReply:
		err = s.handleReply(payload)
	case frames.KindRefused:
		err = s.handleRefused(from, payload)
	case frames.KindMarker:
		err = s.handleMarker(from, payload)
	case frames.KindMarkerAck:
		err = s.handleMarkerAck(from, payload)
	case frames.KindState, frames.KindStateEnd, frames.KindStateAck:
		err = s.transfers.HandleFrame(from, payload)
	case frames.KindStandby:
		err = s.replicated.HandleFrame(from, payload)
	case frames.KindCancel:
		err = s.handleCancel(from, payload)
	case frames.KindConfirm:
		err = s.handleConfirm(from, payload)
	case frames.KindGrant:
		err = s.handleGrants(from, payload)
	case frames.KindBlocked:
		err = s.handleBlocked(from, payload)
	case frames.KindStop:
		err = s.handleStop(from, payload)
	case frames.KindStopped:
		err = s.handleStopped(from, payload)
	case frames.KindShrink:
		err = s.handleShrink(from, payload)
	case frames.KindShrunk:
		err = s.handleShrunk(from, payload)
	case frames.KindHello:
		s.out.Send(from, []byte{byte(frames.KindHelloAck)})
	case frames.KindHelloAck:
		s.PeerUp(from, helloClass)
	default:
		err = frames.ErrMalformed
	}
	if err != nil {
		s.malformed.Add(1)
	}
}

// HandleEntities is HandleEntity for frames that arrived one behind the other. It does the
// common work of consecutive requests of one type once, and starts the entities that they
// wake together. Next returns the next frame, which must be valid until HandleEntities
// returns.
func (s *service) HandleEntities(from gossip.NodeID, in interface {
	Next() (frame []byte, ok bool)
}) {
	var b block
	for f, ok := in.Next(); ok; f, ok = in.Next() {
		if frames.IsRequest(f) {
			if err := s.takeRequest(&b, from, f); err != nil {
				s.malformed.Add(1)
			}
		} else {
			s.HandleEntity(from, f)
		}
	}
	b.end()
}

// block is what a run of requests has in common: their type.
type block struct {
	typ      []byte
	p        dataPath
	in       intake
	received uint64
}

// begin makes b that of another type.
func (b *block) begin(p dataPath, typ []byte) {
	b.end()
	*b = block{typ: typ, p: p, in: p.intake()}
}

func (b *block) end() {
	if b.in != nil {
		b.in.flush()
		b.p.base().counters.received.Add(b.received)
		b.in = nil
	}
}

// handleRequest takes a request that came alone.
func (s *service) handleRequest(from gossip.NodeID, frame []byte) error {
	var b block
	defer b.end()
	return s.takeRequest(&b, from, frame)
}

func (s *service) takeRequest(b *block, from gossip.NodeID, frame []byte) error {
	typ, err := frames.RequestType(frame)
	if err != nil {
		return err
	}
	if b.in == nil || !bytes.Equal(typ, b.typ) {
		p := s.path(typ)
		if p == nil {
			return s.unknownType(from, frame)
		}
		b.begin(p, typ)
	}
	hosted, err := b.in.take(from, frame)
	if err != nil {
		return err
	}
	b.received++
	if !hosted {
		s.out.Send(from, frames.AppendRefused(nil, b.p.hosted(frames.ShardOf(frame)), frame))
	}
	return nil
}

// unknownType answers a request of a type that is not registered here.
func (s *service) unknownType(from gossip.NodeID, frame []byte) error {
	q, err := frames.ParseRequest(frame)
	if err != nil {
		return err
	}
	s.unknown.Add(1)
	if q.Call != 0 {
		s.out.Send(from, frames.AppendReply(nil, string(q.Type), q.Call, frames.CodeUnknownType))
	}
	return nil
}

// findShard returns the path of the type that a frame about a shard names, nil if the type
// is not registered here, and the incarnation that serves the path, nil if none does. It
// fails if the type has no such shard.
func findShard(s *service, typ []byte, shard ShardID) (p dataPath, inc *delivery.Incarnation, err error) {
	if p = s.path(typ); p == nil {
		return nil, nil, nil
	}
	if uint32(shard) >= p.base().shards {
		return nil, nil, frames.ErrMalformed
	}
	return p, p.base().Serving(), nil
}

func (s *service) handleReply(frame []byte) error {
	r, err := frames.ParseReply(frame)
	if err != nil {
		return err
	}
	if p := s.path(r.Type); p != nil {
		p.replied(r)
	}
	return nil
}

// handleCancel notes that an ask's asker has given up. The ask came before it, on
// the same connection.
func (s *service) handleCancel(from gossip.NodeID, frame []byte) error {
	typ, call, err := frames.ParseCancel(frame)
	if err != nil {
		return err
	}
	if p := s.path(typ); p != nil {
		p.cancelled(from, call)
	}
	return nil
}

func (s *service) handleRefused(from gossip.NodeID, frame []byte) error {
	_, inner, q, err := frames.ParseRefused(frame)
	if err != nil {
		return err
	}
	p, inc, _ := findShard(s, q.Type, q.Shard)
	if p == nil {
		return frames.ErrMalformed
	}
	r := p.base()
	if inc != nil {
		r.OnRefused(inc, from, &q, inner)
	} else if q.Call == 0 && q.Reliable == nil {
		// The incarnation that sent it is over. Its asks have failed, lines send again.
		r.GiveBack(0)
	}
	return nil
}

// handleMarker answers a marker. Frames of one connection are handled one after
// the other, so all that came before it is in mailboxes, or refused.
func (s *service) handleMarker(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseMarker(frame)
	if err != nil {
		return err
	}
	s.out.Send(from, frames.AppendMarker(nil, frames.KindMarkerAck, string(m.Type), m.Shard, m.Token))
	return nil
}

func (s *service) handleMarkerAck(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseMarker(frame)
	if err != nil {
		return err
	}
	if len(m.Type) == 0 {
		s.flush.markerAcked(from, m.Token.Seq)
		return nil
	}
	p, inc, _ := findShard(s, m.Type, m.Shard)
	if p == nil {
		return frames.ErrMalformed
	}
	if inc != nil {
		p.base().OnMarkerAcked(inc, from, m)
	}
	return nil
}

// reconcile takes a report: that of a sender which is blocked. One whose shard does not
// run here may send one request, which is refused: so it learns that it looks for another
// home.
func (s *service) reconcile(p dataPath, inc *delivery.Incarnation, from gossip.NodeID, m frames.Marker, report flow.Report) {
	if inc == nil || inc.Accounts == nil || p.hosted(m.Shard) != m.Token {
		b := frames.AppendGrantHead(nil, string(m.Type))
		s.out.Send(from, frames.AppendGrant(b, &frames.Grant{Shard: m.Shard, Token: m.Token, Grant: flow.Grant{Limit: report.Sent + 1, LimitBytes: report.SentBytes + 1, Asked: report.Asked}}))
		return
	}
	sender := inc.Accounts.Sender(from)
	sender.Reconcile(m.Shard, m.Token, report)
	sender.Transmit()
}

func (s *service) handleBlocked(from gossip.NodeID, frame []byte) error {
	m, report, err := frames.ParseReport(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if p != nil {
		s.reconcile(p, inc, from, m, report)
	}
	return err
}

func (s *service) handleGrants(from gossip.NodeID, frame []byte) error {
	typ, grants, err := frames.ParseGrants(frame)
	if err != nil {
		return err
	}
	p := s.path(typ)
	if p == nil {
		return nil
	}
	return p.base().OnGrants(from, grants)
}

func (s *service) handleStop(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseStop(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if inc != nil {
		p.base().OnStop(inc, from, &m)
	}
	return err
}

// handleStopped answers a sender that asks whether it still has to stop for an entity.
func (s *service) handleStopped(from gossip.NodeID, frame []byte) error {
	m, err := frames.ParseStopped(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if p == nil {
		return err
	}
	if inc == nil || inc.Accounts == nil || p.hosted(m.Shard) != m.Token {
		s.out.Send(from, frames.AppendStop(nil, string(m.Type), m.Shard, m.Token, string(m.ID), flow.Open))
		return nil
	}
	inc.Accounts.Sender(from).AnswerStopped(m.Shard, m.Token, string(m.ID))
	return nil
}

func (s *service) handleShrink(from gossip.NodeID, frame []byte) error {
	m, asked, err := frames.ParseShrink(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.Type, m.Shard)
	if inc != nil {
		p.base().OnShrink(inc, from, m, asked)
	}
	return err
}

func (s *service) handleShrunk(from gossip.NodeID, frame []byte) error {
	m, report, err := frames.ParseReport(frame)
	if err != nil {
		return err
	}
	_, inc, err := findShard(s, m.Type, m.Shard)
	if inc != nil && inc.Accounts != nil {
		sender := inc.Accounts.Sender(from)
		sender.OnShrunk(m.Shard, m.Token, report)
		sender.Transmit()
	}
	return err
}
