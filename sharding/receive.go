package sharding

import (
	"bytes"
	"encoding/binary"

	"github.com/peerage-go/peerage/gossip"
)

// HandleEntity handles a frame of KindEntity. It keeps nothing of payload. Frames of one
// peer must be passed one at a time, in the order in which they were sent.
func (s *service) HandleEntity(from gossip.NodeID, payload []byte) {
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
	case frameGrant:
		err = s.handleGrants(from, payload)
	case frameBlocked:
		err = s.handleBlocked(from, payload)
	case frameStop:
		err = s.handleStop(from, payload)
	case frameStopped:
		err = s.handleStopped(from, payload)
	case frameShrink:
		err = s.handleShrink(from, payload)
	case frameShrunk:
		err = s.handleShrunk(from, payload)
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

// HandleEntities is HandleEntity for frames that arrived one behind the other. It does the
// common work of consecutive requests of one type once, and starts the entities that they
// wake together. Next returns the next frame, which must be valid until HandleEntities
// returns.
func (s *service) HandleEntities(from gossip.NodeID, frames interface {
	Next() (frame []byte, ok bool)
}) {
	var b block
	for f, ok := frames.Next(); ok; f, ok = frames.Next() {
		if len(f) > 0 && (frameKind(f[0]) == frameTell || frameKind(f[0]) == frameAsk) {
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
	typ, err := requestType(frame)
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
		shard := ShardID(binary.BigEndian.Uint32(frame[shardAt:]))
		s.out.send(from, appendRefused(nil, b.p.hosted(shard), frame))
	}
	return nil
}

// unknownType answers a request of a type that is not registered here.
func (s *service) unknownType(from gossip.NodeID, frame []byte) error {
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

// findShard returns the path of the type that a frame about a shard names, nil if the type
// is not registered here, and the incarnation that serves the path, nil if none does. It
// fails if the type has no such shard.
func findShard(s *service, typ []byte, shard ShardID) (p dataPath, inc *incarnation, err error) {
	if p = s.path(typ); p == nil {
		return nil, nil, nil
	}
	if uint32(shard) >= p.base().shards {
		return nil, nil, errMalformed
	}
	return p, p.base().now.Load(), nil
}

func (s *service) handleReply(frame []byte) error {
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
func (s *service) handleCancel(from gossip.NodeID, frame []byte) error {
	typ, call, err := parseCancel(frame)
	if err != nil {
		return err
	}
	if p := s.path(typ); p != nil {
		p.cancelled(from, call)
	}
	return nil
}

func (s *service) handleRefused(from gossip.NodeID, frame []byte) error {
	_, inner, q, err := parseRefused(frame)
	if err != nil {
		return err
	}
	p, inc, _ := findShard(s, q.typ, q.shard)
	if p == nil {
		return errMalformed
	}
	r := p.base()
	if inc != nil {
		r.refused(inc, from, &q, inner)
	} else if q.call == 0 && q.sure == nil {
		// The incarnation that sent it is over. Its asks have failed, lines send again.
		r.giveBack(0)
	}
	return nil
}

// handleMarker answers a marker. Frames of one connection are handled one after
// the other, so all that came before it is in mailboxes, or refused.
func (s *service) handleMarker(from gossip.NodeID, frame []byte) error {
	m, err := parseMarker(frame)
	if err != nil {
		return err
	}
	s.out.send(from, appendMarker(nil, frameMarkerAck, string(m.typ), m.shard, m.token))
	return nil
}

func (s *service) handleMarkerAck(from gossip.NodeID, frame []byte) error {
	m, err := parseMarker(frame)
	if err != nil {
		return err
	}
	if len(m.typ) == 0 {
		s.farewells.answered(from, m.token.Seq)
		return nil
	}
	p, inc, _ := findShard(s, m.typ, m.shard)
	if p == nil {
		return errMalformed
	}
	if inc != nil {
		p.base().markerAcked(inc, from, m)
	}
	return nil
}
