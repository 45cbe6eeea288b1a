// Package frames encodes and parses the frames of KindEntity: requests to entities, their
// replies, and the frames between the nodes of a shard. It has no state.
//
// The codec of the application encodes the payload, and this package all else, by hand. The
// first byte is the kind. Requests begin with a head of fixed size: shard, token, number and
// remaining time are filled in when the request leaves, after all else was encoded:
//
//	tell       kind 1 | shard 4 | token 16 | number 8 | type | id | flags 1 | sender | headers | payload
//	ask        kind 1 | shard 4 | token 16 | number 8 | call 8 | left 8 | type | id | flags 1 | sender | chain | headers | payload
//	reply      kind 1 | call 8 | type | code 1 | payload or text
//	refused    kind 1 | token here 16 | the request's frame
//	cancel     kind 1 | call 8 | type
//	confirm    see reliable.go
//	grant      see backpressure.go (blocked, stop, stopped, shrink, shrunk likewise)
//	marker     kind 1 | shard 4 | token 16 | type           (markerAck likewise)
//	hello      kind 1                                         (helloAck likewise)
//	dismiss    kind 1 | shard 4 | token 16 | type | id
//
//	state      kind 1 | shard 4 | token 16 | type | id | state   (class Bulk)
//	stateEnd   kind 1 | shard 4 | token 16 | type | count 4      (stateAck: without count)
//
// A flag of a request, or a bit of a reply's code, announces fields of later versions, which stand
// before the payload; this version skips them, as it skips bytes behind the last field of the
// other frames. A grant, a state and a confirmation have no room for fields.
//
// A string follows its length. number counts the requests of a node to a shard; the home
// returns it when it refuses a request. left is in nanoseconds, 0 for no deadline: clocks of
// two nodes are never compared.
package frames

import (
	"encoding/binary"
	"errors"

	"github.com/peerage-go/peerage/sharding/strategy"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames. Their numbers never change. KindState carries a chunk of package mover,
// KindStateAck an acknowledgement: kind 1 | message.
const (
	KindTell Kind = iota + 1
	KindAsk
	KindReply
	KindRefused
	KindMarker
	KindMarkerAck
	KindHello
	KindHelloAck
	KindState
	_
	KindStateAck
	KindCancel
	KindConfirm
	KindGrant
	KindBlocked
	KindStop
	KindStopped
	KindShrink
	KindShrunk
	KindDismiss
)

// KindStandby carries a message of package standby: kind 1 | type | message.
const KindStandby Kind = 32

// Bounds of strings in frames.
const (
	// nameBytesMax bounds the name of a type.
	NameBytesMax = 64
	// idBytesMax bounds the id of an entity.
	IDBytesMax = 4096
)

// Offsets in frames, and the lengths of their heads.
const (
	shardAt  = 1
	termAt   = 5
	seqAt    = 13
	numberAt = 21
	tellHead = 29
	callAt   = 29
	leftAt   = 37
	askHead  = 45

	refusedHead = 17
)

// ErrMalformed is the error of every function that parses a frame.
var ErrMalformed = errors.New("sharding: malformed frame")

// KindOf returns the kind of a frame that is not empty.
func KindOf(frame []byte) Kind { return Kind(frame[0]) }

// IsRequest reports whether a frame is a tell or an ask.
func IsRequest(frame []byte) bool {
	return len(frame) > 0 && (KindOf(frame) == KindTell || KindOf(frame) == KindAsk)
}

// ShardOf returns the shard of a request, or of a frame that begins as a marker.
func ShardOf(frame []byte) strategy.ShardID {
	return strategy.ShardID(binary.BigEndian.Uint32(frame[shardAt:]))
}
