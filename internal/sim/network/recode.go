package network

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/view"
)

// Coded is a message that has an encoding: Recode returns what its receiver decodes.
type Coded interface {
	Recode() (any, error)
}

// recode encodes the message of a frame and decodes it, as production does on the way: the
// receiver shares no memory with the sender, and learns no more than the encoding holds.
func (e *Endpoint) recode(f *Frame) {
	var decoded any
	var err error
	switch m := f.Msg.(type) {
	case view.Message:
		decoded, err = view.Decode(view.Append(nil, m))
	case protocol.Message:
		decoded, err = protocol.Decode(protocol.Append(nil, m))
	case Coded:
		decoded, err = m.Recode()
	default:
		return
	}
	if err != nil {
		e.run.Fail("codec", "%s sends %T, which its receiver cannot decode: %v", e.id.Label, f.Msg, err)
	}
	f.Msg = decoded
}
