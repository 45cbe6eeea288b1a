package transport

import "time"

// directPause is how long a link must have been quiet for a sender to write by
// itself, crowdPause the same behind a batch of several frames, and directBytes up
// to which size.
const (
	directPause = 5 * time.Microsecond
	crowdPause  = time.Millisecond
	directBytes = 16 << 10
)

// direct lets a sender write one frame by itself when a link is at rest, which
// saves the wake-up of the owner on both ways of a request and its answer
// (measured: a sixth of the round trip between two processes). It is not worth it
// for a busy sender, who would pay a system call per frame instead of one per
// batch; so whoever sends again within directPause wakes the owner. Nor is it for
// one of many senders: each may find the link at rest while the others, who are
// about to send, do not get the processor for as long as the call lasts (at 64 askers
// more than half of all the time went there). A batch of several frames is the sign
// of a crowd; it holds until the link has been quiet for crowdPause.
//
// A sender never blocks: it tries once, and leaves what the socket did not take to
// the owner. It writes without link.mu, and queue.writing keeps everybody else
// from the socket meanwhile: other senders append, the owner waits, even to clean
// up after a loss; so two never write at once, nor does one write to a connection
// that has been given up.
type direct struct {
	// try writes as much of buf as the socket takes at once; nil where that cannot
	// be done (TLS, memory).
	try func() int
	// buf is the frame being written; owned by whoever set queue.writing.
	buf  []byte
	last time.Time
	// crowd: the last write was a batch of several frames.
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
