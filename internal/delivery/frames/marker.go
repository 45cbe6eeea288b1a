package frames

import (
	"encoding/binary"
	"github.com/peerage-go/peerage/internal/core/protocol"

	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Marker is a parsed marker, its acknowledgement, or the head of a frame that begins like one.
// Type aliases the frame.
type Marker struct {
	Shard strategy.ShardID
	Token protocol.Token
	Type  []byte
}

// AppendMarker appends a marker, its acknowledgement, or the head of another frame of kind k.
func AppendMarker(b []byte, k Kind, typ string, shard strategy.ShardID, token protocol.Token) []byte {
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(shard))
	b = appendToken(b, token)
	return wire.AppendString(b, typ)
}

// ParseMarker parses a marker or its acknowledgement.
func ParseMarker(frame []byte) (m Marker, err error) {
	m, _, err = cutMarker(frame)
	return m, err
}

// cutMarker parses a frame that begins as a marker, and returns the bytes behind that.
func cutMarker(frame []byte) (m Marker, rest []byte, err error) {
	if len(frame) < numberAt {
		return m, nil, ErrMalformed
	}
	typ, rest, ok := cutString(frame[numberAt:], NameBytesMax)
	if !ok {
		return m, nil, ErrMalformed
	}
	return Marker{ShardOf(frame), readToken(frame[termAt:]), typ}, rest, nil
}

// AppendDismiss appends the order to end the instance of an entity. ParseStopped parses it.
func AppendDismiss(b []byte, typ string, shard strategy.ShardID, token protocol.Token, id string) []byte {
	return wire.AppendString(AppendMarker(b, KindDismiss, typ, shard, token), id)
}

// AppendStandby appends all of a frame that carries a message of package standby, but the
// message.
func AppendStandby(b []byte, typ string) []byte {
	return wire.AppendString(append(b, byte(KindStandby)), typ)
}

// ParseStandby parses a frame that carries a message of package standby.
func ParseStandby(frame []byte) (typ, message []byte, err error) {
	typ, message, ok := cutString(frame[1:], NameBytesMax)
	if !ok {
		return nil, nil, ErrMalformed
	}
	return typ, message, nil
}
