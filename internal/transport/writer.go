package transport

import (
	"context"
	"net"
	"runtime"
	"slices"
	"time"
)

// writeBytes bounds one write call, which only a large frame reaches: the room that it
// used in the queue is freed piece by piece.
const writeBytes = 256 << 10

// queue is a link's send queue. All fields are guarded by link.mu.
//
// Senders append whole frames to the backlog and continue. The owner takes its oldest
// block and writes it: while one block is in a system call the next one fills, so the
// busier the link, the larger the writes, without any timer. (A flush by timer costs up
// to 1.2 ms when the process is idle. One writev over the frames is 1.7 times slower than
// a copy into one buffer at 100 bytes.)
//
// Large frames wait in lanes and are written in pieces (lanes.go). Urgent frames pass a long
// backlog (express).
//
// Invariant: backlog.bytes + lanes.bytes + flight <= QueueBytesMax; express.bytes <=
// expressBytes.
type queue struct {
	backlog backlog
	lanes   lanes
	express express
	// flight is the unwritten part of the owner's block, flightFrames the frames of the
	// block.
	flight       int
	flightFrames int
	// writing: a sender writes by itself (see direct). rest is the unwritten rest of its
	// frame, which is sent before the backlog.
	writing bool
	rest    []byte
	// room is closed when the queue is less than half full, or the link stops; nil
	// without waiters.
	room chan struct{}
}

// sendFrame queues a frame, or writes it if the link is idle. It never blocks.
func (l *link) sendFrame(k Kind, payload []byte) error {
	n := frameBytesAround + len(payload)
	if len(payload) > l.limit.FrameBytesMax {
		l.countDrops(DropTooLarge, 1)
		return ErrFrameTooLarge
	}
	if n > pieceBytes && l.takesLarge(n) {
		payload = slices.Clone(payload) // before the lock
	}
	l.mu.Lock()
	if l.stopped {
		err := l.stoppedErrLocked()
		l.mu.Unlock()
		return err
	}
	f, at := l.placeLocked(n, k, payload)
	if !l.roomLocked(n, at) {
		l.mu.Unlock()
		l.countDrops(DropQueueFull, 1)
		return ErrQueueFull
	}
	switch at {
	case inLane:
		if n <= pieceBytes {
			payload = slices.Clone(payload)
		}
		l.lanes.addFrame(f, k, payload)
		l.queuedLocked() // unlocks
		return nil
	case inExpress:
		l.express.addUrgent(k, payload)
		l.queuedLocked() // unlocks
		return nil
	}
	if l.mayWriteLocked(n) {
		l.writeDirectly(k, payload) // unlocks
		return nil
	}
	l.backlog.addFrame(k, payload)
	l.lanes.queued++
	l.express.recordFlow(f, l.lanes.queued)
	l.queuedLocked() // unlocks
	return nil
}

// queuedLocked wakes the owner for a frame that was queued. On return mu is not held.
func (l *link) queuedLocked() {
	wake := l.idle
	l.idle = false
	if !l.started {
		l.startLocked()
	}
	l.mu.Unlock()
	if wake {
		l.wake.Set()
	}
}

// usedLocked returns how much of the queue is in use.
func (l *link) usedLocked() int {
	return l.backlog.bytes + l.lanes.bytes + l.express.blocks.bytes + l.flight
}

// roomLocked reports whether a frame of n bytes may be queued. Lanes leave a sixteenth of
// the queue to small frames of other flows, if a frame fits beside half of it. The room of
// express is its own.
func (l *link) roomLocked(n int, at place) bool {
	most := l.limit.QueueBytesMax
	switch at {
	case inLane:
		most = min(most, max(most-most/16, most/2+l.limit.FrameBytesMax+frameBytesAround))
	case inExpress:
		return true
	}
	return l.usedLocked()-l.express.blocks.bytes+n <= most
}

// takesLarge reports whether a large frame would be queued now, to avoid copying one that
// would not.
func (l *link) takesLarge(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.stopped && l.roomLocked(n, inLane)
}

// place is where a frame waits.
type place uint8

const (
	inBacklog place = iota
	inLane
	inExpress
)

// placeLocked returns where a frame of n bytes waits, and its flow. The flow function is called
// only if the flow matters; else the flow is 0.
func (l *link) placeLocked(n int, k Kind, payload []byte) (f Flow, at place) {
	if n <= pieceBytes && len(l.lanes.order) == 0 && !l.express.isNeeded(l.backlog.bytes) {
		l.express.recording = false
		return 0, inBacklog
	}
	if !l.express.recording {
		l.express.recordAll(&l.backlog, l.lanes.taken, &l.shared.flows)
	}
	urgent := false
	if of := l.shared.flows[k]; of != nil {
		f, urgent = of(payload)
	}
	switch {
	case n > pieceBytes || len(l.lanes.order) > 0 && (f == 0 || l.lanes.busy[f] != nil):
		return f, inLane
	case urgent && f != 0 && l.express.admitsFrame(n, f, l.lanes.taken):
		return f, inExpress
	}
	return f, inBacklog
}

// framesLocked returns how many frames wait.
func (l *link) framesLocked() int {
	return l.backlog.frames + l.lanes.frames + l.express.blocks.frames
}

// express holds urgent frames that pass the backlog and the lanes: replies, asks, grants. A
// flood of other frames may fill megabytes of the backlog, and would delay an urgent frame behind
// it by as long as the peer needs to handle them.
//
// The owner writes all of express before the next block of the backlog, or piece of a lane. So
// a frame that is queued elsewhere after a frame of express never overtakes it. The other way
// round, a frame enters express only if the owner has taken all earlier frames of its flow: it
// checks the number of the last one of each flow. Frames of flow 0 are not checked: they may be
// overtaken, and never enter express. Between two blocks of the backlog at most expressBytes of
// express are sent, so that urgent frames do not stop the others.
//
// Flows are recorded by their hash, and only while the backlog is long or lanes are busy: a short
// backlog costs nothing.
type express struct {
	blocks backlog
	// credit is how much may enter before the next block of the backlog, or of a lane, was taken.
	credit int
	// last is the number of the last frame in the backlog, by the hash of its flow; nil before the
	// first record. recording: all frames of the backlog are recorded.
	last      *[expressFlows]uint64
	recording bool
}

const (
	// expressBytes bounds express.
	expressBytes = blockBytes
	// expressFrom is the length of a backlog from which urgent frames pass it, expressUntil the
	// length until which they do.
	expressFrom  = 2 * blockBytes
	expressUntil = blockBytes / 2
	// expressFlows is the number of records: two flows that share one delay each other.
	expressFlows = 1024
)

// recordOf returns the index of a flow's record.
func recordOf(f Flow) uint64 { return uint64(f) * 0x9e3779b97f4a7c15 >> 54 }

// admitsFrame reports whether an urgent frame of n bytes may enter. taken is the number of the last
// frame that was taken out of the backlog.
func (x *express) admitsFrame(n int, f Flow, taken uint64) bool {
	return n <= x.credit && x.last[recordOf(f)] <= taken
}

// isNeeded reports whether a backlog of so many bytes is to be passed.
func (x *express) isNeeded(backlog int) bool {
	return backlog >= expressFrom || x.recording && backlog > expressUntil
}

// addUrgent appends a frame that was admitted.
func (x *express) addUrgent(k Kind, payload []byte) {
	x.blocks.addFrame(k, payload)
	x.credit -= frameBytesAround + len(payload)
}

// recordAll begins to record, with the frames that are in the backlog.
func (x *express) recordAll(q *backlog, taken uint64, flows *[256]func([]byte) (Flow, bool)) {
	if x.recording = true; x.last == nil {
		x.last = new([expressFlows]uint64)
	}
	for b := q.first; b != nil; b = b.next {
		b.eachFrame(func(k Kind, payload []byte) {
			taken++
			if of := flows[k]; of != nil {
				f, _ := of(payload)
				x.recordFlow(f, taken)
			}
		})
	}
}

// recordFlow notes the flow and the number of a frame of the backlog.
func (x *express) recordFlow(f Flow, number uint64) {
	if f != 0 {
		x.last[recordOf(f)] = number
	}
}

// dropAll drops the waiting frames, and all records: the numbers begin anew.
func (x *express) dropAll() {
	x.blocks.dropAll()
	x.last, x.recording = nil, false
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
		b := l.takeNext()
		if b == nil {
			return
		}
		if err := l.writeBlock(conn, b); err != nil {
			l.breakOff(conn, err)
			return
		}
	}
}

// takeNext blocks until something is queued and returns the oldest block; nil when the
// connection has broken or the link was stopped.
func (l *link) takeNext() *block {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing || l.framesLocked() == 0 && len(l.rest) == 0 && l.broken == nil && !l.stopped {
		l.idle = !l.writing
		l.mu.Unlock()
		<-l.wake
		// Yield once: our waker is usually one of many senders, and yielding lets their
		// frames join this write.
		runtime.Gosched()
		l.mu.Lock()
	}
	l.idle = false
	if l.broken != nil || l.stopped {
		return nil
	}
	if len(l.rest) > 0 {
		b := &block{bytes: l.rest, frames: 1, sealed: true}
		l.rest = nil
		return b // its flight has been counted
	}
	b := l.nextLocked()
	l.flight, l.flightFrames = len(b.bytes), b.frames
	return b
}

// nextLocked takes a block of express if there is one, else of the backlog and of a lane in
// turn; there must be waiting frames.
func (l *link) nextLocked() *block {
	q := &l.lanes
	if l.express.blocks.frames > 0 {
		return l.express.blocks.takeBlock()
	}
	l.express.credit = expressBytes
	if len(q.order) > 0 && (q.turn || l.backlog.frames == 0) {
		if lane := q.ready(); lane != nil {
			q.turn = false
			return q.takeBlock(lane)
		}
	}
	q.turn = true
	l.direct.crowd = l.backlog.frames > 1
	b := l.backlog.takeBlock()
	q.taken += uint64(b.frames)
	return b
}

// writeBlock writes one block, freeing the room of a large frame piece by piece.
func (l *link) writeBlock(conn net.Conn, b *block) error {
	counters := &l.shared.counters.Class[l.class]
	b.seal()
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
		n = l.onWritten(b, len(rest))
	}
	counters.FramesSent.Add(uint64(n))
	counters.BytesSent.Add(uint64(bytes))
	return nil
}

// onWritten records that all of b but rest bytes were written, and returns how many frames
// that completed; b must not be used after the last of them.
func (l *link) onWritten(b *block, rest int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flight = rest
	n := 0
	if rest == 0 {
		n, l.flightFrames = l.flightFrames, 0
		if b.home != nil {
			b.home.recycle(b)
		}
	}
	l.giveRoomLocked()
	return n
}

// emptyLocked drops the queue and returns the number of dropped frames, those of the
// block in flight included.
func (l *link) emptyLocked() int {
	n := l.framesLocked() + l.flightFrames
	l.backlog.dropAll()
	l.lanes.dropAll()
	l.express.dropAll()
	l.rest, l.flight, l.flightFrames = nil, 0, 0
	l.giveRoomLocked()
	return n
}

func (l *link) giveRoomLocked() {
	if l.room != nil && (l.stopped || l.usedLocked() <= l.limit.QueueBytesMax/2) {
		close(l.room)
		l.room = nil
	}
}

func (l *link) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usedLocked()
}

// mayBeInFlight reports whether frames of the link may be in flight.
func (l *link) mayBeInFlight() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil || l.framesLocked() > 0
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
		if l.usedLocked() <= most {
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

// directPause is how long a link must have been quiet for a sender to write by itself,
// crowdPause the same after a block of several frames, and directBytes the size limit for
// such a write.
const (
	directPause = 5 * time.Microsecond
	crowdPause  = time.Millisecond
	directBytes = 16 << 10
)

// direct lets a sender write one frame by itself when a link is idle, which saves the
// wake-up of the owner for a request and for its answer (measured: a sixth of the round
// trip between two processes). It does not pay off for a busy sender, which would need a
// system call per frame instead of one per block; so a sender that sends again within
// directPause wakes the owner. Nor does it for one of many senders: each may find the
// link idle while the rest, which are about to send, do not get the processor for the
// length of the call (at 64 askers more than half of all the time was spent there). A
// block of several frames indicates many senders; this holds until the link has been
// quiet for crowdPause.
//
// A sender never blocks: it tries once, and leaves the rest of the frame to the owner. It
// writes without link.mu, and queue.writing excludes all other goroutines from the socket
// meanwhile: other senders append, the owner waits, even to clean up after a loss. So two
// goroutines never write at the same time, and none writes to an abandoned connection.
type direct struct {
	// try writes as much of buf as the socket accepts without blocking; nil if that is
	// impossible (TLS, memory).
	try func() int
	// buf is the frame being written; owned by the goroutine that set queue.writing.
	buf  []byte
	last time.Time
	// crowd: the last write was a block of several frames.
	crowd bool
}

// mayWriteLocked reports whether a sender may write n bytes by itself.
func (l *link) mayWriteLocked(n int) bool {
	if !l.idle || l.direct.try == nil || n > directBytes || l.broken != nil {
		return false
	}
	now := time.Now()
	pause := directPause
	if l.direct.crowd {
		pause = crowdPause
	}
	quiet := now.Sub(l.direct.last) > pause
	l.direct.last = now
	return quiet
}

// writeDirectly writes one frame. The caller has found mayWriteLocked and holds
// mu; on return it does not.
func (l *link) writeDirectly(k Kind, payload []byte) {
	d := &l.direct
	l.idle, l.writing, d.crowd = false, true, false
	l.flight, l.flightFrames = frameHeaderBytes+len(payload), 1
	l.mu.Unlock()
	d.buf = appendFrame(d.buf[:0], k, payload)
	n := d.try()
	l.mu.Lock()
	l.writing = false
	d.last = time.Now()
	l.finishDirectLocked(n)
	wake := l.framesLocked() > 0 || len(l.rest) > 0 || l.broken != nil || l.stopped
	l.idle = !wake
	l.mu.Unlock()
	if wake {
		l.wake.Set()
	}
}

// finishDirectLocked accounts for n bytes of the frame that the socket took.
func (l *link) finishDirectLocked(n int) {
	if l.flightFrames == 0 {
		return // the link was stopped meanwhile, and the frame counted
	}
	buf := l.direct.buf
	c := &l.shared.counters.Class[l.class]
	c.Writes.Add(1)
	c.BytesSent.Add(uint64(n))
	if n < len(buf) {
		l.rest = append([]byte(nil), buf[n:]...)
		l.flight = len(l.rest)
		return
	}
	l.flight, l.flightFrames = 0, 0
	c.FramesSent.Add(1)
	l.giveRoomLocked()
}
