package frames

import (
	"encoding/binary"
	"github.com/peerage-go/peerage/internal/core/protocol"

	"github.com/peerage-go/peerage/internal/wire"
)

// Code is the result of an ask, as one byte of a reply.
type Code byte

// The codes. Their numbers never change.
const (
	CodeOK Code = iota
	CodeHandler
	CodePanicked
	CodeMailboxFull
	CodeAbandoned
	CodeExpired
	CodeCodec
	CodeSettings
	CodeUnknownType
	CodeTooLarge
	CodeRestore
	CodeMoved
	CodeStarted
	CodeState
	CodeNotKept
	CodeNoWorker
)

// codeLater is a bit beside the code of a reply: fields of later versions stand before the
// payload, behind their length.
const codeLater = 0x80

// TextMax bounds the text of an error in a reply or a confirmation.
const TextMax = 1024

// CutText returns the part of an error's text that is sent.
func CutText(s string) string { return s[:min(len(s), TextMax)] }

// Reply is a parsed reply. Its slices alias the frame.
type Reply struct {
	Call    uint64
	Type    []byte
	Code    Code
	Payload []byte
}

// AppendReply appends all of a reply but its payload, or its text if c is not CodeOK.
func AppendReply(b []byte, typ string, call uint64, c Code) []byte {
	b = append(b, byte(KindReply))
	b = binary.BigEndian.AppendUint64(b, call)
	b = wire.AppendString(b, typ)
	return append(b, byte(c))
}

// ParseReply parses a reply. Its code may be one of a later version.
func ParseReply(frame []byte) (r Reply, err error) {
	if len(frame) < 9 {
		return r, ErrMalformed
	}
	r.Call = binary.BigEndian.Uint64(frame[1:])
	typ, p, ok := cutString(frame[9:], NameBytesMax)
	if !ok || len(p) == 0 {
		return r, ErrMalformed
	}
	r.Type, r.Code, r.Payload = typ, Code(p[0]&^codeLater), p[1:]
	if p[0]&codeLater != 0 && !cutLater(&r.Payload) {
		return r, ErrMalformed
	}
	return r, nil
}

// AppendRefused appends the refusal of a request that arrived at a wrong home. It contains the
// whole request, because its sender may have kept none of it. running is the token under which
// the shard runs there, zero if it does not.
func AppendRefused(b []byte, running protocol.Token, frame []byte) []byte {
	b = append(b, byte(KindRefused))
	b = appendToken(b, running)
	return append(b, frame...)
}

// ParseRefused parses a refusal and the request in it.
func ParseRefused(frame []byte) (running protocol.Token, inner []byte, q Request, err error) {
	if len(frame) < refusedHead+tellHead {
		return running, nil, q, ErrMalformed
	}
	running, inner = readToken(frame[1:]), frame[refusedHead:]
	if k := KindOf(inner); k != KindTell && k != KindAsk {
		return running, nil, q, ErrMalformed
	}
	q, err = ParseRequest(inner)
	return running, inner, q, err
}

// AppendCancel appends the notice that the caller of an ask has given up.
func AppendCancel(b []byte, typ string, call uint64) []byte {
	b = append(b, byte(KindCancel))
	b = binary.BigEndian.AppendUint64(b, call)
	return wire.AppendString(b, typ)
}

// ParseCancel parses that notice.
func ParseCancel(frame []byte) (typ []byte, call uint64, err error) {
	if len(frame) < 9 {
		return nil, 0, ErrMalformed
	}
	typ, _, ok := cutString(frame[9:], NameBytesMax)
	if !ok {
		return nil, 0, ErrMalformed
	}
	return typ, binary.BigEndian.Uint64(frame[1:]), nil
}
