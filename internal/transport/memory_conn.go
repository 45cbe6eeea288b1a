package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memConn is one end of a connection on a Network. All fields are guarded by
// Network.mu.
//
// Bytes are sent as segments: each has a time of arrival, and none arrives before its
// predecessor. A cut that drops holds segments back, as TCP does by retransmitting; they
// continue when it heals, unless UnackedTimeout ended the connection before. Loss delays
// a segment by the time to retransmit it.
type memConn struct {
	host *memHost
	peer *memConn
	// cond is signalled when anything changes for this end.
	cond *sync.Cond

	// in holds the segments from the peer's end. Invariant: held segments are last;
	// inBytes is the sum of their lengths.
	in      []segment
	inBytes int
	// closed: this end was closed here. failed: it broke, and this is how.
	closed bool
	failed error
	// stalled is since when the path has been cut, zero if it is not; unacked is set if
	// data was sent since.
	stalled time.Time
	unacked bool

	readBy, writeBy time.Time
}

// segment is a piece of the stream, or its end.
type segment struct {
	data    []byte
	fin     bool
	held    bool
	arrives time.Time
}

// resendAfter is TCP's first wait before it retransmits.
const resendAfter = 200 * time.Millisecond

// retryMax bounds the pause between two retransmissions that fall into a connection's
// UnackedTimeout.
const retryMax = 3 * time.Second

// keepAliveGrace is how much longer than one with unacknowledged bytes an idle
// connection lives behind a cut: three keep-alives, one a second.
const keepAliveGrace = 3 * time.Second

func newMemConn(h *memHost) *memConn {
	return &memConn{host: h, cond: sync.NewCond(&h.n.mu)}
}

func (c *memConn) network() *Network { return c.host.n }

// LocalAddr returns the address of the node at this end.
func (c *memConn) LocalAddr() net.Addr { return memAddr(c.host.addr) }

// RemoteAddr returns the address of the node at the other end.
func (c *memConn) RemoteAddr() net.Addr { return memAddr(c.peer.host.addr) }

// Read blocks until bytes have arrived, the stream has ended, or the deadline.
func (c *memConn) Read(b []byte) (int, error) {
	n := c.network()
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		now := time.Now()
		late := !c.readBy.IsZero() && !c.readBy.After(now)
		switch {
		case c.closed:
			return 0, opError("read", c.peer.host.addr, net.ErrClosed)
		case c.host.dead && late:
			// Close of the dead node waits for calls such as this one.
			return 0, opError("read", c.peer.host.addr, os.ErrDeadlineExceeded)
		case c.host.stuck():
		case len(c.in) > 0 && !c.in[0].held && !c.in[0].arrives.After(now):
			if c.in[0].fin {
				return 0, io.EOF
			}
			return c.takeLocked(b), nil
		case c.failed != nil:
			return 0, opError("read", c.peer.host.addr, c.failed)
		case late:
			return 0, opError("read", c.peer.host.addr, os.ErrDeadlineExceeded)
		}
		c.cond.Wait()
	}
}

// takeLocked moves arrived bytes to b.
func (c *memConn) takeLocked(b []byte) int {
	got := 0
	now := time.Now()
	for got < len(b) && len(c.in) > 0 {
		s := &c.in[0]
		if s.held || s.fin || s.arrives.After(now) {
			break
		}
		k := copy(b[got:], s.data)
		got += k
		s.data = s.data[k:]
		if len(s.data) == 0 {
			c.in = c.in[1:]
		}
	}
	c.inBytes -= got
	c.peer.cond.Broadcast() // it may wait for room
	return got
}

// Write blocks while the way to the peer is full.
func (c *memConn) Write(b []byte) (int, error) {
	n := c.network()
	n.mu.Lock()
	defer n.mu.Unlock()
	sent := 0
	for {
		room := n.cfg.SocketBytes - c.peer.inBytes
		switch {
		case c.closed:
			return sent, opError("write", c.peer.host.addr, net.ErrClosed)
		case c.host.dead:
			return len(b), nil // the writer itself is dead: the result has no effect
		case c.host.paused:
		case c.failed != nil:
			return sent, opError("write", c.peer.host.addr, c.failed)
		case !c.writeBy.IsZero() && !c.writeBy.After(time.Now()):
			return sent, opError("write", c.peer.host.addr, os.ErrDeadlineExceeded)
		case sent == len(b):
			return sent, nil
		case room > 0:
			k := min(room, len(b)-sent)
			c.sendLocked(segment{data: append([]byte(nil), b[sent:sent+k]...)})
			sent += k
			continue
		}
		c.cond.Wait()
	}
}

// sendLocked sends a segment.
func (c *memConn) sendLocked(s segment) {
	n, to := c.network(), c.peer
	there, back := n.wayOf(c)
	if there.Cut >= Rejected || there.Cut == Open && to.goneLocked() {
		c.breakLocked(syscall.ECONNRESET)
		return
	}
	if there.Cut == Dropped || back.Cut != Open {
		c.stallLocked(true)
	}
	if n.chance(there.Corruption) && len(s.data) > 0 {
		s.data[n.rng.IntN(len(s.data))] ^= 1 << n.rng.IntN(8)
	}
	s.held = there.Cut == Dropped
	if k := len(to.in); k > 0 {
		s.held = s.held || to.in[k-1].held
		s.arrives = to.in[k-1].arrives
	}
	if !s.held {
		c.scheduleLocked(&s, there)
	}
	to.in = append(to.in, s)
	to.inBytes += len(s.data)
	to.cond.Broadcast()
}

// scheduleLocked sets when a segment arrives, not before the segments already queued.
func (c *memConn) scheduleLocked(s *segment, way Path) {
	n, to := c.network(), c.peer
	now := time.Now()
	at := now.Add(way.delay(n.rng))
	for wait := resendAfter; n.chance(way.Loss) && wait < 16*resendAfter; wait *= 2 {
		at = at.Add(wait)
	}
	if at.After(s.arrives) {
		s.arrives = at
	}
	s.held = false
	if s.arrives.After(now) {
		time.AfterFunc(s.arrives.Sub(now), to.wake)
	}
}

func (c *memConn) wake() {
	c.network().mu.Lock()
	defer c.network().mu.Unlock()
	c.cond.Broadcast()
}

// goneLocked reports whether no process holds this end, and its host can answer with a
// reset.
func (c *memConn) goneLocked() bool {
	return c.closed || c.host.dead && c.network().hosts[c.host.addr] != c.host
}

// breakLocked ends this end with an error. Its held segments are never retransmitted.
func (c *memConn) breakLocked(cause error) {
	if c.failed == nil {
		c.failed = cause
	}
	to := c.peer
	for k := len(to.in); k > 0 && to.in[k-1].held; k-- {
		to.inBytes -= len(to.in[k-1].data)
		to.in = to.in[:k-1]
	}
	c.cond.Broadcast()
}

// stallLocked starts the clocks that end a connection behind a cut.
func (c *memConn) stallLocked(sent bool) {
	n := c.network()
	if c.stalled.IsZero() {
		c.stalled, c.unacked = time.Now(), false
		c.endStallAfterLocked(n.cfg.UnackedTimeout + keepAliveGrace)
	}
	if sent && !c.unacked {
		c.unacked = true
		c.endStallAfterLocked(n.cfg.UnackedTimeout)
	}
}

func (c *memConn) endStallAfterLocked(d time.Duration) {
	since := c.stalled
	time.AfterFunc(d, func() {
		c.network().mu.Lock()
		defer c.network().mu.Unlock()
		if c.stalled.Equal(since) {
			c.breakLocked(syscall.ETIMEDOUT)
		}
	})
}

// recheckLocked applies a change of the path.
func (c *memConn) recheckLocked() {
	there, back := c.network().wayOf(c)
	retry := time.Time{}
	if there.Cut == Open && c.closed {
		retry = c.retryLocked()
	}
	if there.Cut == Dropped || back.Cut == Dropped {
		if !c.closed {
			c.stallLocked(len(c.peer.in) > 0 && c.peer.in[len(c.peer.in)-1].held)
		}
	} else {
		c.stalled, c.unacked = time.Time{}, false
	}
	if there.Cut == Open {
		c.releaseLocked(there, retry)
		c.probeLocked()
	}
	c.cond.Broadcast()
}

// probeLocked imitates keep-alives to a far end that has ended but could not send the end
// of the stream: some time later they are answered with a reset.
func (c *memConn) probeLocked() {
	if c.closed || c.failed != nil || !c.peer.goneLocked() {
		return
	}
	if k := len(c.in); k > 0 && c.in[k-1].fin {
		return // it has sent the end of the stream
	}
	time.AfterFunc(c.network().cfg.UnackedTimeout, func() {
		c.network().mu.Lock()
		defer c.network().mu.Unlock()
		if there, back := c.network().wayOf(c); there.Cut == Open && back.Cut == Open {
			c.breakLocked(syscall.ECONNRESET)
		}
	})
}

// releaseLocked sends held segments, or detects that no process receives them.
//
// For a connection that its owner has closed, the kernel retransmits on its own schedule:
// data may arrive long after the path has healed, and after a later connection of the
// same process.
func (c *memConn) releaseLocked(way Path, retry time.Time) {
	to := c.peer
	for i := range to.in {
		s := &to.in[i]
		if !s.held {
			continue
		}
		if to.goneLocked() {
			c.breakLocked(syscall.ECONNRESET) // drops what is held
			return
		}
		if i > 0 {
			s.arrives = to.in[i-1].arrives
		}
		if c.closed {
			s.arrives = laterOf(s.arrives, retry)
		}
		c.scheduleLocked(s, way)
	}
}

// retryLocked draws when a kernel retransmits next after a cut. Its pauses double, so it
// is at most as long from now as the cut has lasted.
func (c *memConn) retryLocked() time.Time {
	now := time.Now()
	if c.stalled.IsZero() {
		return now
	}
	most := min(now.Sub(c.stalled), retryMax)
	return now.Add(time.Duration(c.network().rng.Int64N(int64(most) + 1)))
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Close closes this end; the peer reads the end of the stream after all data that was
// sent. Idempotent.
func (c *memConn) Close() error {
	c.network().mu.Lock()
	defer c.network().mu.Unlock()
	c.closeLocked()
	return nil
}

// unread returns how many bytes wait to be read; some may still be in flight.
func (c *memConn) unread() int {
	c.network().mu.Lock()
	defer c.network().mu.Unlock()
	return c.inBytes
}

func (c *memConn) closeLocked() {
	if c.closed {
		return
	}
	if c.failed == nil && !c.host.dead {
		c.sendLocked(segment{fin: true})
	}
	c.closed = true
	c.in, c.inBytes = nil, 0
	c.cond.Broadcast()
	c.peer.cond.Broadcast()
	c.peer.probeLocked()
	if c.peer.goneLocked() {
		delete(c.network().ends, c)
		delete(c.network().ends, c.peer)
	}
}

// SetDeadline sets both deadlines.
func (c *memConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline bounds Read.
func (c *memConn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readBy, t) }

// SetWriteDeadline bounds Write.
func (c *memConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeBy, t) }

func (c *memConn) setDeadline(d *time.Time, t time.Time) error {
	c.network().mu.Lock()
	defer c.network().mu.Unlock()
	*d = t
	c.cond.Broadcast()
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		time.AfterFunc(wait, c.wake)
	}
	return nil
}
