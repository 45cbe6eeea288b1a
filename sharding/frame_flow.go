package sharding

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/sharding/flow"
)

// Flow control between a sender and the homes of shards; see package flow.
//
//	grant      kind 1 | type | (shard 4 | token 16 | limit 8 | limit in bytes 8)...
//	blocked    kind 1 | shard 4 | token 16 | type | sent 8 | bytes 8 | limit 8 | limit in bytes 8
//
// A blocked frame travels behind the requests that it counts, a grant on its own.

const (
	grantBytes   = 36
	blockedBytes = 32
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
	return binary.BigEndian.AppendUint64(b, g.LimitBytes)
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
	return g
}

func appendBlocked(b []byte, typ string, shard ShardID, token Token, r flow.Report) []byte {
	b = appendMarker(b, frameBlocked, typ, shard, token)
	for _, n := range [...]uint64{r.Sent, r.SentBytes, r.Limit, r.LimitBytes} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func parseBlocked(frame []byte) (m marker, r flow.Report, err error) {
	at := len(frame) - blockedBytes
	if at < 0 {
		return m, r, errMalformed
	}
	if m, err = parseMarker(frame[:at]); err != nil {
		return m, r, err
	}
	for i, n := range [...]*uint64{&r.Sent, &r.SentBytes, &r.Limit, &r.LimitBytes} {
		*n = binary.BigEndian.Uint64(frame[at+8*i:])
	}
	return m, r, nil
}
