package transport

import (
	"encoding/binary"
	"sync"
)

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

// add appends a frame.
func (q *backlog) add(k Kind, payload []byte) {
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
		b.grow(n)
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
	b := q.empty(n)
	if q.last == nil {
		q.first = b
	} else {
		q.last.next = b
	}
	q.last = b
	return b
}

// empty returns an empty block that will begin with n bytes.
func (q *backlog) empty(n int) *block {
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

// grow makes room for n bytes more, to at most blockBytes if that is enough.
func (b *block) grow(n int) {
	least := len(b.bytes) + n
	bytes := make([]byte, len(b.bytes), max(least, min(2*least, blockBytes)))
	copy(bytes, b.bytes)
	b.bytes = bytes
}

// take removes the oldest block; there must be one.
func (q *backlog) take() *block {
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

// clear drops the waiting frames.
func (q *backlog) clear() {
	for q.first != nil {
		q.recycle(q.take())
	}
}
