package sharding

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/gossip/view"
)

// HandleEntity takes a frame of KindEntity. It keeps nothing of payload. Frames
// of one peer must come in the order in which they were sent, one at a time.
func (s *Sharding) HandleEntity(from view.NodeID, payload []byte) {
	if len(payload) == 0 {
		s.malformed.Add(1)
		return
	}
	var err error
	switch frameKind(payload[0]) {
	case frameTell, frameAsk:
		err = s.handleRequest(from, payload)
	case frameReply:
		err = s.handleReply(payload)
	case frameRefused:
		err = s.handleRefused(from, payload)
	case frameMarker:
		err = s.handleMarker(from, payload)
	case frameMarkerAck:
		err = s.handleMarkerAck(from, payload)
	case frameState, frameStateEnd, frameStateAck:
		err = s.handleState(from, payload)
	case frameStandby:
		err = s.handleStandby(from, payload)
	case frameCancel:
		err = s.handleCancel(from, payload)
	case frameConfirm:
		err = s.handleConfirm(from, payload)
	case frameHello:
		s.out.send(from, []byte{byte(frameHelloAck)})
	case frameHelloAck:
		s.PeerUp(from, helloClass)
	default:
		err = errMalformed
	}
	if err != nil {
		s.malformed.Add(1)
	}
}

func (s *Sharding) handleRequest(from view.NodeID, frame []byte) error {
	typ, err := requestType(frame)
	if err != nil {
		return err
	}
	p := s.path(typ)
	if p == nil {
		return s.unknownType(from, frame)
	}
	hosted, err := p.deliver(from, frame)
	if err != nil {
		return err
	}
	p.base().counters.received.Add(1)
	if !hosted {
		shard := ShardID(binary.BigEndian.Uint32(frame[shardAt:]))
		s.out.send(from, appendRefused(nil, p.hosted(shard), frame))
	}
	return nil
}

// unknownType answers a request of a type that is not registered here.
func (s *Sharding) unknownType(from view.NodeID, frame []byte) error {
	q, err := parseRequest(frame)
	if err != nil {
		return err
	}
	s.unknown.Add(1)
	if q.call != 0 {
		s.out.send(from, appendReply(nil, string(q.typ), q.call, codeUnknownType))
	}
	return nil
}

func (s *Sharding) handleReply(frame []byte) error {
	r, err := parseReply(frame)
	if err != nil {
		return err
	}
	if p := s.path(r.typ); p != nil {
		p.replied(r)
	}
	return nil
}

// handleCancel notes that an ask's asker has given up. The ask came before it, on
// the same connection.
func (s *Sharding) handleCancel(from view.NodeID, frame []byte) error {
	typ, call, err := parseCancel(frame)
	if err != nil {
		return err
	}
	if p := s.path(typ); p != nil {
		p.cancelled(from, call)
	}
	return nil
}

func (s *Sharding) handleRefused(from view.NodeID, frame []byte) error {
	_, inner, q, err := parseRefused(frame)
	if err != nil {
		return err
	}
	p := s.path(q.typ)
	if p == nil || uint32(q.shard) >= p.base().shards {
		return errMalformed
	}
	if inc := p.base().now.Load(); inc != nil {
		p.base().refused(inc, from, &q, inner)
	}
	return nil
}

// handleMarker answers a marker. Frames of one connection are handled one after
// the other, so all that came before it is in mailboxes, or refused.
func (s *Sharding) handleMarker(from view.NodeID, frame []byte) error {
	m, err := parseMarker(frame)
	if err != nil {
		return err
	}
	s.out.send(from, appendMarker(nil, frameMarkerAck, string(m.typ), m.shard, m.token))
	return nil
}

func (s *Sharding) handleMarkerAck(from view.NodeID, frame []byte) error {
	m, err := parseMarker(frame)
	if err != nil {
		return err
	}
	if len(m.typ) == 0 {
		s.farewells.answered(from, m.token.Seq)
		return nil
	}
	p := s.path(m.typ)
	if p == nil || uint32(m.shard) >= p.base().shards {
		return errMalformed
	}
	if inc := p.base().now.Load(); inc != nil {
		p.base().markerAcked(inc, from, m)
	}
	return nil
}
