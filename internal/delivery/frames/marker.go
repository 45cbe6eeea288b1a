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
	m, rest, err := cutMarker(frame)
	if err == nil && len(rest) != 0 {
		return Marker{}, ErrMalformed
	}
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

// AppendState appends a frame with the state of one entity of a shard that moves.
func AppendState(b []byte, typ string, shard strategy.ShardID, token protocol.Token, id string, state []byte) []byte {
	b = AppendMarker(b, KindState, typ, shard, token)
	b = wire.AppendString(b, id)
	return append(b, state...)
}

// ParseState parses the frame of one state. id and state alias the frame.
func ParseState(frame []byte) (m Marker, id, state []byte, err error) {
	m, rest, err := cutMarker(frame)
	if err != nil {
		return m, nil, nil, err
	}
	id, state, ok := cutString(rest, IDBytesMax)
	if !ok {
		return m, nil, nil, ErrMalformed
	}
	return m, id, state, nil
}

// AppendStateEnd appends the frame behind the states of a shard, with their number.
func AppendStateEnd(b []byte, typ string, shard strategy.ShardID, token protocol.Token, count int) []byte {
	return binary.BigEndian.AppendUint32(AppendMarker(b, KindStateEnd, typ, shard, token), uint32(count))
}

// ParseStateEnd parses the frame behind the states of a shard.
func ParseStateEnd(frame []byte) (m Marker, count int, err error) {
	m, rest, err := cutMarker(frame)
	if err != nil || len(rest) != 4 {
		return m, 0, ErrMalformed
	}
	return m, int(binary.BigEndian.Uint32(rest)), nil
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
