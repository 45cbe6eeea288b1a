package transport

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/zeebo/xxh3"
)

// pieceBytes is the size of one piece; a larger frame is sent in several.
const pieceBytes = 32 << 10

// lanes holds the part of a link's queue that waits beside its backlog: large frames, and
// frames that must not overtake them.
//
// Small frames of all flows go into the backlog in order. A frame above pieceBytes opens
// a lane for its flow; while it waits there or is in flight, all later frames of the flow
// follow it into the lane, and those of other flows continue through the backlog. The
// writer alternates between a block of the backlog and a piece of a lane, the lanes in
// turn: a small frame waits for one piece at most, and large ones share the remaining
// bandwidth.
//
// Order. Within a lane frames keep theirs. A lane begins when all of the backlog that was
// queued before it has been taken, so a large frame does not overtake small ones of its
// flow; and it closes when its last frame was taken, so later frames in the backlog are
// behind it. A frame of flow zero that finds lanes waits in a lane until all frames that
// were in lanes and backlog on its arrival have been taken. There is one connection, and
// the receiver hands out a frame when its last byte has arrived: the order of last pieces
// on the wire is the order of handling.
//
// Invariant: bytes and frames are the sums over the lanes; no lane is empty; busy has
// those of order by their flows; at most piecesMax lanes have a slot.
type lanes struct {
	order []*flowLane
	busy  map[Flow]*flowLane
	next  int // in order: whose turn it is
	slots [piecesMax]bool

	bytes, frames int
	// turn: the last block was of the backlog.
	turn bool
	// queued and taken count the frames that went into the backlog and out of it.
	queued, taken uint64
	// piece is the block of the piece that is being written.
	piece block
}

type flowLane struct {
	flow   Flow
	frames []waiting
	// slot, if not 0, identifies the first frame on the wire; sent is how much of it was
	// sent.
	slot byte
	sent int
	// put and done count the frames added and removed.
	put, done uint64
}

// waiting is a frame in a lane. It must wait until the backlog has been taken up to
// after, and each lane in behind up to its count.
type waiting struct {
	kind    Kind
	payload []byte
	after   uint64
	behind  []laneMark
}

type laneMark struct {
	lane *flowLane
	upTo uint64
}

// addFrame appends a frame; the lane keeps the payload.
func (q *lanes) addFrame(f Flow, k Kind, payload []byte) {
	w := waiting{kind: k, payload: payload}
	l := q.busy[f]
	if l == nil || f == 0 {
		w.after = q.queued
	}
	if f == 0 {
		for _, other := range q.order {
			if other != l {
				w.behind = append(w.behind, laneMark{other, other.put})
			}
		}
	}
	if l == nil {
		l = &flowLane{flow: f}
		if q.busy == nil {
			q.busy = make(map[Flow]*flowLane)
		}
		q.busy[f] = l
		q.order = append(q.order, l)
	}
	l.frames = append(l.frames, w)
	l.put++
	q.frames++
	q.bytes += frameHeaderBytes + len(payload)
}

// ready returns the lane that sends next, or nil if none may send now.
func (q *lanes) ready() *flowLane {
	for i := range q.order {
		at := (q.next + i) % len(q.order)
		if l := q.order[at]; q.may(l) {
			q.next = at
			return l
		}
	}
	return nil
}

// may reports whether the first frame of l may go now.
func (q *lanes) may(l *flowLane) bool {
	if l.slot != 0 {
		return true
	}
	w := &l.frames[0]
	if w.after > q.taken || len(w.payload) > pieceBytes && q.slot() == 0 {
		return false
	}
	for _, m := range w.behind {
		if m.lane.done < m.upTo {
			return false
		}
	}
	return true
}

// slot returns a free slot, or 0.
func (q *lanes) slot() byte {
	for i, taken := range q.slots {
		if !taken {
			return byte(i + 1)
		}
	}
	return 0
}

// takeBlock returns the next block of a lane: a piece, or small frames up to the size of one.
func (q *lanes) takeBlock(l *flowLane) *block {
	b := &q.piece
	b.bytes, b.frames, b.sealed = b.bytes[:0], 0, true
	if w := &l.frames[0]; l.slot != 0 || len(w.payload) > pieceBytes {
		q.appendPiece(b, l, w)
	} else {
		for first := true; first || q.fitsBlock(b, l); first = false {
			w := &l.frames[0]
			b.bytes = appendFrame(b.bytes, w.kind, w.payload)
			q.bytes -= frameHeaderBytes + len(w.payload)
			q.shift(b, l)
		}
	}
	if len(l.frames) == 0 {
		delete(q.busy, l.flow)
		q.order = append(q.order[:q.next], q.order[q.next+1:]...)
	} else {
		q.next++
	}
	if len(q.order) > 0 {
		q.next %= len(q.order)
	}
	return b
}

// fitsBlock reports whether the first frame of l may go in the same block as those before it.
func (q *lanes) fitsBlock(b *block, l *flowLane) bool {
	return len(l.frames) > 0 && len(b.bytes)+frameHeaderBytes+len(l.frames[0].payload) <= pieceBytes && q.may(l)
}

// appendPiece appends the next piece of l's first frame.
func (q *lanes) appendPiece(b *block, l *flowLane, w *waiting) {
	mark := byte(0)
	if l.slot == 0 {
		l.slot = q.slot()
		q.slots[l.slot-1] = true
		mark = firstPiece
		b.bytes = binary.BigEndian.AppendUint32(append(b.bytes, make([]byte, frameHeaderBytes)...), uint32(len(w.payload)))
		q.bytes -= frameHeaderBytes
	} else {
		b.bytes = append(b.bytes, make([]byte, frameHeaderBytes)...)
	}
	n := min(pieceBytes, len(w.payload)-l.sent)
	b.bytes = append(b.bytes, w.payload[l.sent:l.sent+n]...)
	h := makePieceHeader(w.kind, l.slot|mark, b.bytes[frameHeaderBytes:])
	copy(b.bytes, h[:])
	l.sent += n
	q.bytes -= n
	if l.sent == len(w.payload) {
		q.slots[l.slot-1] = false
		l.slot, l.sent = 0, 0
		q.shift(b, l)
	}
}

// shift takes the first frame of l out; its last byte is in b.
func (q *lanes) shift(b *block, l *flowLane) {
	l.frames[0] = waiting{}
	l.frames = l.frames[1:]
	l.done++
	q.frames--
	b.frames++
}

// dropAll drops the waiting frames. The piece may still be in a write.
func (q *lanes) dropAll() {
	q.order, q.busy, q.next, q.slots, q.turn = nil, nil, 0, [piecesMax]bool{}, false
	q.bytes, q.frames, q.queued, q.taken = 0, 0, 0, 0
}

// blockBytes is the size of one write call: large enough to make the call's cost
// negligible, small enough that a block is still in the processor's cache when it is
// written, and that a full queue frees room early.
const blockBytes = 64 << 10

// batchBytes is the size of one batch: small enough to be still in the cache of the
// sender that completes it. (A checksum over a whole block, taken by the writer, costs 27
// ns for each message of 100 bytes, since the memory is no longer in a near cache.)
const batchBytes = 4 << 10

// block is a sequence of whole frames sent in one write: at most blockBytes, or one
// larger frame. In a backlog it consists of batches.
type block struct {
	bytes  []byte
	frames int
	// open is the offset of its last batch's header, 0 before the first batch. sealed is set
	// if that header is complete, or if the block has no batches.
	open   int
	sealed bool
	next   *block
	// home is the list to which its memory returns, nil for a block of another kind.
	home *backlog
}

// beginBatch begins a batch at the end of b.
func (b *block) beginBatch() {
	b.seal()
	b.open, b.sealed = len(b.bytes), false
	b.bytes = b.bytes[:b.open+frameHeaderBytes]
}

// seal completes the header of the last batch.
func (b *block) seal() {
	if b.sealed || len(b.bytes) == 0 {
		return
	}
	b.sealed = true
	h := makePieceHeader(0, batchSlot, b.bytes[b.open+frameHeaderBytes:])
	copy(b.bytes[b.open:], h[:])
}

// eachFrame calls do for each frame of a block of batches.
func (b *block) eachFrame(do func(Kind, []byte)) {
	for at := 0; at < len(b.bytes); {
		end := len(b.bytes)
		if b.sealed || at != b.open {
			end = at + frameHeaderBytes + int(binary.BigEndian.Uint32(b.bytes[at:]))
		}
		for at += frameHeaderBytes; at < end; {
			first := at + batchHeaderBytes
			k := Kind(b.bytes[at+frameKindAt])
			at = first + int(binary.BigEndian.Uint32(b.bytes[at:]))
			do(k, b.bytes[first:at])
		}
	}
}

// backlog holds the frames that wait for the owner of a link, in order of arrival. It is
// a list of blocks and not one buffer, since a buffer that grows to some megabytes is
// copied repeatedly (measured, 64 senders: half of all the processor time of a frame,
// most of it under the lock).
//
// Most links are quiet, so the first block grows on demand. Further blocks have full size
// and come from a pool that all links share; an idle link keeps one block.
//
// Invariant: bytes and frames are the sums over the list; no block in it is empty.
type backlog struct {
	first, last   *block
	bytes, frames int
	// spare is empty, and cap(spare.bytes) <= blockBytes; nil if there is none.
	spare *block
	// pool holds empty blocks with cap(bytes) == blockBytes.
	pool *sync.Pool
}

// addFrame appends a frame.
func (q *backlog) addFrame(k Kind, payload []byte) {
	n := batchHeaderBytes + len(payload)
	b := q.last
	within := b != nil && len(b.bytes)-b.open+n <= batchBytes && len(b.bytes)+n <= blockBytes
	if !within {
		n += frameHeaderBytes
	}
	if b == nil || len(b.bytes)+n > blockBytes {
		if b != nil {
			b.seal()
		}
		b = q.extend(n)
	}
	if cap(b.bytes)-len(b.bytes) < n {
		b.growBy(n)
	}
	if !within {
		b.beginBatch()
	}
	b.bytes = append(binary.BigEndian.AppendUint32(b.bytes, uint32(len(payload))), byte(k))
	b.bytes = append(b.bytes, payload...)
	b.frames++
	q.bytes += n
	q.frames++
}

// extend appends an empty block that will begin with n bytes.
func (q *backlog) extend(n int) *block {
	b := q.emptyBlock(n)
	b.home = q
	if q.last == nil {
		q.first = b
	} else {
		q.last.next = b
	}
	q.last = b
	return b
}

// emptyBlock returns an empty block that will begin with n bytes.
func (q *backlog) emptyBlock(n int) *block {
	if n > blockBytes {
		return new(block)
	}
	if b := q.spare; b != nil {
		q.spare = nil
		return b
	}
	if q.first == nil {
		return new(block)
	}
	if b, ok := q.pool.Get().(*block); ok {
		return b
	}
	return &block{bytes: make([]byte, 0, blockBytes)}
}

// growBy makes room for n bytes more, to at most blockBytes if that is enough.
func (b *block) growBy(n int) {
	least := len(b.bytes) + n
	bytes := make([]byte, len(b.bytes), max(least, min(2*least, blockBytes)))
	copy(bytes, b.bytes)
	b.bytes = bytes
}

// takeBlock removes the oldest block; there must be one.
func (q *backlog) takeBlock() *block {
	b := q.first
	q.first, b.next = b.next, nil
	if q.first == nil {
		q.last = nil
	}
	q.bytes -= len(b.bytes)
	q.frames -= b.frames
	return b
}

// recycle keeps the memory of an unused block.
func (q *backlog) recycle(b *block) {
	b.bytes, b.frames, b.open, b.sealed = b.bytes[:0], 0, 0, false
	switch {
	case cap(b.bytes) > blockBytes: // of a large frame
	case q.spare == nil:
		q.spare = b
	case cap(b.bytes) == blockBytes:
		q.pool.Put(b)
	}
}

// dropAll drops the waiting frames.
func (q *backlog) dropAll() {
	for q.first != nil {
		q.recycle(q.takeBlock())
	}
}

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

// errMalformed: an impossible header or batch.
var errMalformed = errors.New("transport: malformed frame")

// piecesMax is how many frames may be in flight in pieces on one connection.
const piecesMax = 4
