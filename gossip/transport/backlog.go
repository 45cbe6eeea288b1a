package transport

import "sync"

// blockBytes is how much goes into one write call: large enough that the call's cost
// does not show, small enough that a block is still in the processor's cache when it
// is written, and that room in a full queue shows early.
const blockBytes = 64 << 10

// block is a run of whole frames that goes out in one write: at most blockBytes, or
// one frame that is larger.
type block struct {
	bytes  []byte
	frames int
	next   *block
}

// backlog is the frames that wait for the owner of a link, in the order in which they
// came. It is a list of blocks and not one buffer, since a buffer that grows to some
// megabytes is copied on its way there (measured, 64 senders: half of all the
// processor time of a frame, most of it under the lock).
//
// Most links are quiet, so the first block grows with what comes. The others have full
// size and come from a pool that all links share; a link at rest keeps one block.
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
func (q *backlog) add(h *header, payload []byte) {
	n := frameHeaderBytes + len(payload)
	b := q.last
	if b == nil || len(b.bytes)+n > blockBytes {
		b = q.extend(n)
	}
	if cap(b.bytes)-len(b.bytes) < n {
		b.grow(n)
	}
	b.bytes = append(append(b.bytes, h[:]...), payload...)
	b.frames++
	q.bytes += n
	q.frames++
}

// extend appends an empty block for a frame of n bytes.
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

// empty returns an empty block for a frame of n bytes.
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

// recycle keeps the memory of a block that nobody uses any more.
func (q *backlog) recycle(b *block) {
	b.bytes, b.frames = b.bytes[:0], 0
	switch {
	case cap(b.bytes) > blockBytes: // of a large frame
	case q.spare == nil:
		q.spare = b
	case cap(b.bytes) == blockBytes:
		q.pool.Put(b)
	}
}

// clear drops what waits.
func (q *backlog) clear() {
	for q.first != nil {
		q.recycle(q.take())
	}
}
