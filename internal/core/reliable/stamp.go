package reliable

import (
	"encoding/binary"
	"errors"
)

// Producer names one producer, for as long as it lives; never reused.
type Producer uint64

// Stamp is the header of a message's copy. It is a value.
type Stamp struct {
	Producer         Producer
	Seq, Prev, Floor uint64
	// Try numbers the copies of one message, from 1.
	Try uint32
}

// StampBytes is the size of an encoded Stamp.
const StampBytes = 4*8 + 4

// WindowMax bounds Seq - Floor.
const WindowMax = 4096

// ErrMalformed: the bytes are no Stamp, or no Memory.
var ErrMalformed = errors.New("reliable: malformed")

// Put writes s to the first StampBytes of b.
func (s *Stamp) Put(b []byte) {
	binary.BigEndian.PutUint64(b, uint64(s.Producer))
	binary.BigEndian.PutUint64(b[8:], s.Seq)
	binary.BigEndian.PutUint64(b[16:], s.Prev)
	binary.BigEndian.PutUint64(b[24:], s.Floor)
	binary.BigEndian.PutUint32(b[32:], s.Try)
}

// ParseStamp decodes a Stamp that Put encoded. It fails with ErrMalformed on numbers that no
// producer gives out.
func ParseStamp(b []byte) (s Stamp, err error) {
	if len(b) < StampBytes {
		return s, ErrMalformed
	}
	s = Stamp{
		Producer: Producer(binary.BigEndian.Uint64(b)),
		Seq:      binary.BigEndian.Uint64(b[8:]), Prev: binary.BigEndian.Uint64(b[16:]), Floor: binary.BigEndian.Uint64(b[24:]),
		Try: binary.BigEndian.Uint32(b[32:]),
	}
	if s.Producer == 0 || s.Try == 0 || s.Floor == 0 || s.Floor > s.Seq || s.Seq-s.Floor >= WindowMax || s.Prev >= s.Seq {
		return Stamp{}, ErrMalformed
	}
	return s, nil
}
