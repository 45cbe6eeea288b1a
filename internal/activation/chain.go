package activation

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// Chain lists the entities that wait for the answer to an ask that a handler made: its
// own entity, the entity whose ask that handler is handling, and so on, as hashes of type
// and id, newest last. An ask to one of them would never be answered: an entity handles
// one message at a time, and its current message waits for this ask. A tell begins a new
// chain, since its sender does not wait. A Chain never changes; a caller outside an
// entity has a nil Chain.
type Chain struct{ waits []uint64 }

// ChainMax bounds a Chain: of longer ones the newest entities are kept. A cycle of more
// entities is ended by the deadlines of its asks.
const ChainMax = 16

// EntityHash returns the hash that represents an entity in a Chain.
func EntityHash(typ, id string) uint64 {
	var b [128]byte
	return xxh3.Hash(append(append(append(b[:0], typ...), 0), id...))
}

// Waits reports whether an entity waits for the answer.
func (c *Chain) Waits(typ, id string) bool {
	return c != nil && slices.Contains(c.waits, EntityHash(typ, id))
}

// Asker returns the hash of the entity that asks, 0 if none does.
func (c *Chain) Asker() uint64 {
	if c == nil {
		return 0
	}
	return c.waits[len(c.waits)-1]
}

// Append appends the hashes, 8 bytes each.
func (c *Chain) Append(b []byte) []byte {
	for _, h := range c.waits {
		b = binary.BigEndian.AppendUint64(b, h)
	}
	return b
}

// Len returns the number of entities.
func (c *Chain) Len() int {
	if c == nil {
		return 0
	}
	return len(c.waits)
}

// ParseChain reads what Append wrote, of ChainMax entities at most.
func ParseChain(b []byte) *Chain {
	c := &Chain{waits: make([]uint64, 0, min(len(b)/8, ChainMax))}
	for ; len(b) >= 8 && len(c.waits) < ChainMax; b = b[8:] {
		c.waits = append(c.waits, binary.BigEndian.Uint64(b))
	}
	if len(c.waits) == 0 {
		return nil
	}
	return c
}
