package sharding

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/wire"
)

// Flow control between a sender and the homes of shards; see package flow.
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

const (
	grantBytes  = 44
	reportBytes = 40
	shrinkBytes = 8
)

// granted is a parsed grant.
type granted struct {
	shard ShardID
	token Token
	flow.Grant
}

func appendGrantHead(b []byte, typ string) []byte {
	return wire.AppendString(append(b, byte(frameGrant)), typ)
}

func appendGrant(b []byte, g *granted) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(g.shard))
	b = appendToken(b, g.token)
	b = binary.BigEndian.AppendUint64(b, g.Limit)
	b = binary.BigEndian.AppendUint64(b, g.LimitBytes)
	return binary.BigEndian.AppendUint64(b, g.Asked)
}

// parseGrants returns the type and the grants of a frame, still encoded, each of
// grantBytes.
func parseGrants(frame []byte) (typ, grants []byte, err error) {
	if len(frame) < 2 {
		return nil, nil, errMalformed
	}
	typ, grants, ok := cut(frame[1:], nameBytesMax)
	if !ok || len(grants)%grantBytes != 0 {
		return nil, nil, errMalformed
	}
	return typ, grants, nil
}

// readGrant reads the first of grants.
func readGrant(grants []byte) (g granted) {
	g.shard = ShardID(binary.BigEndian.Uint32(grants))
	g.token = readToken(grants[4:])
	g.Limit, g.LimitBytes = binary.BigEndian.Uint64(grants[20:]), binary.BigEndian.Uint64(grants[28:])
	g.Asked = binary.BigEndian.Uint64(grants[36:])
	return g
}

func appendBlocked(b []byte, typ string, shard ShardID, token Token, r flow.Report) []byte {
	return appendReport(b, frameBlocked, typ, shard, token, r)
}

func appendShrunk(b []byte, typ string, shard ShardID, token Token, r flow.Report) []byte {
	return appendReport(b, frameShrunk, typ, shard, token, r)
}

func appendReport(b []byte, kind frameKind, typ string, shard ShardID, token Token, r flow.Report) []byte {
	b = appendMarker(b, kind, typ, shard, token)
	for _, n := range [...]uint64{r.Sent, r.SentBytes, r.Limit, r.LimitBytes, r.Asked} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// parseReport parses a blocked or a shrunk frame.
func parseReport(frame []byte) (m marker, r flow.Report, err error) {
	at := len(frame) - reportBytes
	if at < 0 {
		return m, r, errMalformed
	}
	if m, err = parseMarker(frame[:at]); err != nil {
		return m, r, err
	}
	for i, n := range [...]*uint64{&r.Sent, &r.SentBytes, &r.Limit, &r.LimitBytes, &r.Asked} {
		*n = binary.BigEndian.Uint64(frame[at+8*i:])
	}
	return m, r, nil
}

func appendShrink(b []byte, typ string, shard ShardID, token Token, asked uint64) []byte {
	return binary.BigEndian.AppendUint64(appendMarker(b, frameShrink, typ, shard, token), asked)
}

func parseShrink(frame []byte) (m marker, asked uint64, err error) {
	at := len(frame) - shrinkBytes
	if at < 0 {
		return m, 0, errMalformed
	}
	if m, err = parseMarker(frame[:at]); err != nil {
		return m, 0, err
	}
	return m, binary.BigEndian.Uint64(frame[at:]), nil
}

// stopNotice is a parsed stop, or the question whether one holds. id aliases the frame.
type stopNotice struct {
	marker
	id   []byte
	gate flow.Class
}

func appendStop(b []byte, typ string, shard ShardID, token Token, id string, gate flow.Class) []byte {
	return append(wire.AppendString(appendMarker(b, frameStop, typ, shard, token), id), byte(gate))
}

func parseStop(frame []byte) (s stopNotice, err error) {
	last := len(frame) - 1
	if last < 0 {
		return s, errMalformed
	}
	gate, ok := flow.ParseClass(frame[last])
	if !ok {
		return s, errMalformed
	}
	s, err = parseStopped(frame[:last])
	s.gate = gate
	return s, err
}

func appendStopped(b []byte, typ string, shard ShardID, token Token, id string) []byte {
	return wire.AppendString(appendMarker(b, frameStopped, typ, shard, token), id)
}

func parseStopped(frame []byte) (s stopNotice, err error) {
	if len(frame) < numberAt {
		return s, errMalformed
	}
	typ, rest, ok := cut(frame[numberAt:], nameBytesMax)
	if !ok {
		return s, errMalformed
	}
	id, rest, ok := cut(rest, idBytesMax)
	if !ok || len(rest) != 0 {
		return s, errMalformed
	}
	s.marker = marker{ShardID(binary.BigEndian.Uint32(frame[shardAt:])), readToken(frame[termAt:]), typ}
	s.id = id
	return s, nil
}
