package sharding

import (
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/datapath"
)

// Frame travels on the message and bulk connections, for one type.
type Frame interface{ ofType() int }

// pathFrame is a frame of a type's data path.
type pathFrame struct {
	typ int
	*datapath.Frame
}

func (f *pathFrame) ofType() int { return f.typ }

// Flip returns the frame with another number of its message, as a receiver without checksums
// would take a damaged one.
func (f *pathFrame) Flip() any {
	if f.Msg == nil {
		return f
	}
	changed, m := *f.Frame, *f.Msg
	m.Seq ^= 4
	changed.Msg = &m
	return &pathFrame{f.typ, &changed}
}

// pathFrameBytes is what a frame of the data path has beside its message.
const pathFrameBytes = 46

// Size is how many bytes the frame would have.
func (f *pathFrame) Size() int {
	if f.Msg == nil {
		return pathFrameBytes
	}
	return pathFrameBytes + f.Msg.Bytes
}

// stateFrame is a frame of a type's Mover.
type stateFrame struct {
	typ   int
	chunk mover.Chunk
}

func (f *stateFrame) ofType() int { return f.typ }

// Recode returns the frame as its receiver decodes it.
func (f *stateFrame) Recode() (any, int, error) {
	encoded := mover.AppendChunk(nil, f.chunk)
	chunk, err := mover.DecodeChunk(encoded)
	return &stateFrame{f.typ, chunk}, len(encoded), err
}

// stateAckFrame acknowledges chunks of a Mover.
type stateAckFrame struct {
	typ int
	ack mover.Ack
}

func (f *stateAckFrame) ofType() int { return f.typ }

// Recode returns the frame as its receiver decodes it.
func (f *stateAckFrame) Recode() (any, int, error) {
	encoded := mover.AppendAck(nil, f.ack)
	ack, err := mover.DecodeAck(encoded)
	return &stateAckFrame{f.typ, ack}, len(encoded), err
}

type callOp uint8

const (
	opHello callOp = iota
	opHelloAck
	opReply
	opCancel
	opFarewell
	opFarewellAck
)

// callFrame travels on message connections, beside the frames of the data path.
type callFrame struct {
	typ int
	op  callOp
	// call and outcome are those of a reply, or of an ask that is called off.
	call    uint64
	outcome invariant.Outcome
}

func (f *callFrame) ofType() int { return f.typ }
