package sharding

import (
	"encoding/binary"

	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/wire"
)

// A reliable message is a tell with flagSure: between the sender and the payload
// stands its stamp. It is answered by
//
//	confirm    kind 1 | shard 4 | producer 8 | seq 8 | try 4 | outcome 1 | code 1 | type | text
//
// The high bit of outcome says that everything before it ran too.

const (
	confirmHead  = 27
	confirmAll   = 0x80
	outcomeGiven = byte(activation.SureGap) + 1
	outcomes     = outcomeGiven + 1
)

// confirmation is what became of a copy of a reliable message.
type confirmation struct {
	shard    ShardID
	producer reliable.Producer
	seq      uint64
	try      uint32
	// outcome is an activation.Outcome, or outcomeGiven: it will never be handled.
	outcome byte
	all     bool
	code    code
	text    string
}

// blankStamp stands in a frame until it leaves.
var blankStamp = func() (b [reliable.StampBytes]byte) {
	(&reliable.Stamp{Producer: 1, Seq: 1, Floor: 1, Try: 1}).Put(b[:])
	return b
}()

// appendSure appends all of a reliable message but its payload.
func appendSure(b []byte, typ string, shard ShardID, id string, from *activation.Sender) []byte {
	b = appendFlagged(b, typ, shard, id, 0, from, flagSure)
	return append(b, blankStamp[:]...)
}

// cutSure takes the stamp of a reliable message off the head of its payload.
func (q *request) cutSure() error {
	if q.call != 0 || q.start {
		return errMalformed
	}
	if _, err := reliable.ParseStamp(q.payload); err != nil {
		return errMalformed
	}
	q.sure, q.payload = q.payload[:reliable.StampBytes], q.payload[reliable.StampBytes:]
	return nil
}

func appendConfirm(b []byte, typ string, c *confirmation) []byte {
	outcome := c.outcome
	if c.all {
		outcome |= confirmAll
	}
	b = append(b, byte(frameConfirm))
	b = binary.BigEndian.AppendUint32(b, uint32(c.shard))
	b = binary.BigEndian.AppendUint64(b, uint64(c.producer))
	b = binary.BigEndian.AppendUint64(b, c.seq)
	b = binary.BigEndian.AppendUint32(b, c.try)
	b = append(b, outcome, byte(c.code))
	b = wire.AppendString(b, typ)
	return append(b, c.text...)
}

func parseConfirm(frame []byte) (typ []byte, c confirmation, err error) {
	if len(frame) < confirmHead {
		return nil, c, errMalformed
	}
	c = confirmation{
		shard:    ShardID(binary.BigEndian.Uint32(frame[shardAt:])),
		producer: reliable.Producer(binary.BigEndian.Uint64(frame[5:])),
		seq:      binary.BigEndian.Uint64(frame[13:]), try: binary.BigEndian.Uint32(frame[21:]),
		outcome: frame[25] &^ confirmAll, all: frame[25]&confirmAll != 0, code: code(frame[26]),
	}
	typ, text, ok := cut(frame[confirmHead:], nameBytesMax)
	if !ok || len(text) > textMax || c.outcome >= outcomes || c.code >= codes {
		return nil, c, errMalformed
	}
	c.text = string(text)
	return typ, c, nil
}
