package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
)

// Sizes of a reader's buffer. It starts small, since most of a large cluster's
// connections are quiet, and grows when a read has filled it.
const (
	readBytesMin = 4 << 10
	readBytesMax = 64 << 10
)

// errMalformed: a frame of no kind.
var errMalformed = errors.New("transport: malformed frame")

// oversizeError: a frame is announced that is larger than its class allows.
type oversizeError struct{ declared, max int }

func (e *oversizeError) Error() string {
	return fmt.Sprintf("transport: a frame of %d bytes is announced, at most %d are allowed", e.declared, e.max)
}

// frameBuffer cuts frames out of a stream of bytes. Its memory grows with what has
// arrived, never with what a header declares: at most to twice the bytes received.
//
// Invariant: 0 <= r <= w <= len(buf); buf[r:w] was received and not yet handed out.
type frameBuffer struct {
	buf  []byte
	r, w int
	// max bounds a payload.
	max int
	// full: the last read filled the buffer, so a larger one would be used.
	full bool
	// quiet counts the reads since the large buffer was last needed.
	quiet int
}

func newFrameBuffer(max int) *frameBuffer {
	return &frameBuffer{buf: make([]byte, readBytesMin), max: max}
}

// space returns where to read to; it is never empty.
func (b *frameBuffer) space() []byte {
	if b.r > 0 {
		b.w = copy(b.buf, b.buf[b.r:b.w])
		b.r = 0
	}
	switch {
	case b.w == len(b.buf):
		b.resize(2 * len(b.buf)) // one frame fills it
	case b.full && len(b.buf) < readBytesMax:
		b.resize(2 * len(b.buf))
	case len(b.buf) > readBytesMax && b.quiet > 16 && b.w < readBytesMax:
		b.resize(readBytesMax)
	}
	return b.buf[b.w:]
}

func (b *frameBuffer) resize(n int) {
	next := make([]byte, n)
	b.w = copy(next, b.buf[:b.w])
	b.buf, b.quiet, b.full = next, 0, false
}

// received says that n bytes were put into space.
func (b *frameBuffer) received(n int) {
	b.w += n
	b.full = b.w == len(b.buf)
	if b.w > readBytesMax/2 {
		b.quiet = 0
	} else {
		b.quiet++
	}
}

// next returns the next whole frame, which is valid until space is called; ok is
// false when there is none yet.
func (b *frameBuffer) next() (k Kind, payload []byte, ok bool, err error) {
	if b.w-b.r < frameHeaderBytes {
		return 0, nil, false, nil
	}
	head := b.buf[b.r:]
	n := binary.BigEndian.Uint32(head)
	k = Kind(head[4])
	if uint64(n) > uint64(b.max) {
		return 0, nil, false, &oversizeError{declared: int(n), max: b.max}
	}
	if k == 0 {
		return 0, nil, false, errMalformed
	}
	end := frameHeaderBytes + int(n)
	if b.w-b.r < end {
		return 0, nil, false, nil
	}
	b.r += end
	return k, head[frameHeaderBytes:end:end], true, nil
}

// read hands out the frames of an accepted connection until it ends, and returns
// why it ended.
func (e *engine) read(in *inbound) error {
	b := newFrameBuffer(e.cfg.class(in.class).FrameBytesMax)
	for {
		n, err := in.conn.Read(b.space())
		if n > 0 {
			b.received(n)
			if cut := e.handOut(in, b); cut != nil {
				e.noteCut(in, cut)
				return cut
			}
		}
		if err != nil {
			return err
		}
	}
}

// handOut calls the handlers of all whole frames in b.
func (e *engine) handOut(in *inbound, b *frameBuffer) error {
	select {
	case in.handing <- struct{}{}:
	case <-e.ctx.Done():
		return ErrClosed
	}
	defer func() { <-in.handing }()
	before, frames := b.r, 0
	defer func() {
		e.counters.Class[in.class].FramesReceived.Add(uint64(frames))
		e.counters.Class[in.class].BytesReceived.Add(uint64(b.r - before))
	}()
	for {
		at := b.r
		k, payload, ok, err := b.next()
		if err != nil || !ok {
			return err
		}
		if in.ended.Load() {
			b.r = at
			e.counters.Drops[DropReplaced].Add(1)
			return errReplaced
		}
		frames++
		if h := e.handlers[k]; h != nil {
			h(in.peer.ID, payload)
		} else {
			e.counters.Drops[DropNoHandler].Add(1)
		}
	}
}

// noteCut counts and logs a connection that we end for what came on it.
func (e *engine) noteCut(in *inbound, cut error) {
	var oversize *oversizeError
	switch {
	case errors.As(cut, &oversize):
		e.counters.OversizeFrames.Add(1)
	case errors.Is(cut, errMalformed):
		e.counters.MalformedFrames.Add(1)
	default:
		return
	}
	e.log.line(slog.LevelWarn, "connection closed for what came on it", slog.String("peer", in.peer.Name),
		slog.String("addr", in.peer.Addr), slog.String("class", in.class.String()), slog.Any("error", cut))
}
