package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// Bits flip on the way, under a TCP checksum that agrees: no handler receives a changed
// frame, the connection ends, and the next one works.
func TestAttackFlippedBitsReachNoHandler(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		var wrong []string
		last := -1
		numbered := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i%900)) }
		b.onFrame = func(_ gossip.NodeID, p []byte) {
			var i int
			if _, err := fmt.Sscanf(string(p), "%d ", &i); err != nil || !bytes.Equal(p, numbered(i)) || i <= last {
				b.note(func() { wrong = append(wrong, string(p)) })
			}
			b.note(func() { last = i })
		}
		w.net.SetUsual(Path{Corruption: 0.02})
		a.Learn(b.Self())
		for i := range 3000 {
			if a.Send(2, Message, KindView, numbered(i)) != nil || i%10 == 0 {
				w.pass(time.Millisecond)
			}
		}
		w.net.SetUsual(Path{})
		try := 2999 // each try with a number of its own: more than one of them may arrive
		w.poll("frames arrive", func() bool {
			try++
			return a.Send(2, Message, KindView, numbered(try)) == nil && b.within(10*time.Millisecond, func() bool { return last == try })
		})
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(wrong) > 0 {
			w.Errorf("%d of %d frames that were handed out were not sent so: %.60q, ...", len(wrong), len(b.frames), wrong[0])
		}
		if n := b.Counters().CorruptFrames.Load(); n == 0 {
			w.Error("no corrupt frame was counted")
		}
		if len(b.frames) < 1000 {
			w.Errorf("%d of 3000 frames came", len(b.frames))
		}
	})
}

// Every flipped bit of a frame or a batch, of its header too, is found before a frame is
// handed out; and one in the header before the declared length has arrived.
func TestEveryFlippedBitOfAFrameIsFound(t *testing.T) {
	for _, sent := range [][]byte{appendFrame(nil, KindView, []byte("some payload")), batchOf("some payload", "another", "")} {
		for bit := range len(sent) * 8 {
			stream := append(append([]byte(nil), sent...), sent...)
			stream[bit/8] ^= 1 << (bit % 8)
			b := newFrameBuffer(1 << 20)
			b.received(copy(b.space(), stream))
			if k, size, err := b.peek(); err == nil {
				t.Errorf("bit %d: kind %d of %d bytes", bit, k, size)
			}
		}
	}
}

// batchOf returns a batch of frames.
func batchOf(payloads ...string) []byte {
	q := backlog{pool: new(sync.Pool)}
	for _, p := range payloads {
		q.addFrame(KindView, []byte(p))
	}
	b := q.takeBlock()
	b.seal()
	return b.bytes
}

// A batch with a valid checksum but without whole, permitted frames is an error, which ends
// the connection: no node of this version sends one.
func TestAttackABatchThatIsNone(t *testing.T) {
	batch := func(inside []byte) []byte { return frameOf(0, batchSlot, string(inside)) }
	large := announce(0, batchSlot, 1<<20+batchBytes+1)
	for name, c := range map[string]struct {
		bytes    []byte
		oversize bool
	}{
		"empty":                {batch(nil), false},
		"half a header":        {batch([]byte{0, 0, 0}), false},
		"no kind":              {batch(inBatch(1, 0, "x")), false},
		"a frame beyond it":    {append(batch(inBatch(2, 1, "x")), "x"...), false},
		"a batch in it":        {batch(batchOf("x", "y")), false},
		"a frame too large":    {batch(inBatch(1<<20+1, 1, "x")), true},
		"too large":            {large[:], true},
		"of a kind":            {frameOf(1, batchSlot, "xxxxxx"), false},
		"kind 0, but no batch": {frameOf(0, 1, "xxxxxx"), false},
	} {
		b := newFrameBuffer(1 << 20)
		b.received(copy(b.space(), c.bytes))
		_, size, err := b.peek()
		if _, oversize := err.(*oversizeError); err == nil || oversize != c.oversize {
			t.Errorf("%s: %d bytes, %v", name, size, err)
		}
	}
}

// frameOf returns a frame, a piece or a batch.
func frameOf(k Kind, slot byte, payload string) []byte {
	h := makePieceHeader(k, slot, []byte(payload))
	return append(h[:], payload...)
}

// inBatch returns a frame as it stands in a batch, with n as its length.
func inBatch(n uint32, k Kind, payload string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, n), byte(k)), payload...)
}

// A hello or an answer with a flipped bit is malformed, and nothing in it counts.
func TestEveryFlippedBitOfAHandshakeIsFound(t *testing.T) {
	id := identity{Peer: Peer{ID: 7, Name: "a", Addr: "10.0.0.1:1"}, cluster: "Peerage", settings: map[string]string{"Ping": "1s"}}
	hello := appendHello(nil, &hello{identity: id, purpose: purposeProbe, number: 3})[preludeBytes:]
	answer := appendAnswer(nil, &answer{verdict: verdictWelcome, identity: id})[preludeBytes:]
	for bit := range len(hello) * 8 {
		b := append([]byte(nil), hello...)
		b[bit/8] ^= 1 << (bit % 8)
		if h, err := decodeHello(wire.OwnVersions(), b); err == nil {
			t.Errorf("hello, bit %d: %+v", bit, h)
		}
	}
	for bit := range len(answer) * 8 {
		b := append([]byte(nil), answer...)
		b[bit/8] ^= 1 << (bit % 8)
		if a, err := decodeAnswer(wire.OwnVersions(), b); err == nil && a.verdict != verdictRefused {
			t.Errorf("answer, bit %d: %+v", bit, a)
		}
	}
}

// TestAttackFlippedBitsReachNoStream: memberlist reads no changed bytes from a raw stream:
// the stream ends before them. Without TLS there is no other check, since SecretKeys may be
// unset.
func TestAttackFlippedBitsReachNoStream(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		sent := bytes.Repeat([]byte("state of a node, "), 2000)
		ended, whole := 0, 0
		for range 40 {
			w.net.SetUsual(Path{})
			out, err := a.DialStream(b.Self().Addr, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			in := <-b.Streams()
			w.net.SetUsual(Path{Corruption: 0.02})
			go func() {
				for rest := sent; len(rest) > 0; rest = rest[min(len(rest), 700):] {
					if _, err := out.Write(rest[:min(len(rest), 700)]); err != nil {
						break
					}
				}
				_ = out.Close()
			}()
			_ = in.SetReadDeadline(time.Now().Add(10 * time.Second))
			got, err := io.ReadAll(in)
			_ = in.Close()
			if !bytes.HasPrefix(sent, got) {
				t.Fatalf("%d bytes were read, and they are not what was sent", len(got))
			}
			if err == nil && len(got) == len(sent) {
				whole++
			} else if err != nil {
				ended++
			}
		}
		if ended == 0 || whole == 0 {
			t.Errorf("%d streams ended in an error, %d came whole", ended, whole)
		}
		if b.Counters().CorruptFrames.Load() == 0 {
			t.Error("no corrupt record was counted")
		}
	})
}
