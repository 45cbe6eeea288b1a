package sharding

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/transport"
	"github.com/zeebo/xxh3"
)

// answersFlow marks the flows of answers, one for each call.
const answersFlow transport.Flow = 1 << 63

// grantsFlow is the flow of what homes tell senders. Those of shards are odd.
const grantsFlow transport.Flow = 2

// flowOf returns the flow of a frame of KindEntity. Frames of one flow are handled in the
// order in which they were sent; small frames of other flows overtake large ones
// (transport.Transport.HandleFlows).
//
// One flow per shard carries the requests to the shard, their rejections, the markers
// between them with their acknowledgements, and the sender's reports of how far it has
// sent. So a marker covers everything sent to its shard before it, as handoff requires. A
// reply to an ask is a flow of its own. Grants, stops and shrink requests are one flow for
// all shards: they wait for no large frame. All other frames, above all
// the marker of a farewell, have no flow: they overtake nothing.
func flowOf(frame []byte) transport.Flow {
	if len(frame) > 8 && frameKind(frame[0]) == frameReply {
		return answersFlow | transport.Flow(binary.BigEndian.Uint64(frame[1:]))
	}
	if len(frame) > 0 && (frameKind(frame[0]) == frameGrant || frameKind(frame[0]) == frameStop || frameKind(frame[0]) == frameShrink) {
		return grantsFlow
	}
	if len(frame) < numberAt {
		return 0
	}
	switch frameKind(frame[0]) {
	case frameTell, frameAsk:
		if typ, err := requestType(frame); err == nil {
			return shardFlow(typ, frame)
		}
	case frameRefused:
		if request := frame[refusedHead:]; len(request) > 0 && frameKind(request[0]) != frameRefused {
			return flowOf(request)
		}
	case frameMarker, frameMarkerAck:
		if m, err := parseMarker(frame); err == nil && len(m.typ) > 0 {
			return shardFlow(m.typ, frame)
		}
	case frameBlocked, frameShrunk:
		if m, _, err := parseReport(frame); err == nil {
			return shardFlow(m.typ, frame)
		}
	case frameStopped:
		if m, err := parseStopped(frame); err == nil {
			return shardFlow(m.typ, frame)
		}
	}
	return 0
}

// shardFlow returns the flow of a type and the shard that a frame names.
func shardFlow(typ, frame []byte) transport.Flow {
	h := xxh3.HashSeed(typ, uint64(binary.BigEndian.Uint32(frame[shardAt:])))
	return transport.Flow(h)&^answersFlow | 1
}
