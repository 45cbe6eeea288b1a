package transport

import (
	"bytes"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// feed gives b the stream in pieces as large as its space or the next of sizes,
// and returns the frames that came out.
func feed(t interface{ Fatalf(string, ...any) }, b *frameBuffer, stream []byte, sizes func() int) (kinds []Kind, payloads [][]byte, err error) {
	err = feedEach(t, b, stream, sizes, func(k Kind, size int) {
		kinds = append(kinds, k)
		payloads = append(payloads, append([]byte(nil), b.cut(size)...))
	})
	return kinds, payloads, err
}

// feedEach is feed with a function that must cut each frame.
func feedEach(t interface{ Fatalf(string, ...any) }, b *frameBuffer, stream []byte, sizes func() int, cut func(k Kind, size int)) error {
	received, before := 0, len(b.buf)
	for len(stream) > 0 {
		space := b.space()
		if len(space) == 0 {
			t.Fatalf("no space")
		}
		n := copy(space, stream[:min(len(stream), max(1, sizes()))])
		stream = stream[n:]
		received += n
		b.received(n)
		for {
			k, size, err := b.peek()
			if err != nil {
				return err
			}
			if size == 0 {
				break
			}
			cut(k, size)
		}
		if len(b.buf) > max(readBytesMax, 2*received, before) {
			t.Fatalf("%d bytes of memory for %d received", len(b.buf), received)
		}
	}
	return nil
}

func TestFramesSurviveAnyCutting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want [][]byte
		q := backlog{}
		if rapid.Bool().Draw(t, "batches") {
			q.pool = new(sync.Pool)
		}
		for i := range rapid.IntRange(0, 30).Draw(t, "frames") {
			n := rapid.SampledFrom([]int{0, 1, 100, 4091, 4092, 70000, 200000}).Draw(t, "bytes")
			p := bytes.Repeat([]byte{byte(i)}, n)
			want = append(want, p)
			if q.pool != nil {
				q.addFrame(Kind(i%3+1), p)
			} else {
				stream = appendFrame(stream, Kind(i%3+1), p)
			}
		}
		for q.first != nil {
			b := q.takeBlock()
			b.seal()
			stream = append(stream, b.bytes...)
		}
		kinds, got, err := feed(t, newFrameBuffer(1<<20), stream, func() int {
			return rapid.SampledFrom([]int{1, 3, 1000, 5000, 1 << 20}).Draw(t, "piece")
		})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d frames of %d, %v", len(got), len(want), err)
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) || kinds[i] != Kind(i%3+1) {
				t.Fatalf("frame %d of %d bytes came as %d bytes of kind %d", i, len(want[i]), len(got[i]), kinds[i])
			}
		}
	})
}

func TestADeclaredLengthAllocatesNothing(t *testing.T) {
	b := newFrameBuffer(8 << 20)
	stream := announced(1, 0x7fffff) // 8 MiB are announced, and never come
	if _, _, err := feed(t, b, stream, func() int { return 1 }); err != nil || len(b.buf) != readBytesMin {
		t.Errorf("%d bytes of memory, %v", len(b.buf), err)
	}
}

func TestALargeBufferShrinksWhenUnused(t *testing.T) {
	b := newFrameBuffer(8 << 20)
	big := appendFrame(nil, 1, make([]byte, 1<<20))
	all := func() int { return 1 << 30 }
	if _, p, err := feed(t, b, big, all); err != nil || len(p) != 1 {
		t.Fatal(err)
	}
	if len(b.buf) < 1<<20 {
		t.Fatalf("%d bytes of memory", len(b.buf))
	}
	for range 20 {
		if _, _, err := feed(t, b, appendFrame(nil, 1, []byte("small")), all); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.buf) > readBytesMax {
		t.Errorf("%d bytes of memory after small frames", len(b.buf))
	}
	for range 7 * (quietReads + 2) {
		if _, _, err := feed(t, b, appendFrame(nil, 1, []byte("small")), all); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.buf) > readBytesMin {
		t.Errorf("%d bytes of memory after many small frames", len(b.buf))
	}
}

// FuzzFrames encodes the frames again in the forms in which they arrived: the result must
// be the stream, up to the bytes that wait or are invalid.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 1, []byte("one")), 2, nil), 3)
	f.Add(announced(1, 0xffffffff), 1)
	f.Add(append(batchOf("one", "two", ""), appendFrame(batchOf("three"), 2, []byte("four"))...), 7)
	mixed := append(inBatch(3, 1, "one"), inBatch(0, 2, "")...)
	f.Add(append(frameOf(0, batchSlot, string(mixed)), frameOf(3, 1|firstPiece, "four bytes and more")...), 5)
	f.Add(frameOf(0, batchSlot, string(mixed)+"no frame"), 1<<10)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		b := newFrameBuffer(1 << 16)
		var again, inside []byte // inside holds the frames of an unfinished batch
		err := feedEach(t, b, stream, func() int { return piece }, func(k Kind, size int) {
			slot, batched := b.slot(), b.batched
			payload := string(b.cut(size))
			if !batched {
				again = append(again, frameOf(k, slot, payload)...)
				return
			}
			inside = append(inside, inBatch(uint32(len(payload)), k, payload)...)
			if !b.batched {
				again, inside = append(again, frameOf(0, batchSlot, string(inside))...), nil
			}
		})
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("%x became %x", stream, again)
		}
		rest := stream[len(again):]
		if len(inside) > 0 && (err == nil || !bytes.HasPrefix(rest[frameHeaderBytes:], inside)) {
			t.Fatalf("%x became %x, %v", rest, inside, err)
		}
		if err == nil && len(rest) > frameHeaderBytes+batchBytes+1<<16 {
			t.Fatalf("%d bytes wait", len(rest))
		}
	})
}

// announced returns a header, and nothing behind it.
func announced(k Kind, n uint32) []byte {
	h := announce(k, 0, n)
	return h[:]
}
