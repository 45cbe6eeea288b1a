package frames

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/headers"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// A reliable message is a tell with flagReliable: its stamp stands directly before the payload.
// Its home answers with
//
//	confirm    kind 1 | shard 4 | producer 8 | seq 8 | try 4 | outcome 1 | code 1 | type | text
//
// The high bit of outcome is set if all earlier messages ran too.

// ConfirmHead is the length of a confirmation without its strings. OutcomeGivenUp is the
// outcome of a message that will never be handled.
const (
	ConfirmHead    = 27
	confirmAll     = 0x80
	OutcomeGivenUp = byte(activation.ReliableGap) + 1
	outcomes       = OutcomeGivenUp + 1
)

// Confirmation is the outcome of one copy of a reliable message.
type Confirmation struct {
	Shard    strategy.ShardID
	Producer reliable.Producer
	Seq      uint64
	Try      uint32
	// Outcome is an activation.Outcome, or OutcomeGivenUp.
	Outcome byte
	// All is set if all earlier messages ran too.
	All  bool
	Code Code
	Text string
}

// blankStamp is the stamp of a message that has not been sent yet.
var blankStamp = func() (b [reliable.StampBytes]byte) {
	(&reliable.Stamp{Producer: 1, Seq: 1, Floor: 1, Try: 1}).Put(b[:])
	return b
}()

// AppendReliable appends all of a reliable message but its payload.
func AppendReliable(b []byte, typ string, shard strategy.ShardID, id string, from *activation.Sender, h headers.List) []byte {
	b = AppendAsk(b, typ, shard, id, 0, from, nil, h, flagReliable)
	return append(b, blankStamp[:]...)
}

// cutStamp moves the stamp of a reliable message from the payload to Reliable.
func (q *Request) cutStamp() error {
	if q.Call != 0 || q.Start {
		return ErrMalformed
	}
	if _, err := reliable.ParseStamp(q.Payload); err != nil {
		return ErrMalformed
	}
	q.Reliable, q.Payload = q.Payload[:reliable.StampBytes], q.Payload[reliable.StampBytes:]
	return nil
}

// AppendConfirm appends a confirmation.
func AppendConfirm(b []byte, typ string, c *Confirmation) []byte {
	outcome := c.Outcome
	if c.All {
		outcome |= confirmAll
	}
	b = append(b, byte(KindConfirm))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Shard))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Producer))
	b = binary.BigEndian.AppendUint64(b, c.Seq)
	b = binary.BigEndian.AppendUint32(b, c.Try)
	b = append(b, outcome, byte(c.Code))
	b = wire.AppendString(b, typ)
	return append(b, c.Text...)
}

// ParseConfirm parses a confirmation.
func ParseConfirm(frame []byte) (typ []byte, c Confirmation, err error) {
	if len(frame) < ConfirmHead {
		return nil, c, ErrMalformed
	}
	c = Confirmation{
		Shard:    strategy.ShardID(binary.BigEndian.Uint32(frame[shardAt:])),
		Producer: reliable.Producer(binary.BigEndian.Uint64(frame[5:])),
		Seq:      binary.BigEndian.Uint64(frame[13:]), Try: binary.BigEndian.Uint32(frame[21:]),
		Outcome: frame[25] &^ confirmAll, All: frame[25]&confirmAll != 0, Code: Code(frame[26]),
	}
	typ, text, ok := cutString(frame[ConfirmHead:], NameBytesMax)
	if !ok || len(text) > TextMax || c.Outcome >= outcomes {
		return nil, c, ErrMalformed
	}
	c.Text = string(text)
	return typ, c, nil
}
