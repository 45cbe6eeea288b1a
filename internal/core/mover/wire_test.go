package mover

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/peerage-go/peerage/internal/core/chunks"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

func sampleChunks() []Chunk {
	return append(chunksOf(newer, map[string]string{"a": "1", "": "memory", "c": ""}),
		Chunk{Allocation: oldest, Term: 1 << 60, Attempt: 9, Head: chunks.Head{Number: 1 << 40, Total: 1 << 60, Last: true, Sum: 1<<32 - 1}})
}

func sampleAcks() []Ack {
	return []Ack{{Allocation: older, Attempt: 2, Next: 7}, {Allocation: older, Complete: true}, {Allocation: newer, Restart: true}}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, c := range sampleChunks() {
		got, err := DecodeChunk(AppendChunk(nil, c))
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v came as %+v, %v", c, got, err)
		}
	}
	for _, a := range sampleAcks() {
		got, err := DecodeAck(AppendAck(nil, a))
		if err != nil || got != a {
			t.Errorf("%+v came as %+v, %v", a, got, err)
		}
	}
}

// A chunk is encoded into one allocation, whether its states are many or large.
func TestAChunkIsEncodedInOneAllocation(t *testing.T) {
	many := Chunk{Allocation: older, States: make([]State, 300)}
	large := Chunk{Allocation: older, States: []State{{"a", make([]byte, 5000)}, {string(make([]byte, 4000)), nil}}}
	for name, c := range map[string]Chunk{"many": many, "large": large} {
		if n := testing.AllocsPerRun(10, func() { AppendChunk(nil, c) }); n != 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// A frame with a shard that cannot be, or with a sum that is too large, is rejected.
func TestNumbersOutOfRangeAreRejected(t *testing.T) {
	for shard, fits := range map[protocol.ShardID]bool{protocol.ShardsMax - 1: true, protocol.ShardsMax: false} {
		a := older
		a.Shard = shard
		_, err := DecodeChunk(AppendChunk(nil, Chunk{Allocation: a}))
		_, ackErr := DecodeAck(AppendAck(nil, Ack{Allocation: a}))
		if (err == nil) != fits || (ackErr == nil) != fits {
			t.Errorf("shard %v: %v, %v", shard, err, ackErr)
		}
	}
	for sum, fits := range map[uint64]bool{1<<32 - 1: true, 1 << 32: false} {
		b := appendAllocation(nil, older)
		for range 4 {
			b = wire.AppendUvarint(b, 0)
		}
		b = wire.AppendUvarint(wire.AppendUvarint(wire.AppendBool(b, false), sum), 0)
		if c, err := DecodeChunk(b); (err == nil) != fits || fits && c.Sum != chunks.Sum(sum) {
			t.Errorf("sum %d: %+v, %v", sum, c, err)
		}
	}
}

// TestTheWireIsAsItWas: nodes read the frames of all wire versions that they speak. The chunks
// come first.
func TestTheWireIsAsItWas(t *testing.T) {
	var frames [][]byte
	for _, c := range sampleChunks() {
		frames = append(frames, AppendChunk(nil, c))
	}
	acks := map[string]bool{}
	for _, a := range sampleAcks() {
		frames = append(frames, AppendAck(nil, a))
		acks[string(frames[len(frames)-1])] = true
	}
	wiretest.Frozen(t, frames, func(_ uint16, frame []byte) ([]byte, error) {
		if acks[string(frame)] {
			a, err := DecodeAck(frame)
			return AppendAck(nil, a), err
		}
		c, err := DecodeChunk(frame)
		return AppendChunk(nil, c), err
	})
}

// FuzzDecode: whatever arrives is rejected, or encodes as what it decodes to; and a Core that is
// passed it keeps its bounds.
func FuzzDecode(f *testing.F) {
	for _, c := range sampleChunks() {
		f.Add(AppendChunk(nil, c))
	}
	for _, a := range sampleAcks() {
		f.Add(AppendAck(nil, a))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if a, err := DecodeAck(in); err == nil {
			if again, err := DecodeAck(AppendAck(nil, a)); err != nil || again != a {
				t.Fatalf("%+v, then %+v, %v", a, again, err)
			}
		}
		c, err := DecodeChunk(in)
		if err != nil {
			return
		}
		if b := AppendChunk(nil, c); len(b) > len(in) || !bytes.Equal(b, AppendChunk(nil, c)) {
			t.Fatalf("%+v takes %d bytes of %d", c, len(b), len(in))
		}
		to := New(Config{Self: newHome, HeldBytesMax: 1000})
		for range 2 {
			to.OnChunk(begin, oldHome, c)
			if to.checkBytes(t); to.arrivals.bytes > 1000 {
				t.Fatalf("holds %d bytes", to.arrivals.bytes)
			}
		}
	})
}
