package transport

import (
	"context"
	"net"
	"runtime"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// writeBytes bounds one write call, which only a large frame comes up against: the
// room that it took in the queue shows piece by piece.
const writeBytes = 256 << 10

// queue is a link's send queue. All fields are guarded by link.mu.
//
// Senders append whole frames to the backlog and go on. The owner takes its oldest
// block and writes it: so while one block is in a system call the next one collects,
// and writes are the larger the busier the link is, without any timer. (A flush by
// timer costs up to 1.2 ms when the process is idle: reference/peers.md on Ergo. One
// writev over the frames is 1.7 times slower than a copy into one buffer at 100 bytes.)
//
// Invariant: backlog.bytes + flight <= QueueBytesMax.
type queue struct {
	backlog backlog
	// flight is what of the owner's block has not been written yet, flightFrames the
	// frames of the block.
	flight       int
	flightFrames int
	// writing: a sender writes by itself (direct.go). rest is what it left of its
	// frame, and goes before the backlog.
	writing bool
	rest    []byte
	// room is closed when the queue gets emptier than half, or the link stops; nil
	// while nobody waits.
	room chan struct{}
}

// Send queues a frame for a peer and never blocks.
func (e *engine) Send(to view.NodeID, c Class, k Kind, payload []byte) error {
	l, err := e.link(to, c)
	if err != nil {
		return e.orClosed(err)
	}
	return l.send(k, payload)
}

// orClosed returns ErrClosed instead of err once the engine is closed.
func (e *engine) orClosed(err error) error {
	if e.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

func (l *link) send(k Kind, payload []byte) error {
	n := frameHeaderBytes + len(payload)
	if len(payload) > l.limit.FrameBytesMax {
		l.countDrops(DropTooLarge, 1)
		return ErrFrameTooLarge
	}
	h := makeHeader(k, payload) // the checksums, before the lock
	l.mu.Lock()
	if l.stopped {
		err := l.stoppedErrLocked()
		l.mu.Unlock()
		return err
	}
	if l.backlog.bytes+l.flight+n > l.limit.QueueBytesMax {
		l.mu.Unlock()
		l.countDrops(DropQueueFull, 1)
		return ErrQueueFull
	}
	if l.mayWriteLocked(n) {
		l.writeDirectly(&h, payload) // unlocks
		return nil
	}
	l.backlog.add(&h, payload)
	wake := l.idle
	l.idle = false
	if !l.started {
		l.startLocked()
	}
	l.mu.Unlock()
	if wake {
		l.signal()
	}
	return nil
}

// stoppedErrLocked returns the error of a stopped link, and counts the frame.
func (l *link) stoppedErrLocked() error {
	if l.why == DropClosed {
		l.countDrops(DropClosed, 1)
		return ErrClosed
	}
	l.countDrops(DropUnknownPeer, 1)
	return ErrUnknownPeer
}

// writeLoop writes the queue to conn until the connection breaks.
func (l *link) writeLoop(conn net.Conn) {
	for {
		b := l.take()
		if b == nil {
			return
		}
		if err := l.write(conn, b); err != nil {
			l.breakOff(conn, err)
			return
		}
	}
}

// take blocks until something is queued and returns the oldest of it; nil when the
// connection has broken or the link was stopped.
func (l *link) take() *block {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing || l.backlog.frames == 0 && len(l.rest) == 0 && l.broken == nil && !l.stopped {
		l.idle = !l.writing
		l.mu.Unlock()
		<-l.wake
		// Who woke us is often one of many that are about to send, and the scheduler
		// lets us run before the others: they go first.
		runtime.Gosched()
		l.mu.Lock()
	}
	l.idle = false
	if l.broken != nil || l.stopped {
		return nil
	}
	if len(l.rest) > 0 {
		b := &block{bytes: l.rest, frames: 1}
		l.rest = nil
		return b // its flight has been counted
	}
	l.direct.crowd = l.backlog.frames > 1
	b := l.backlog.take()
	l.flight, l.flightFrames = len(b.bytes), b.frames
	return b
}

// write writes one block, giving back the room of a large frame as it goes.
func (l *link) write(conn net.Conn, b *block) error {
	counters := &l.e.counters.Class[l.class]
	bytes, n := len(b.bytes), 0
	for rest := b.bytes; len(rest) > 0; {
		chunk := rest[:min(len(rest), writeBytes)]
		since := time.Now()
		_, err := conn.Write(chunk)
		took := time.Since(since)
		counters.Writes.Add(1)
		counters.WriteNanos.Add(uint64(took))
		if took > 10*time.Millisecond {
			counters.WriteStalls.Add(1)
		}
		if err != nil {
			return err
		}
		rest = rest[len(chunk):]
		n = l.written(b, len(rest))
	}
	counters.FramesSent.Add(uint64(n))
	counters.BytesSent.Add(uint64(bytes))
	return nil
}

// written says that all of b but rest bytes went out, and returns how many frames
// that completed; b is not to be used after the last of them.
func (l *link) written(b *block, rest int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flight = rest
	n := 0
	if rest == 0 {
		n, l.flightFrames = l.flightFrames, 0
		l.backlog.recycle(b)
	}
	l.giveRoomLocked()
	return n
}

// emptyLocked drops what is queued and returns how many frames that were, those
// of a batch in flight included.
func (l *link) emptyLocked() int {
	n := l.backlog.frames + l.flightFrames
	l.backlog.clear()
	l.rest, l.flight, l.flightFrames = nil, 0, 0
	l.giveRoomLocked()
	return n
}

func (l *link) giveRoomLocked() {
	if l.room != nil && (l.stopped || l.backlog.bytes+l.flight <= l.limit.QueueBytesMax/2) {
		close(l.room)
		l.room = nil
	}
}

func (l *link) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.bytes + l.flight
}

// open reports whether something of the link may be under way.
func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil || l.backlog.frames > 0
}

// awaitLevel blocks until at most most bytes are queued.
func (l *link) awaitLevel(ctx context.Context, most int) error {
	for {
		l.mu.Lock()
		if l.stopped {
			defer l.mu.Unlock()
			if l.why == DropClosed {
				return ErrClosed
			}
			return ErrUnknownPeer
		}
		if l.backlog.bytes+l.flight <= most {
			l.mu.Unlock()
			return nil
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitRoom blocks until at most half of the queue to the peer is in use.
func (e *engine) WaitRoom(ctx context.Context, to view.NodeID, c Class) error {
	p := e.peers.peer(to)
	if p == nil || c >= classes {
		return e.orClosed(ErrUnknownPeer)
	}
	return p.links[c].awaitLevel(ctx, p.links[c].limit.QueueBytesMax/2)
}

// Open reports whether frames may be under way to a peer.
func (e *engine) Open(to view.NodeID, c Class) bool {
	p := e.peers.peer(to)
	return p != nil && c < classes && p.links[c].open()
}

// Flush blocks until every queue has been handed to the operating system.
func (e *engine) Flush(ctx context.Context) error {
	for _, p := range e.peers.all() {
		for c := range p.links {
			switch err := p.links[c].awaitLevel(ctx, 0); err {
			case nil, ErrUnknownPeer:
			default:
				return err
			}
		}
	}
	return nil
}
