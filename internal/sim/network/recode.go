package network

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/view"
)

// Coded is a message that has an encoding: Recode returns what its receiver decodes, and the bytes
// of the encoding.
type Coded interface {
	Recode() (decoded any, bytes int, err error)
}

// Sized is a message that is passed on as it is, with the bytes that it would have.
type Sized interface {
	Size() int
}

// recode encodes the message of a frame and decodes it, as production does on the way: the
// receiver shares no memory with the sender, and learns no more than the encoding holds.
func (e *Endpoint) recode(f *Frame) {
	var encoded []byte
	var decoded any
	var err error
	switch m := f.Msg.(type) {
	case view.Message:
		encoded = view.Append(nil, m)
		decoded, err = view.Decode(encoded)
	case protocol.Message:
		encoded = protocol.Append(nil, m)
		decoded, err = protocol.Decode(encoded)
	case Coded:
		decoded, f.bytes, err = m.Recode()
	case Sized:
		f.bytes = m.Size()
		return
	default:
		return
	}
	f.bytes += len(encoded)
	e.sent, e.sentBytes = e.sent+1, e.sentBytes+uint64(len(encoded))
	if err != nil {
		e.run.Fail("codec", "%s sends %T, which its receiver cannot decode: %v", e.id.Label, f.Msg, err)
	}
	f.Msg = decoded
}
