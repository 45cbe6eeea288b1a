package replica

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/zeebo/xxh3"
)

// kindBits is how many bits a kind has before the era that shares its number.
const kindBits = 16

// appendRecord appends the file's entry of a key.
func appendRecord(b []byte, it *replication.Item) []byte {
	b = wire.AppendUvarint(wire.AppendUvarint(b, it.Gen), uint64(it.Kind)|uint64(it.Era)<<kindBits)
	return append(b, it.Bytes...)
}

// readRecord reads the file's entry of a key.
func readRecord(key string, b []byte) (it replication.Item, err error) {
	rest, err := unsealed(key, b)
	if err != nil {
		return it, err
	}
	gen, n := binary.Uvarint(rest)
	kind, m := binary.Uvarint(rest[max(n, 0):])
	if n <= 0 || m <= 0 || kind > math.MaxUint8<<kindBits|math.MaxUint16 {
		return it, errors.New("cut short")
	}
	it = replication.Item{Key: key, Gen: gen, Era: uint8(kind >> kindBits), Kind: crdt.Kind(kind & math.MaxUint16)}
	switch rest = rest[n+m:]; {
	case it.Kind != 0:
		it.Bytes = append([]byte{}, rest...)
		_, err = crdt.Decode(it.Kind, it.Bytes)
	case len(rest) > 0:
		err = errors.New("a deleted key with a value")
	}
	return it, err
}

func appendMemory(b []byte, m replication.Memory) []byte {
	for _, v := range []uint64{m.Sweep, m.MinGeneration, m.MaxForgottenStamp, m.Ran} {
		b = wire.AppendUvarint(b, v)
	}
	return b
}

func appendAgreed(b []byte, agreed []replication.AgreedDeletion) []byte {
	b = wire.AppendUvarint(b, uint64(len(agreed)))
	for _, a := range agreed {
		b = wire.AppendUvarint(wire.AppendU64(b, a.Print), a.Sweep)
	}
	return b
}

func readAgreed(r *wire.Reader) []replication.AgreedDeletion {
	out := make([]replication.AgreedDeletion, r.Count("agreed deletions", 9))
	for i := range out {
		out[i] = replication.AgreedDeletion{Print: r.U64(), Sweep: r.Uvarint()}
	}
	return out
}

// sealed returns rest behind a checksum over the key and it.
func sealed(key string, rest []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(rest)), checksum(key, rest)), rest...)
}

func unsealed(key string, b []byte) (rest []byte, err error) {
	if len(b) < 8 || binary.BigEndian.Uint64(b) != checksum(key, b[8:]) {
		return nil, errors.New("wrong checksum")
	}
	return b[8:], nil
}

func checksum(key string, rest []byte) uint64 { return xxh3.HashSeed(rest, xxh3.HashString(key)) }
