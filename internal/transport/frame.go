package transport

import (
	"encoding/binary"
	"errors"

	"github.com/zeebo/xxh3"
)

// A frame on the wire, all numbers big-endian:
//
//	length 4 | kind 1 | slot 1 | head 2 | sum 4 | payload
//
// slot is 0 for a whole frame. A frame above pieceBytes is sent in pieces, each with a
// header: slot, 1 to piecesMax, identifies the frame in flight to which a piece belongs,
// and firstPiece is set in that of the first, whose payload begins with the length of the
// frame (4 bytes).
//
// Frames that are written together share one header, of kind 0 in slot batchSlot, and one
// checksum: its payload is a batch of at most batchBytes, or of one larger frame,
//
//	length 4 | kind 1 | payload
//
// head is the checksum of the bytes before it, sum that of the payload. Both are taken
// because TCP's own is weak: it misses one in 65,536 corruptions, and middle boxes that
// rewrite packets recompute it. The head has its own checksum, so that a wrong length is
// detected before the reader waits for that many bytes. The sum is half of an xxh3: 8 ns
// at 100 bytes, where the processor's CRC-32C takes 16; for each frame of a batch, a
// third of that.
const (
	frameKindAt = 4
	frameSlotAt = 5
	frameHeadAt = 6
	frameSumAt  = 8
)

// firstPiece marks the slot of a frame's first piece.
const firstPiece byte = 0x80

// batchSlot is the slot of a batch.
const batchSlot byte = 0x40

// batchHeaderBytes stand before each frame in a batch.
const batchHeaderBytes = 5

// frameBytesAround bounds the overhead of a frame in a queue.
const frameBytesAround = frameHeaderBytes + batchHeaderBytes

// errCorrupt: the received frame differs from the one sent.
var errCorrupt = errors.New("transport: corrupt frame: its checksum does not fit")

// header is the start of a frame.
type header [frameHeaderBytes]byte

// makeHeader returns the header of a frame.
func makeHeader(k Kind, payload []byte) header {
	return makePieceHeader(k, 0, payload)
}

// makePieceHeader returns the header of a piece, or of a whole frame in slot 0.
func makePieceHeader(k Kind, slot byte, payload []byte) header {
	h := announce(k, slot, uint32(len(payload)))
	binary.BigEndian.PutUint32(h[frameSumAt:], sumOf(payload))
	return h
}

// announce returns the header of a frame, without the payload's checksum.
func announce(k Kind, slot byte, n uint32) (h header) {
	binary.BigEndian.PutUint32(h[:], n)
	h[frameKindAt], h[frameSlotAt] = byte(k), slot
	binary.BigEndian.PutUint16(h[frameHeadAt:], headSum(h[:]))
	return h
}

// parseHeader returns the kind and the length of the payload; the kind is 0 for a batch.
func parseHeader(b []byte) (k Kind, n int, err error) {
	if binary.BigEndian.Uint16(b[frameHeadAt:]) != headSum(b) {
		return 0, 0, errCorrupt
	}
	slot := b[frameSlotAt]
	if (b[frameKindAt] == 0) != (slot == batchSlot) || slot != batchSlot && slot&^firstPiece > piecesMax || slot == firstPiece {
		return 0, 0, errMalformed
	}
	return Kind(b[frameKindAt]), int(binary.BigEndian.Uint32(b)), nil
}

// sumFits reports whether the payload is the one that the header was made for.
func sumFits(head, payload []byte) bool {
	return binary.BigEndian.Uint32(head[frameSumAt:]) == sumOf(payload)
}

func sumOf(payload []byte) uint32 { return uint32(xxh3.Hash(payload)) }

// headSum returns the checksum of the bytes before head: the upper bits of a product, to
// which every one of them contributes.
func headSum(b []byte) uint16 {
	return uint16(binary.BigEndian.Uint64(b) >> 16 * 0x9e3779b97f4a7c15 >> 48)
}

// appendFrame appends a frame.
func appendFrame(b []byte, k Kind, payload []byte) []byte {
	h := makeHeader(k, payload)
	return append(append(b, h[:]...), payload...)
}
