package transport

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Sizes of a reader's buffer. It starts small, since most of a large cluster's
// connections are quiet, and grows when a read has filled it: the more frames arrive at a
// time, the less each costs a BlockHandler. It shrinks when quietReads reads in a row
// left three quarters of it unused.
const (
	readBytesMin = 4 << 10
	readBytesMax = 256 << 10
	quietReads   = 64
)

// oversizeError: a frame is announced that is larger than its class allows.
type oversizeError struct{ declared, max int }

func (e *oversizeError) Error() string {
	return fmt.Sprintf("transport: a frame of %d bytes is announced, at most %d are allowed", e.declared, e.max)
}

// frameBuffer cuts frames out of a stream of bytes. Its memory grows with the bytes
// received, never with a declared length: at most to twice the bytes received.
//
// Invariant: 0 <= r <= w <= len(buf); buf[r:w] was received and not yet handed out; r is
// before checked while batched is set.
type frameBuffer struct {
	buf  []byte
	r, w int
	// max bounds a payload.
	max int
	// full: the last read filled the buffer, so a larger one would be used.
	full bool
	// quiet counts the reads since so large a buffer was last needed.
	quiet int
	// checked is the end of the frame, or the batch, at r once its checksum was verified,
	// else 0. batched: it is a batch, and r is in it.
	checked int
	batched bool
}

func newFrameBuffer(max int) *frameBuffer {
	return &frameBuffer{buf: make([]byte, readBytesMin), max: max}
}

// space returns the free part of the buffer; it is never empty.
func (b *frameBuffer) space() []byte {
	b.checked = 0 // batched is false: handOut has processed every whole batch
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
	case b.quiet > quietReads && b.w <= len(b.buf)/4 && len(b.buf) > readBytesMin:
		b.resize(len(b.buf) / 2)
	}
	return b.buf[b.w:]
}

func (b *frameBuffer) resize(n int) {
	next := make([]byte, n)
	b.w = copy(next, b.buf[:b.w])
	b.buf, b.quiet, b.full = next, 0, false
}

// received records that n bytes were read into space.
func (b *frameBuffer) received(n int) {
	b.w += n
	b.full = b.w == len(b.buf)
	if b.w > len(b.buf)/4 {
		b.quiet = 0
	} else {
		b.quiet++
	}
}

// peek returns the kind of the next whole frame and its size, header included; size is
// 0 when there is none yet.
func (b *frameBuffer) peek() (k Kind, size int, err error) {
	if !b.batched {
		k, size, err = b.peekHeader()
		if size == 0 || b.slot() != batchSlot {
			return k, size, err
		}
		b.r += frameHeaderBytes
		b.batched = true
	}
	return b.peekBatch()
}

// peekBatch is peek for the frames of a batch with a verified checksum.
func (b *frameBuffer) peekBatch() (k Kind, size int, err error) {
	rest := b.buf[b.r:b.checked]
	if len(rest) < batchHeaderBytes || rest[frameKindAt] == 0 {
		return 0, 0, errMalformed
	}
	n := int(binary.BigEndian.Uint32(rest))
	if n > b.max {
		return 0, 0, &oversizeError{declared: n, max: b.max}
	}
	if size = batchHeaderBytes + n; size > len(rest) {
		return 0, 0, errMalformed
	}
	return Kind(rest[frameKindAt]), size, nil
}

// peekHeader is peek for a frame, a piece or a batch with a header of its own.
func (b *frameBuffer) peekHeader() (k Kind, size int, err error) {
	if b.w-b.r < frameHeaderBytes {
		return 0, 0, nil
	}
	head := b.buf[b.r:]
	k, n, err := parseHeader(head)
	if err != nil {
		return 0, 0, err
	}
	if max := b.limit(); n > max {
		return 0, 0, &oversizeError{declared: n, max: max}
	}
	size = frameHeaderBytes + n
	if b.w-b.r < size {
		return k, 0, nil
	}
	if b.checked != b.r+size {
		if !sumFits(head, head[frameHeaderBytes:size]) {
			return 0, 0, errCorrupt
		}
		b.checked = b.r + size
	}
	return k, size, nil
}

// cut removes the next frame, of the size that peek returned, and returns its payload,
// which is valid until space is called.
func (b *frameBuffer) cut(size int) []byte {
	at := b.r + frameHeaderBytes
	if b.batched {
		at = b.r + batchHeaderBytes
	}
	b.r += size
	b.batched = b.batched && b.r < b.checked
	return b.buf[at:b.r:b.r]
}

// limit returns the bound of the payload of the next frame, piece or batch.
func (b *frameBuffer) limit() int {
	switch b.slot() {
	case 0:
		return b.max
	case batchSlot:
		return b.max + batchBytes
	}
	return pieceBytes + 4
}

// slot returns the slot of the next frame, once peek has returned its size.
func (b *frameBuffer) slot() byte {
	if b.batched {
		return 0
	}
	return b.buf[b.r+frameSlotAt]
}

// Frames are frames of one kind that arrived together on one connection, in their
// order. They belong to the BlockHandler during its call.
type Frames struct {
	in *inbound
	b  *frameBuffer
	k  Kind
	n  int
	// whole is a frame that arrived in pieces; Frames then has no other.
	whole []byte
	alone bool
}

// Next returns the next payload, which is valid until the handler returns; false when
// there is none, or when the connection was replaced by a newer one meanwhile.
func (f *Frames) Next() ([]byte, bool) {
	if f.alone {
		p := f.whole
		f.whole = nil
		return p, p != nil && !f.in.ended.Load()
	}
	// handOut detects an invalid frame again and reports it.
	k, size, err := f.b.peek()
	if k != f.k || size == 0 || err != nil || f.b.slot() != 0 || f.in.ended.Load() {
		return nil, false
	}
	f.n++
	return f.b.cut(size), true
}

// receiver reads the accepted connections and hands their frames to the handlers.
type receiver struct {
	cfg      *Config
	life     *lifetime
	counters *Counters
	log      *limitedLogger
	handlers [256]Handler
	// blockHandlers take precedence over handlers.
	blockHandlers [256]BlockHandler
	halves        halfFrames
}

func (r *receiver) initReceiver(cfg *Config, life *lifetime, counters *Counters, log *limitedLogger) {
	r.cfg, r.life, r.counters, r.log = cfg, life, counters, log
	r.halves.initHalves(cfg.HalfFrameBytesMax)
}

// readFrames hands out the frames of an accepted connection until it ends, and returns
// why it ended.
func (r *receiver) readFrames(in *inbound) error {
	b := newFrameBuffer(min(r.cfg.class(in.class).FrameBytesMax, pieceBytes))
	defer r.dropParts(in)
	for {
		n, err := in.conn.Read(b.space())
		if n > 0 {
			b.received(n)
			if cut := r.handOut(in, b); cut != nil {
				r.noteCut(in, cut)
				return cut
			}
		}
		if err != nil {
			if in.halved.Load() {
				err = &halfFramesError{r.halves.max}
				r.noteCut(in, err)
			}
			return err
		}
	}
}

// handOut calls the handlers of all whole frames in b.
func (r *receiver) handOut(in *inbound, b *frameBuffer) error {
	select {
	case in.handing <- struct{}{}:
	case <-r.life.ctx.Done():
		return ErrClosed
	}
	defer func() { <-in.handing }()
	before, frames := b.r, 0
	defer func() {
		r.counters.Class[in.class].FramesReceived.Add(uint64(frames))
		r.counters.Class[in.class].BytesReceived.Add(uint64(b.r - before))
	}()
	for {
		k, size, err := b.peek()
		if err != nil || size == 0 {
			return err
		}
		if in.ended.Load() {
			r.countLeft(in, b)
			return errReplaced
		}
		if slot := b.slot(); slot != 0 {
			in.boundReceived()
			whole, err := r.takePiece(in, k, slot, b.cut(size))
			if err != nil {
				return err
			}
			if whole != nil {
				frames++
				r.handOutWhole(in, whole)
			}
			continue
		}
		if h := r.blockHandlers[k]; h != nil {
			in.frames = Frames{in: in, b: b, k: k}
			h(in.peer.ID, &in.frames)
			for _, left := in.frames.Next(); left; _, left = in.frames.Next() {
				r.counters.Drops[DropNoHandler].Add(1)
			}
			frames += in.frames.n
			continue
		}
		frames++
		payload := b.cut(size)
		if h := r.handlers[k]; h != nil {
			h(in.peer.ID, payload)
		} else {
			r.counters.Drops[DropNoHandler].Add(1)
		}
	}
}

// handOutWhole calls the handler of a frame that came in pieces.
func (r *receiver) handOutWhole(in *inbound, p *part) {
	defer r.halves.releasePart(p)
	switch block, single := r.blockHandlers[p.kind], r.handlers[p.kind]; {
	case block != nil:
		in.frames = Frames{in: in, k: p.kind, whole: p.buf, alone: true}
		block(in.peer.ID, &in.frames)
		if in.frames.whole != nil {
			r.counters.Drops[DropNoHandler].Add(1)
		}
	case single != nil:
		single(in.peer.ID, p.buf)
	default:
		r.counters.Drops[DropNoHandler].Add(1)
	}
}

// countLeft counts the whole frames in b that will not be handed out.
func (r *receiver) countLeft(in *inbound, b *frameBuffer) {
	why := DropReplaced
	if in.fenced.Load() {
		why = DropFenced
	}
	for k, size, err := b.peek(); size > 0 && err == nil; k, size, err = b.peek() {
		slot := b.slot()
		payload := b.cut(size)
		if slot != 0 {
			whole, err := r.takePiece(in, k, slot, payload)
			if err != nil {
				return
			}
			if whole == nil {
				continue
			}
			r.halves.releasePart(whole)
		}
		r.counters.Drops[why].Add(1)
	}
}

// noteCut counts and logs a connection that is closed because of an invalid frame.
func (r *receiver) noteCut(in *inbound, cut error) {
	var oversize *oversizeError
	var half *halfFramesError
	switch {
	case errors.As(cut, &oversize):
		r.counters.OversizeFrames.Add(1)
	case errors.As(cut, &half):
		r.counters.HalfFrames.Add(1)
	case errors.Is(cut, errCorrupt):
		r.counters.CorruptFrames.Add(1)
	case errors.Is(cut, errMalformed):
		r.counters.MalformedFrames.Add(1)
	default:
		return
	}
	r.log.writeLine(slog.LevelWarn, "connection closed for what came on it", slog.String("peer", in.peer.Name),
		slog.String("addr", in.peer.Addr), slog.String("class", in.class.String()), slog.Any("error", cut))
}

// part is a frame that arrives in pieces. Its memory grows with the bytes received.
type part struct {
	kind  Kind
	total int
	buf   []byte
	in    *inbound
	// held is the number of bytes that halfFrames counts for it, at its place in the
	// order of beginning.
	held int
	at   *list.Element
}

// halfFramesError: partially received frames exceeded their memory limit, and this
// connection had the oldest.
type halfFramesError struct{ max int }

func (e *halfFramesError) Error() string {
	return fmt.Sprintf("transport: half-received frames of all peers need more than %d bytes, and the oldest of them came on this connection", e.max)
}

// halfFrames bounds the memory of all half-received frames together. When it is used up,
// the connection with the oldest such frame ends: a peer that sends half frames and waits
// cannot keep other peers from sending whole ones.
//
// Invariant: held is the sum over order, and at most max.
type halfFrames struct {
	max int

	mu    sync.Mutex
	held  int
	order *list.List // of *part
}

func (h *halfFrames) initHalves(max int) { h.max, h.order = max, list.New() }

// countBytes counts n bytes more for p, and returns those that must end for it.
func (h *halfFrames) countBytes(p *part, n int) (ended []*part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.at == nil {
		p.at = h.order.PushBack(p)
	}
	p.held += n
	h.held += n
	for h.held > h.max && h.order.Len() > 0 {
		oldest := h.order.Front().Value.(*part)
		h.removePart(oldest)
		ended = append(ended, oldest)
	}
	return ended
}

func (h *halfFrames) removePart(p *part) {
	if p.at != nil {
		h.order.Remove(p.at)
		h.held -= p.held
		p.at, p.held = nil, 0
	}
}

// releasePart stops counting p.
func (h *halfFrames) releasePart(p *part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removePart(p)
}

// bytes returns what half-received frames hold now.
func (h *halfFrames) bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// takePiece adds a received piece, and returns its frame once it is complete.
func (r *receiver) takePiece(in *inbound, k Kind, slot byte, payload []byte) (whole *part, err error) {
	i := slot&^firstPiece - 1
	if slot&firstPiece != 0 {
		if in.parts[i] != nil || len(payload) < 4 {
			return nil, errMalformed
		}
		total := binary.BigEndian.Uint32(payload)
		if max := r.cfg.class(in.class).FrameBytesMax; uint64(total) > uint64(max) {
			return nil, &oversizeError{declared: int(total), max: max}
		}
		in.parts[i] = &part{kind: k, total: int(total), in: in}
		payload = payload[4:]
	}
	p := in.parts[i]
	if p == nil || p.kind != k || len(payload) == 0 || len(p.buf)+len(payload) > p.total {
		return nil, errMalformed
	}
	if err := r.growPart(p, len(p.buf)+len(payload)); err != nil {
		return nil, err
	}
	p.buf = append(p.buf, payload...)
	if len(p.buf) < p.total {
		return nil, nil
	}
	in.parts[i] = nil
	return p, nil
}

// growPart makes room for n bytes in p, at most for twice as many.
func (r *receiver) growPart(p *part, n int) error {
	if n <= cap(p.buf) {
		return nil
	}
	room := min(p.total, max(n, 2*cap(p.buf)))
	for _, ended := range r.halves.countBytes(p, room-cap(p.buf)) {
		if ended == p {
			return &halfFramesError{r.halves.max}
		}
		ended.in.halved.Store(true)
		_ = ended.in.conn.Close() // wakes its reader, which logs the cause
	}
	buf := make([]byte, len(p.buf), room)
	copy(buf, p.buf)
	p.buf = buf
	return nil
}

// dropParts releases the partially received frames of in's reader.
func (r *receiver) dropParts(in *inbound) {
	for i, p := range in.parts {
		if p != nil {
			r.halves.releasePart(p)
			in.parts[i] = nil
		}
	}
}
