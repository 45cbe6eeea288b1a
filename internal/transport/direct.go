package transport

import "time"

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
		l.signal()
	}
}

// finishDirectLocked accounts for n bytes of the frame that the socket took.
func (l *link) finishDirectLocked(n int) {
	if l.flightFrames == 0 {
		return // the link was stopped meanwhile, and the frame counted
	}
	buf := l.direct.buf
	c := &l.e.counters.Class[l.class]
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
