package frames

import (
	"encoding/binary"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/headers"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// The flags of a request. FlagStart marks a request that only starts an instance.
const (
	flagSender byte = 1 << iota
	FlagStart
	flagReliable
	// flagChain: behind the sender stand a count, and so many hashes of 8 bytes (activation.Chain).
	flagChain
	// flagHeaders: behind the chain stand the headers, behind their length (headers.List).
	flagHeaders
	// flagLater: behind the headers stand fields of later versions, behind their length.
	flagLater  byte = 0x80
	flagsKnown      = flagSender | FlagStart | flagReliable | flagChain | flagHeaders | flagLater
)

// laterBytesMax bounds the fields of later versions in a request or a reply.
const laterBytesMax = 4096

// AppendRequest appends all of a request but its payload. Stamp fills in the token and the
// number. call is 0 for a tell.
func AppendRequest(b []byte, typ string, shard strategy.ShardID, id string, call uint64, from *activation.Sender) []byte {
	return appendFlagged(b, typ, shard, id, call, from, 0)
}

// AppendStart appends a request that only starts an instance. It has no payload.
func AppendStart(b []byte, typ string, shard strategy.ShardID, id string, call uint64, from *activation.Sender) []byte {
	return appendFlagged(b, typ, shard, id, call, from, FlagStart)
}

// AppendAsk appends all of a request but its payload. Only an ask may have a chain. flags is
// FlagStart, flagReliable or 0.
func AppendAsk(b []byte, typ string, shard strategy.ShardID, id string, call uint64, from *activation.Sender, chain *activation.Chain, h headers.List, flags byte) []byte {
	if h != "" {
		flags |= flagHeaders
	}
	if chain.Len() == 0 {
		return appendHeaders(appendFlagged(b, typ, shard, id, call, from, flags), h)
	}
	b = appendFlagged(b, typ, shard, id, call, from, flags|flagChain)
	return appendHeaders(chain.Append(append(b, byte(chain.Len()))), h)
}

// appendHeaders appends the headers of a request, nothing if there are none.
func appendHeaders(b []byte, h headers.List) []byte {
	if h == "" {
		return b
	}
	return wire.AppendString(b, string(h))
}

func appendFlagged(b []byte, typ string, shard strategy.ShardID, id string, call uint64, from *activation.Sender, flags byte) []byte {
	at := len(b)
	if call == 0 {
		b = append(b, make([]byte, tellHead)...)
		b[at] = byte(KindTell)
	} else {
		b = append(b, make([]byte, askHead)...)
		b[at] = byte(KindAsk)
		binary.BigEndian.PutUint64(b[at+callAt:], call)
	}
	binary.BigEndian.PutUint32(b[at+shardAt:], uint32(shard))
	b = wire.AppendString(b, typ)
	b = wire.AppendString(b, id)
	if from == nil || from.Type == "" {
		return append(b, flags)
	}
	b = append(b, flags|flagSender)
	b = wire.AppendString(b, from.Type)
	return wire.AppendString(b, from.ID)
}

// Stamp fills in the fields of a request that are set when it leaves.
func Stamp(frame []byte, token protocol.Token, number uint64) {
	binary.BigEndian.PutUint64(frame[termAt:], uint64(token.Term))
	binary.BigEndian.PutUint64(frame[seqAt:], token.Seq)
	binary.BigEndian.PutUint64(frame[numberAt:], number)
}

// StampLeft fills in the time that an ask has left.
func StampLeft(frame []byte, left time.Duration) {
	binary.BigEndian.PutUint64(frame[leftAt:], uint64(left))
}

// Request is a parsed tell or ask. Its slices alias the frame.
type Request struct {
	Shard    strategy.ShardID
	Token    protocol.Token
	Number   uint64
	Call     uint64
	Left     time.Duration
	Type     []byte
	ID       []byte
	FromType []byte
	FromID   []byte
	Payload  []byte
	flags    byte
	// Start is set if the request only starts an instance.
	Start bool
	// Chain holds the hashes of an ask's chain; nil means none.
	Chain []byte
	// Headers holds the headers, as a valid headers.List; nil means none.
	Headers []byte
	// Reliable is the stamp of a reliable message, nil for another message.
	Reliable []byte
}

// requestHead returns the length of the head of fixed size of a request.
func requestHead(frame []byte) int {
	if KindOf(frame) == KindAsk {
		return askHead
	}
	return tellHead
}

// RequestType returns the type of a request without parsing the rest.
func RequestType(frame []byte) ([]byte, error) {
	n := requestHead(frame)
	if len(frame) < n {
		return nil, ErrMalformed
	}
	typ, _, ok := cutString(frame[n:], NameBytesMax)
	if !ok {
		return nil, ErrMalformed
	}
	return typ, nil
}

// ParseRequest parses a request.
func ParseRequest(frame []byte) (q Request, err error) {
	err = q.Parse(frame)
	return q, err
}

// Parse is ParseRequest in place: a Request is large, and copying it costs as much as parsing.
func (q *Request) Parse(frame []byte) error {
	n := requestHead(frame)
	if len(frame) < n {
		return ErrMalformed
	}
	if q.Call != 0 || q.flags != 0 {
		*q = Request{}
	}
	q.Shard = ShardOf(frame)
	q.Token = readToken(frame[termAt:])
	q.Number = binary.BigEndian.Uint64(frame[numberAt:])
	if n == askHead {
		q.Call = binary.BigEndian.Uint64(frame[callAt:])
		q.Left = time.Duration(binary.BigEndian.Uint64(frame[leftAt:]))
		if q.Call == 0 || q.Left < 0 {
			return ErrMalformed
		}
	}
	p := frame[n:]
	var ok [2]bool
	q.Type, p, ok[0] = cutString(p, NameBytesMax)
	q.ID, p, ok[1] = cutString(p, IDBytesMax)
	if !ok[0] || !ok[1] || len(p) == 0 || p[0]&^flagsKnown != 0 {
		return ErrMalformed
	}
	q.flags = p[0]
	q.Start = q.flags&FlagStart != 0
	q.Payload = p[1:]
	if q.flags == 0 {
		return nil
	}
	if q.flags&flagSender != 0 {
		q.FromType, p, ok[0] = cutString(q.Payload, NameBytesMax)
		q.FromID, q.Payload, ok[1] = cutString(p, IDBytesMax)
		if !ok[0] || !ok[1] {
			return ErrMalformed
		}
	}
	if q.flags&flagChain != 0 && !q.cutChain() {
		return ErrMalformed
	}
	if q.flags&flagHeaders != 0 && !q.cutHeaders() {
		return ErrMalformed
	}
	if q.flags&flagLater != 0 && !cutLater(&q.Payload) {
		return ErrMalformed
	}
	if q.flags&flagReliable != 0 {
		return q.cutStamp()
	}
	return nil
}

// cutChain moves the chain from the payload to Chain.
func (q *Request) cutChain() bool {
	p := q.Payload
	if q.Call == 0 || q.flags&(flagSender|flagReliable) != flagSender || len(p) == 0 {
		return false
	}
	n := int(p[0])
	if n == 0 || n > activation.ChainMax || len(p) < 1+8*n {
		return false
	}
	q.Chain, q.Payload = p[1:1+8*n], p[1+8*n:]
	return true
}

// cutHeaders moves the headers from the payload to Headers.
func (q *Request) cutHeaders() (ok bool) {
	q.Headers, q.Payload, ok = cutString(q.Payload, headers.EncodedMax)
	return ok && headers.Valid(q.Headers)
}

// cutLater cuts fields that this version does not have off a payload.
func cutLater(payload *[]byte) (ok bool) {
	_, *payload, ok = cutString(*payload, laterBytesMax)
	return ok
}

func readToken(b []byte) protocol.Token {
	return protocol.Token{Term: gossip.Epoch(binary.BigEndian.Uint64(b)), Seq: binary.BigEndian.Uint64(b[8:])}
}

func appendToken(b []byte, t protocol.Token) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(t.Term)), t.Seq)
}

// cutString cuts a string, behind its length, off p.
func cutString(p []byte, max int) (s, rest []byte, ok bool) {
	if len(p) > 0 && p[0] < 0x80 {
		if n := int(p[0]); n <= max && n < len(p) {
			return p[1 : 1+n], p[1+n:], true
		}
		return nil, nil, false
	}
	n, w := binary.Uvarint(p)
	if w <= 0 || n > uint64(max) || n > uint64(len(p)-w) {
		return nil, nil, false
	}
	return p[w : w+int(n)], p[w+int(n):], true
}
