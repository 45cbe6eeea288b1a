package transport

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// A backlog hands out all frames in the order in which they were added, under any
// interleaving of senders and owner, and its invariants hold after each step.
func TestABacklogKeepsOrderAndSums(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			q := backlog{pool: new(sync.Pool)}
			var in, out []byte
			frames, taken := 0, 0
			for range 500 {
				if r.IntN(4) > 0 || q.first == nil {
					size := r.IntN(300)
					switch r.IntN(40) {
					case 0:
						size = blockBytes - r.IntN(2*frameHeaderBytes) // about as large as a block
					case 1:
						size = r.IntN(3 * blockBytes)
					}
					payload := bytes.Repeat([]byte{byte(r.Uint32())}, size)
					q.addFrame(KindEntity, payload)
					in = appendFrame(in, KindEntity, payload)
					frames++
				} else {
					b := q.takeBlock()
					out = appendUnbatched(t, out, b)
					taken += b.frames
					q.recycle(b)
				}
				q.check(t)
			}
			for q.first != nil {
				b := q.takeBlock()
				out = appendUnbatched(t, out, b)
				taken += b.frames
				q.recycle(b)
			}
			q.check(t)
			if !bytes.Equal(in, out) || frames != taken {
				t.Errorf("%d frames, %d bytes in; %d frames, %d bytes out, or others", frames, len(in), taken, len(out))
			}
		})
	}
}

// appendUnbatched appends the frames of a block, each with a header of its own.
func appendUnbatched(t *testing.T, out []byte, b *block) []byte {
	t.Helper()
	b.seal()
	kinds, payloads, err := feed(t, newFrameBuffer(3*blockBytes), b.bytes, func() int { return len(b.bytes) })
	if err != nil || len(kinds) != b.frames {
		t.Fatalf("%d frames of %d came out of a block: %v", len(kinds), b.frames, err)
	}
	for i := range kinds {
		out = appendFrame(out, kinds[i], payloads[i])
	}
	return out
}

// check fails the test if an invariant does not hold.
func (q *backlog) check(t *testing.T) {
	t.Helper()
	size, frames := 0, 0
	var last *block
	for b := q.first; b != nil; b = b.next {
		if b.frames == 0 || len(b.bytes) > blockBytes && b.frames > 1 {
			t.Fatalf("a block of %d frames, %d bytes", b.frames, len(b.bytes))
		}
		size, frames, last = size+len(b.bytes), frames+b.frames, b
	}
	if size != q.bytes || frames != q.frames || last != q.last {
		t.Fatalf("%d bytes in %d frames wait, %d in %d are counted", size, frames, q.bytes, q.frames)
	}
	if q.spare != nil && (len(q.spare.bytes) > 0 || cap(q.spare.bytes) > blockBytes) {
		t.Fatalf("the spare block holds %d of %d bytes", len(q.spare.bytes), cap(q.spare.bytes))
	}
}

// The bytes of a full block are not moved when further frames are added.
func TestQueuedBytesAreNotCopiedAgain(t *testing.T) {
	q := backlog{pool: new(sync.Pool)}
	payload := make([]byte, 100)
	for q.bytes < 8*blockBytes {
		q.addFrame(KindEntity, payload)
	}
	var at []*byte
	for b := q.first; b != q.last; b = b.next {
		if len(b.bytes) < blockBytes-frameHeaderBytes-len(payload) {
			t.Errorf("a block of %d bytes is followed by another", len(b.bytes))
		}
		at = append(at, &b.bytes[0])
	}
	for q.bytes < 64*blockBytes {
		q.addFrame(KindEntity, payload)
	}
	b := q.first
	for i, was := range at {
		if &b.bytes[0] != was {
			t.Errorf("block %d was moved", i)
		}
		b = b.next
	}
}

// After a burst a link keeps one block, a quiet link keeps its small one, and the memory of
// a large frame is freed.
func TestALinkAtRestKeepsLittle(t *testing.T) {
	for _, c := range []struct{ size, frames, most int }{
		{100, 10_000, blockBytes}, {100, 1, 1 << 10}, {4 * blockBytes, 3, 0},
	} {
		q := backlog{pool: new(sync.Pool)}
		for range c.frames {
			q.addFrame(KindEntity, make([]byte, c.size))
		}
		for q.first != nil {
			q.recycle(q.takeBlock())
		}
		kept := 0
		if q.spare != nil {
			kept = cap(q.spare.bytes)
		}
		if kept > c.most {
			t.Errorf("after %d frames of %d bytes %d are kept, at most %d are due", c.frames, c.size, kept, c.most)
		}
	}
}
