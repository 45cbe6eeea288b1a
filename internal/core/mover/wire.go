package mover

import (
	"encoding/binary"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/chunks"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
)

const (
	typeBytesMax = 64
	idBytesMax   = 4096
	// stateWireMin is the least that a state takes on the wire.
	stateWireMin = 2
	// headWireMax is the most that a chunk takes beside its states.
	headWireMax = typeBytesMax + 100
)

// AppendChunk appends an encoded chunk:
//
//	type | shard | token 16 | term | attempt | number | total | last 1 | sum | count | count x (id | data)
func AppendChunk(b []byte, c Chunk) []byte {
	size := headWireMax
	for _, st := range c.States {
		size += len(st.ID) + len(st.Data) + 2*binary.MaxVarintLen32
	}
	b = appendAllocation(slices.Grow(b, size), c.Allocation)
	b = wire.AppendUvarint(b, uint64(c.Term))
	b = wire.AppendUvarint(b, c.Attempt)
	b = wire.AppendUvarint(b, c.Number)
	b = wire.AppendUvarint(b, c.Total)
	b = wire.AppendBool(b, c.Last)
	b = wire.AppendUvarint(b, uint64(c.Sum))
	b = wire.AppendUvarint(b, uint64(len(c.States)))
	for _, st := range c.States {
		b = wire.AppendString(b, st.ID)
		b = wire.AppendBytes(b, st.Data)
	}
	return b
}

// DecodeChunk decodes what AppendChunk encoded. States are copies: nothing aliases frame.
func DecodeChunk(frame []byte) (Chunk, error) {
	r := wire.NewReader(frame)
	c := Chunk{Allocation: readAllocation(r), Term: gossip.Epoch(r.Uvarint()), Attempt: r.Uvarint()}
	c.Head = chunks.Head{Number: r.Uvarint(), Total: r.Uvarint(), Last: r.Bool(), Sum: readSum(r)}
	n := r.Count("states", stateWireMin)
	for i := 0; i < n && r.Err() == nil; i++ {
		c.States = append(c.States, State{ID: r.String("id", idBytesMax), Data: append([]byte{}, r.Bytes("state", len(frame))...)})
	}
	if err := r.Err(); err != nil {
		return Chunk{}, err
	}
	return c, nil
}

// AppendAck appends an encoded acknowledgement:
//
//	type | shard | token 16 | attempt | next | complete 1 | restart 1
func AppendAck(b []byte, a Ack) []byte {
	b = appendAllocation(b, a.Allocation)
	b = wire.AppendUvarint(b, a.Attempt)
	b = wire.AppendUvarint(b, a.Next)
	b = wire.AppendBool(b, a.Complete)
	return wire.AppendBool(b, a.Restart)
}

// DecodeAck decodes what AppendAck encoded.
func DecodeAck(frame []byte) (Ack, error) {
	r := wire.NewReader(frame)
	a := Ack{Allocation: readAllocation(r), Attempt: r.Uvarint(), Next: r.Uvarint(), Complete: r.Bool(), Restart: r.Bool()}
	return a, r.Err()
}

func appendAllocation(b []byte, a Allocation) []byte {
	b = wire.AppendString(b, a.Type)
	b = wire.AppendUvarint(b, uint64(a.Shard))
	return wire.AppendU64(wire.AppendU64(b, uint64(a.Token.Term)), a.Token.Seq)
}

func readAllocation(r *wire.Reader) Allocation {
	a := Allocation{Type: r.String("type", typeBytesMax)}
	shard := r.Uvarint()
	if shard >= protocol.ShardsMax {
		r.Fail(&wire.LimitError{Field: "shard", Declared: shard, Max: protocol.ShardsMax - 1})
	}
	a.Shard = protocol.ShardID(shard)
	a.Token = protocol.Token{Term: gossip.Epoch(r.U64()), Seq: r.U64()}
	return a
}

func readSum(r *wire.Reader) chunks.Sum {
	sum := r.Uvarint()
	if sum > 1<<32-1 {
		r.Fail(&wire.LimitError{Field: "sum", Declared: sum, Max: 1<<32 - 1})
	}
	return chunks.Sum(sum)
}
