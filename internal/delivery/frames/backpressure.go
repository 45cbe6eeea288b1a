package frames

import (
	"encoding/binary"
	"github.com/peerage-go/peerage/internal/core/protocol"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Back-pressure between a sender and the homes of shards; see package flow.
//
//	grant      kind 1 | type | (shard 4 | token 16 | limit 8 | limit in bytes 8 | asked 8)...
//	blocked    kind 1 | shard 4 | token 16 | type | sent 8 | bytes 8 | limit 8 | limit in bytes 8 | asked 8
//	stop       kind 1 | shard 4 | token 16 | type | id | gate 1 (flow.Open)
//	stopped    kind 1 | shard 4 | token 16 | type | id
//	shrink     kind 1 | shard 4 | token 16 | type | asked 8
//	shrunk     as blocked
//
// A blocked or shrunk frame is sent behind the requests that it counts, a grant behind the
// stops that left before it. stopped queries whether a stop still holds. shrink requests the
// growth of an idle window back, and asked numbers these requests.

// Lengths of fields. GrantBytes is the length of one grant of a frame.
const (
	GrantBytes  = 44
	reportBytes = 40
	shrinkBytes = 8
)

// Grant is a parsed grant of a shard's home.
type Grant struct {
	Shard strategy.ShardID
	Token protocol.Token
	flow.Grant
}

// AppendGrantHead appends the head of a frame of grants.
func AppendGrantHead(b []byte, typ string) []byte {
	return wire.AppendString(append(b, byte(KindGrant)), typ)
}

// AppendGrant appends one grant to a frame of grants.
func AppendGrant(b []byte, g *Grant) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(g.Shard))
	b = appendToken(b, g.Token)
	b = binary.BigEndian.AppendUint64(b, g.Limit)
	b = binary.BigEndian.AppendUint64(b, g.LimitBytes)
	return binary.BigEndian.AppendUint64(b, g.Asked)
}

// ParseGrants returns the type and the grants of a frame, still encoded, each of GrantBytes.
func ParseGrants(frame []byte) (typ, grants []byte, err error) {
	if len(frame) < 2 {
		return nil, nil, ErrMalformed
	}
	typ, grants, ok := cutString(frame[1:], NameBytesMax)
	if !ok || len(grants)%GrantBytes != 0 {
		return nil, nil, ErrMalformed
	}
	return typ, grants, nil
}

// ReadGrant parses the first of grants.
func ReadGrant(grants []byte) (g Grant) {
	g.Shard = strategy.ShardID(binary.BigEndian.Uint32(grants))
	g.Token = readToken(grants[4:])
	g.Limit, g.LimitBytes = binary.BigEndian.Uint64(grants[20:]), binary.BigEndian.Uint64(grants[28:])
	g.Asked = binary.BigEndian.Uint64(grants[36:])
	return g
}

// AppendBlocked appends the report of a sender that has used up its window.
func AppendBlocked(b []byte, typ string, shard strategy.ShardID, token protocol.Token, r flow.Report) []byte {
	return appendReport(b, KindBlocked, typ, shard, token, r)
}

// AppendShrunk appends the reply to a shrink request.
func AppendShrunk(b []byte, typ string, shard strategy.ShardID, token protocol.Token, r flow.Report) []byte {
	return appendReport(b, KindShrunk, typ, shard, token, r)
}

func appendReport(b []byte, kind Kind, typ string, shard strategy.ShardID, token protocol.Token, r flow.Report) []byte {
	b = AppendMarker(b, kind, typ, shard, token)
	for _, n := range [...]uint64{r.Sent, r.SentBytes, r.Limit, r.LimitBytes, r.Asked} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// ParseReport parses a blocked or a shrunk frame.
func ParseReport(frame []byte) (m Marker, r flow.Report, err error) {
	m, rest, err := cutMarker(frame)
	if err != nil || len(rest) < reportBytes {
		return m, r, ErrMalformed
	}
	for i, n := range [...]*uint64{&r.Sent, &r.SentBytes, &r.Limit, &r.LimitBytes, &r.Asked} {
		*n = binary.BigEndian.Uint64(rest[8*i:])
	}
	return m, r, nil
}

// AppendShrink appends a shrink request.
func AppendShrink(b []byte, typ string, shard strategy.ShardID, token protocol.Token, asked uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendMarker(b, KindShrink, typ, shard, token), asked)
}

// ParseShrink parses a shrink request.
func ParseShrink(frame []byte) (m Marker, asked uint64, err error) {
	m, rest, err := cutMarker(frame)
	if err != nil || len(rest) < shrinkBytes {
		return m, 0, ErrMalformed
	}
	return m, binary.BigEndian.Uint64(rest), nil
}

// StopNotice is a parsed stop, or the query whether one holds. Its slices alias the frame.
type StopNotice struct {
	Marker
	ID   []byte
	Gate flow.Class
}

// AppendStop appends the gate that a home sets for messages of a sender to one entity.
func AppendStop(b []byte, typ string, shard strategy.ShardID, token protocol.Token, id string, gate flow.Class) []byte {
	return append(wire.AppendString(AppendMarker(b, KindStop, typ, shard, token), id), byte(gate))
}

// ParseStop parses a stop.
func ParseStop(frame []byte) (s StopNotice, err error) {
	s, rest, err := cutEntity(frame)
	if err != nil || len(rest) == 0 {
		return s, ErrMalformed
	}
	gate, ok := flow.ParseClass(rest[0])
	if !ok {
		return s, ErrMalformed
	}
	s.Gate = gate
	return s, nil
}

// AppendStopped appends the query whether the stop of an entity still holds.
func AppendStopped(b []byte, typ string, shard strategy.ShardID, token protocol.Token, id string) []byte {
	return wire.AppendString(AppendMarker(b, KindStopped, typ, shard, token), id)
}

// ParseStopped parses that query.
func ParseStopped(frame []byte) (s StopNotice, err error) {
	s, _, err = cutEntity(frame)
	return s, err
}

// cutEntity parses a frame that begins as that query, and returns the bytes behind that.
func cutEntity(frame []byte) (s StopNotice, rest []byte, err error) {
	m, rest, err := cutMarker(frame)
	if err != nil {
		return s, nil, err
	}
	id, rest, ok := cutString(rest, IDBytesMax)
	if !ok {
		return s, nil, ErrMalformed
	}
	return StopNotice{Marker: m, ID: id}, rest, nil
}
