package replica

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

var (
	keyBucket = []byte("keys")
	ageBucket = []byte("ages") // made when there is something to put in
)

// record is the file's entry of a key: its state, and the times since when the file has had
// the deletions under it. For a deleted key, the time replaces the value. For entries of a
// map, the times are in a bucket of their own.
type record struct {
	replication.Item
	ended []replication.DeletionRecord
}

// putRecord stores a record, or takes out what there is of it.
func (r *record) putRecord(tx *bbolt.Tx) error {
	key := []byte(r.Key)
	it := r.Item
	if it.Kind == 0 && len(r.ended) > 0 {
		it.Bytes = appendAge(nil, r.ended[0])
	}
	if err := tx.Bucket(keyBucket).Put(key, sealed(r.Key, append(wire.AppendUvarint(binary.AppendUvarint(nil, it.Gen), uint64(it.Kind)|uint64(it.Era)<<kindBits), it.Bytes...))); err != nil {
		return err
	}
	if it.Kind == 0 || len(r.ended) == 0 {
		return dropAges(tx, key)
	}
	b, err := tx.CreateBucketIfNotExists(ageBucket)
	if err != nil {
		return err
	}
	return b.Put(key, sealed(r.Key, appendAges(nil, r.ended)))
}

// kindBits is how many bits a kind has before the era that shares its number.
const kindBits = 16

func dropAges(tx *bbolt.Tx, key []byte) error {
	if b := tx.Bucket(ageBucket); b != nil {
		return b.Delete(key)
	}
	return nil
}

// readRecord reads what the file has of a key, ages being nil if there are none.
func readRecord(key string, b, ages []byte) (rec record, err error) {
	rest, err := unsealed(key, b)
	if err != nil {
		return rec, err
	}
	gen, n := binary.Uvarint(rest)
	kind, m := binary.Uvarint(rest[max(n, 0):])
	if n <= 0 || m <= 0 || kind > math.MaxUint8<<kindBits|math.MaxUint16 {
		return rec, errors.New("cut short")
	}
	rec.Item = replication.Item{Key: key, Gen: gen, Era: uint8(kind >> kindBits), Kind: crdt.Kind(kind & math.MaxUint16)}
	rest = rest[n+m:]
	switch {
	case rec.Kind != 0:
		rec.Bytes = append([]byte{}, rest...)
		_, err = crdt.Decode(rec.Kind, rec.Bytes)
	case len(rest) > 0:
		r := wire.NewReader(rest)
		rec.ended = []replication.DeletionRecord{readAge(r, key)}
		err = r.Done()
	}
	if err == nil && ages != nil {
		rec.ended, err = readAges(key, ages)
	}
	return rec, err
}

func appendAges(b []byte, ended []replication.DeletionRecord) []byte {
	b = wire.AppendUvarint(b, uint64(len(ended)))
	for _, e := range ended {
		b = appendAge(wire.AppendString(b, e.Entry), e)
	}
	return b
}

func readAges(key string, b []byte) ([]replication.DeletionRecord, error) {
	rest, err := unsealed(key, b)
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(rest)
	out := make([]replication.DeletionRecord, r.Count("ends", 3))
	for i := range out {
		entry := r.String("entry", len(rest))
		out[i] = readAge(r, key)
		out[i].Entry, out[i].Inside = entry, true
	}
	return out, r.Done()
}

func appendAge(b []byte, e replication.DeletionRecord) []byte {
	return wire.AppendUvarint(wire.AppendUvarint(b, e.Since), e.Lived)
}

func readAge(r *wire.Reader, key string) replication.DeletionRecord {
	return replication.DeletionRecord{Key: key, Since: r.Uvarint(), Lived: r.Uvarint()}
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
