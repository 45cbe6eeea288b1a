package transport

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// writeBytes is how much goes into one write call: large enough that the call's
// cost does not show, small enough that room in a full queue shows early.
const writeBytes = 256 << 10

// keepBytes is up to which size an idle buffer is kept for the next batch.
const keepBytes = 64 << 10

// queue is a link's send queue. All fields are guarded by link.mu.
//
// Senders append whole frames to buf and go on. The owner takes all of buf at
// once, leaves its spare buffer in its place, and writes: so while one batch is in
// a system call the next one collects, and batches are the larger the busier the
// link is, without any timer. (A flush by timer costs up to 1.2 ms when the process
// is idle: reference/peers.md on Ergo. One writev over the frames is 1.7 times
// slower than a copy into one buffer at 100 bytes.)
//
// Invariant: len(buf) + flight <= QueueBytesMax; frames counts those in buf,
// flightFrames those of the batch that the owner is writing.
type queue struct {
	buf    []byte
	frames int
	// flight is what of the owner's batch has not been written yet.
	flight       int
	flightFrames int
	// writing: a sender writes by itself (direct.go). rest is what it left of its
	// frame, and goes before buf.
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
	l.mu.Lock()
	if l.stopped {
		err := l.stoppedErrLocked()
		l.mu.Unlock()
		return err
	}
	if len(l.buf)+l.flight+n > l.limit.QueueBytesMax {
		l.mu.Unlock()
		l.countDrops(DropQueueFull, 1)
		return ErrQueueFull
	}
	if l.mayWriteLocked(n) {
		l.writeDirectly(k, payload) // unlocks
		return nil
	}
	l.buf = appendFrame(l.buf, k, payload)
	l.frames++
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

// appendFrame appends length, kind and payload.
func appendFrame(b []byte, k Kind, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, byte(k))
	return append(b, payload...)
}

// writeLoop writes the queue to conn until the connection breaks.
func (l *link) writeLoop(conn net.Conn) {
	var batch []byte
	for {
		if batch = l.take(batch); batch == nil {
			return
		}
		if err := l.write(conn, batch); err != nil {
			l.breakOff(conn, err)
			return
		}
	}
}

// take blocks until something is queued and returns all of it; nil when the
// connection has broken or the link was stopped. spare is the former batch.
func (l *link) take(spare []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing || len(l.buf) == 0 && len(l.rest) == 0 && l.broken == nil && !l.stopped {
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
		rest := l.rest
		l.rest = nil
		return rest
	}
	// A burst's buffer goes once a batch leaves three quarters of it unused.
	if cap(spare) > keepBytes && len(spare) < cap(spare)/4 {
		spare = nil
	}
	batch := l.buf
	l.buf = spare[:0]
	l.flight, l.flightFrames = len(batch), l.frames
	l.direct.crowd = l.frames > 1
	l.frames = 0
	return batch
}

// write writes one batch, giving back room as it goes.
func (l *link) write(conn net.Conn, batch []byte) error {
	counters := &l.e.counters.Class[l.class]
	for rest := batch; len(rest) > 0; {
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
		l.mu.Lock()
		l.flight = len(rest)
		l.giveRoomLocked()
		l.mu.Unlock()
	}
	l.mu.Lock()
	n := l.flightFrames
	l.flightFrames = 0
	l.mu.Unlock()
	counters.FramesSent.Add(uint64(n))
	counters.BytesSent.Add(uint64(len(batch)))
	return nil
}

// emptyLocked drops what is queued and returns how many frames that were, those
// of a batch in flight included.
func (l *link) emptyLocked() int {
	n := l.frames + l.flightFrames
	l.buf, l.rest, l.frames, l.flight, l.flightFrames = nil, nil, 0, 0, 0
	l.giveRoomLocked()
	return n
}

func (l *link) giveRoomLocked() {
	if l.room != nil && (l.stopped || len(l.buf)+l.flight <= l.limit.QueueBytesMax/2) {
		close(l.room)
		l.room = nil
	}
}

func (l *link) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buf) + l.flight
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
		if len(l.buf)+l.flight <= most {
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
