package transport

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"sync"
)

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

func (h *halfFrames) init(max int) { h.max, h.order = max, list.New() }

// grow counts n bytes more for p, and returns those that must end for it.
func (h *halfFrames) grow(p *part, n int) (ended []*part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.at == nil {
		p.at = h.order.PushBack(p)
	}
	p.held += n
	h.held += n
	for h.held > h.max && h.order.Len() > 0 {
		oldest := h.order.Front().Value.(*part)
		h.remove(oldest)
		ended = append(ended, oldest)
	}
	return ended
}

func (h *halfFrames) remove(p *part) {
	if p.at != nil {
		h.order.Remove(p.at)
		h.held -= p.held
		p.at, p.held = nil, 0
	}
}

// release stops counting p.
func (h *halfFrames) release(p *part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(p)
}

// bytes returns what half-received frames hold now.
func (h *halfFrames) bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// takePiece adds a received piece, and returns its frame once it is complete.
func (e *engine) takePiece(in *inbound, k Kind, slot byte, payload []byte) (whole *part, err error) {
	i := slot&^firstPiece - 1
	if slot&firstPiece != 0 {
		if in.parts[i] != nil || len(payload) < 4 {
			return nil, errMalformed
		}
		total := binary.BigEndian.Uint32(payload)
		if max := e.cfg.class(in.class).FrameBytesMax; uint64(total) > uint64(max) {
			return nil, &oversizeError{declared: int(total), max: max}
		}
		in.parts[i] = &part{kind: k, total: int(total), in: in}
		payload = payload[4:]
	}
	p := in.parts[i]
	if p == nil || p.kind != k || len(payload) == 0 || len(p.buf)+len(payload) > p.total {
		return nil, errMalformed
	}
	if err := e.growPart(p, len(p.buf)+len(payload)); err != nil {
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
func (e *engine) growPart(p *part, n int) error {
	if n <= cap(p.buf) {
		return nil
	}
	room := min(p.total, max(n, 2*cap(p.buf)))
	for _, ended := range e.halves.grow(p, room-cap(p.buf)) {
		if ended == p {
			return &halfFramesError{e.halves.max}
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
func (e *engine) dropParts(in *inbound) {
	for i, p := range in.parts {
		if p != nil {
			e.halves.release(p)
			in.parts[i] = nil
		}
	}
}
