package frames

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/transport"
	"github.com/zeebo/xxh3"
)

// answersFlow marks the flows of replies, one for each call.
const answersFlow transport.Flow = 1 << 63

// grantsFlow is the flow of grants, stops and shrink requests. The flows of shards are odd.
const grantsFlow transport.Flow = 2

// ClassifyFrame returns the flow of a frame of KindEntity, and whether the frame is urgent. All
// frames but tells are: callers, or senders without room, wait for them.
func ClassifyFrame(frame []byte) (f transport.Flow, urgent bool) {
	return FlowOf(frame), len(frame) > 0 && KindOf(frame) != KindTell
}

// FlowOf returns the flow of a frame of KindEntity. Frames of one flow are handled in the
// order in which they were sent; small frames of other flows overtake large ones, and urgent
// ones a long queue (transport.Transport.HandleFlows).
//
// One flow per shard carries the requests to the shard, their rejections, the markers
// between them with their acknowledgements, orders to end an instance, and the sender's reports of how far it has
// sent. So a marker covers everything sent to its shard before it, as handoff requires. A
// reply to an ask is a flow of its own. Grants, stops and shrink requests are one flow for
// all shards: they wait for no large frame. All other frames, above all the marker that
// flushes the connections of a node that leaves, have no flow: they overtake nothing.
func FlowOf(frame []byte) transport.Flow {
	if len(frame) > 8 && KindOf(frame) == KindReply {
		return answersFlow | transport.Flow(binary.BigEndian.Uint64(frame[1:]))
	}
	if len(frame) > 0 && (KindOf(frame) == KindGrant || KindOf(frame) == KindStop || KindOf(frame) == KindShrink) {
		return grantsFlow
	}
	if len(frame) < numberAt {
		return 0
	}
	switch KindOf(frame) {
	case KindTell, KindAsk:
		if typ, err := RequestType(frame); err == nil {
			return shardFlow(typ, frame)
		}
	case KindRefused:
		if request := frame[refusedHead:]; IsRequest(request) {
			return FlowOf(request)
		}
	case KindMarker, KindMarkerAck:
		if m, err := ParseMarker(frame); err == nil && len(m.Type) > 0 {
			return shardFlow(m.Type, frame)
		}
	case KindBlocked, KindShrunk:
		if m, _, err := ParseReport(frame); err == nil {
			return shardFlow(m.Type, frame)
		}
	case KindStopped, KindDismiss:
		if m, err := ParseStopped(frame); err == nil {
			return shardFlow(m.Type, frame)
		}
	}
	return 0
}

// shardFlow returns the flow of a type and the shard that a frame names.
func shardFlow(typ, frame []byte) transport.Flow {
	h := xxh3.HashSeed(typ, uint64(binary.BigEndian.Uint32(frame[shardAt:])))
	return transport.Flow(h)&^answersFlow | 1
}
