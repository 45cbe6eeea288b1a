package sharding

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/wire"
)

// Frames of KindEntity are written by hand: the application's codec touches the
// payload, nothing else. The first byte is the kind. Requests have a head of
// fixed size, so that shard, token, number and remaining time can be filled in at
// the moment of sending, when the rest was encoded long before:
//
//	tell       kind 1 | shard 4 | token 16 | number 8 | type | id | flags 1 | sender | payload
//	ask        kind 1 | shard 4 | token 16 | number 8 | call 8 | left 8 | type | id | flags 1 | sender | chain | payload
//	reply      kind 1 | call 8 | type | code 1 | payload or text
//	refused    kind 1 | known token 16 | the request's frame
//	cancel     kind 1 | call 8 | type
//	confirm    see frame_sure.go
//	grant      see frame_flow.go (blocked, stop, stopped, shrink, shrunk likewise)
//	marker     kind 1 | shard 4 | token 16 | type           (markerAck likewise)
//	hello      kind 1                                         (helloAck likewise)
//
//	state      kind 1 | shard 4 | token 16 | type | id | state   (class Bulk)
//	stateEnd   kind 1 | shard 4 | token 16 | type | count 4      (stateAck: without count)
//
// Strings have their length in front. number counts what left for the shard from
// this node; the home gives it back when it refuses. left is in nanoseconds, 0 for
// no deadline: clocks of two nodes are never compared.
type frameKind byte

const (
	frameTell frameKind = iota + 1
	frameAsk
	frameReply
	frameRefused
	frameMarker
	frameMarkerAck
	frameHello
	frameHelloAck
	frameState
	frameStateEnd
	frameStateAck
	frameCancel
	frameConfirm
	frameGrant
	frameBlocked
	frameStop
	frameStopped
	frameShrink
	frameShrunk
)

// frameStandby carries a message of package standby: kind 1 | type | message.
const frameStandby frameKind = 32

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

var errMalformed = errors.New("sharding: malformed frame")

// The flags of a request.
const (
	flagSender byte = 1 << iota
	flagStart
	flagSure
	// flagChain: behind the sender stand a count, and so many hashes of 8 bytes (activation.Chain).
	flagChain
	flagsKnown = flagSender | flagStart | flagSure | flagChain
)

// appendRequest appends all of a request but its payload; token, number and left
// are filled in by stamp.
func appendRequest(b []byte, typ string, shard ShardID, id string, call uint64, from *activation.Sender) []byte {
	return appendFlagged(b, typ, shard, id, call, from, 0)
}

// appendStart is appendRequest for what only asks for an instance. It has no payload.
func appendStart(b []byte, typ string, shard ShardID, id string, call uint64, from *activation.Sender) []byte {
	return appendFlagged(b, typ, shard, id, call, from, flagStart)
}

func appendFlagged(b []byte, typ string, shard ShardID, id string, call uint64, from *activation.Sender, flags byte) []byte {
	var head [askHead]byte
	head[0] = byte(frameTell)
	n := tellHead
	if call != 0 {
		head[0], n = byte(frameAsk), askHead
		binary.BigEndian.PutUint64(head[callAt:], call)
	}
	binary.BigEndian.PutUint32(head[shardAt:], uint32(shard))
	b = append(b, head[:n]...)
	b = wire.AppendString(b, typ)
	b = wire.AppendString(b, id)
	if from == nil || from.Type == "" {
		return append(b, flags)
	}
	b = append(b, flags|flagSender)
	b = wire.AppendString(b, from.Type)
	return wire.AppendString(b, from.ID)
}

// appendAsk appends all of an ask that may have a chain, or of a tell, but its payload.
func appendAsk(b []byte, typ string, shard ShardID, id string, call uint64, from *activation.Sender, chain *activation.Chain, flags byte) []byte {
	if chain.Len() == 0 {
		return appendFlagged(b, typ, shard, id, call, from, flags)
	}
	b = appendFlagged(b, typ, shard, id, call, from, flags|flagChain)
	return chain.Append(append(b, byte(chain.Len())))
}

// stamp fills in what is known only when the request leaves.
func stamp(frame []byte, token Token, number uint64) {
	binary.BigEndian.PutUint64(frame[termAt:], uint64(token.Term))
	binary.BigEndian.PutUint64(frame[seqAt:], token.Seq)
	binary.BigEndian.PutUint64(frame[numberAt:], number)
}

// stampLeft fills in the time that an ask has left.
func stampLeft(frame []byte, left time.Duration) {
	binary.BigEndian.PutUint64(frame[leftAt:], uint64(left))
}

// request is a parsed tell or ask. id and payload alias the frame.
type request struct {
	shard   ShardID
	token   Token
	number  uint64
	call    uint64
	left    time.Duration
	typ     []byte
	id      []byte
	fromTyp []byte
	fromID  []byte
	payload []byte
	flags   byte
	// start: only an instance is asked for.
	start bool
	// chain are the hashes of an ask's chain, nil for none.
	chain []byte
	// sure is the stamp of a reliable message, nil for others.
	sure []byte
}

// requestHead is the length of the head of fixed size of a request.
func requestHead(frame []byte) int {
	if frameKind(frame[0]) == frameAsk {
		return askHead
	}
	return tellHead
}

// requestType returns the type of a request without a look at the rest.
func requestType(frame []byte) ([]byte, error) {
	n := requestHead(frame)
	if len(frame) < n {
		return nil, errMalformed
	}
	typ, _, ok := cut(frame[n:], nameBytesMax)
	if !ok {
		return nil, errMalformed
	}
	return typ, nil
}

func parseRequest(frame []byte) (q request, err error) {
	err = q.parse(frame)
	return q, err
}

// parse is parseRequest in place: a request is large, and to copy it costs as much as
// to parse it.
func (q *request) parse(frame []byte) error {
	n := requestHead(frame)
	if len(frame) < n {
		return errMalformed
	}
	if q.call != 0 || q.flags != 0 {
		*q = request{}
	}
	q.shard = ShardID(binary.BigEndian.Uint32(frame[shardAt:]))
	q.token = readToken(frame[termAt:])
	q.number = binary.BigEndian.Uint64(frame[numberAt:])
	if n == askHead {
		q.call = binary.BigEndian.Uint64(frame[callAt:])
		q.left = time.Duration(binary.BigEndian.Uint64(frame[leftAt:]))
		if q.call == 0 || q.left < 0 {
			return errMalformed
		}
	}
	p := frame[n:]
	var ok [2]bool
	q.typ, p, ok[0] = cut(p, nameBytesMax)
	q.id, p, ok[1] = cut(p, idBytesMax)
	if !ok[0] || !ok[1] || len(p) == 0 || p[0] > flagsKnown {
		return errMalformed
	}
	q.flags = p[0]
	q.start = q.flags&flagStart != 0
	q.payload = p[1:]
	if q.flags == 0 {
		return nil
	}
	if q.flags&flagSender != 0 {
		q.fromTyp, p, ok[0] = cut(q.payload, nameBytesMax)
		q.fromID, q.payload, ok[1] = cut(p, idBytesMax)
		if !ok[0] || !ok[1] {
			return errMalformed
		}
	}
	if q.flags&flagChain != 0 && !q.cutChain() {
		return errMalformed
	}
	if q.flags&flagSure != 0 {
		return q.cutSure()
	}
	return nil
}

// cutChain takes the chain off the payload.
func (q *request) cutChain() bool {
	p := q.payload
	if q.call == 0 || q.flags&(flagSender|flagSure) != flagSender || len(p) == 0 {
		return false
	}
	n := int(p[0])
	if n == 0 || n > activation.ChainMax || len(p) < 1+8*n {
		return false
	}
	q.chain, q.payload = p[1:1+8*n], p[1+8*n:]
	return true
}

func readToken(b []byte) Token {
	return Token{Term: gossip.Epoch(binary.BigEndian.Uint64(b)), Seq: binary.BigEndian.Uint64(b[8:])}
}

func appendToken(b []byte, t Token) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(t.Term)), t.Seq)
}

// cut takes a string with its length in front off p.
func cut(p []byte, max int) (s, rest []byte, ok bool) {
	if len(p) > 0 && p[0] < 0x80 {
		if n := int(p[0]); n <= max && n < len(p) {
			return p[1 : 1+n], p[1+n:], true
		} else if n <= max && n == len(p)-1 {
			return p[1:], nil, true
		}
		return nil, nil, false
	}
	n, w := binary.Uvarint(p)
	if w <= 0 || n > uint64(max) || n > uint64(len(p)-w) {
		return nil, nil, false
	}
	return p[w : w+int(n)], p[w+int(n):], true
}

func appendCancel(b []byte, typ string, call uint64) []byte {
	b = append(b, byte(frameCancel))
	b = binary.BigEndian.AppendUint64(b, call)
	return wire.AppendString(b, typ)
}

func parseCancel(frame []byte) (typ []byte, call uint64, err error) {
	if len(frame) < 9 {
		return nil, 0, errMalformed
	}
	typ, rest, ok := cut(frame[9:], nameBytesMax)
	if !ok || len(rest) != 0 {
		return nil, 0, errMalformed
	}
	return typ, binary.BigEndian.Uint64(frame[1:]), nil
}

// reply is a parsed reply. typ and payload alias the frame.
type reply struct {
	call    uint64
	typ     []byte
	code    code
	payload []byte
}

func appendReply(b []byte, typ string, call uint64, c code) []byte {
	b = append(b, byte(frameReply))
	b = binary.BigEndian.AppendUint64(b, call)
	b = wire.AppendString(b, typ)
	return append(b, byte(c))
}

func parseReply(frame []byte) (r reply, err error) {
	if len(frame) < 9 {
		return r, errMalformed
	}
	r.call = binary.BigEndian.Uint64(frame[1:])
	typ, p, ok := cut(frame[9:], nameBytesMax)
	if !ok || len(p) == 0 || p[0] >= byte(codes) {
		return r, errMalformed
	}
	r.typ, r.code, r.payload = typ, code(p[0]), p[1:]
	return r, nil
}

// appendRefused wraps a request that came to the wrong node: its sender gets all
// of it back, since it may not have kept it.
func appendRefused(b []byte, known Token, frame []byte) []byte {
	b = append(b, byte(frameRefused))
	b = appendToken(b, known)
	return append(b, frame...)
}

func parseRefused(frame []byte) (known Token, inner []byte, q request, err error) {
	if len(frame) < refusedHead+tellHead {
		return known, nil, q, errMalformed
	}
	known, inner = readToken(frame[1:]), frame[refusedHead:]
	if k := frameKind(inner[0]); k != frameTell && k != frameAsk {
		return known, nil, q, errMalformed
	}
	q, err = parseRequest(inner)
	return known, inner, q, err
}

// marker is a parsed marker, or its answer.
type marker struct {
	shard ShardID
	token Token
	typ   []byte
}

func appendMarker(b []byte, k frameKind, typ string, shard ShardID, token Token) []byte {
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(shard))
	b = appendToken(b, token)
	return wire.AppendString(b, typ)
}

func parseMarker(frame []byte) (m marker, err error) {
	if len(frame) < numberAt {
		return m, errMalformed
	}
	typ, rest, ok := cut(frame[numberAt:], nameBytesMax)
	if !ok || len(rest) != 0 {
		return m, errMalformed
	}
	return marker{ShardID(binary.BigEndian.Uint32(frame[shardAt:])), readToken(frame[termAt:]), typ}, nil
}
