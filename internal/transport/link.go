package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/socket"
)

// link maintains our connection of one class to one peer, and its send queue.
//
// Life cycle. Connections are one-way: frames flow from the side that dialled to the side
// that accepted, and never back. Two peers that exchange frames have two connections per
// class. One goroutine owns a link:
//
//	for interested or redial, and not stopped {
//		wait for the back-off
//		dial, shake hands, asking for the peer's NodeID
//		on failure:  empty the queue; report Refused, OtherNode or DialFailed
//		on success:  report Connected
//		             write the queue until the connection breaks (writer.go)
//		             empty the queue; report Lost; redial immediately
//	}
//
// A control link is always interested, until the peer is unlearnt: its loss is the first
// evidence of a crash, and only an open connection can be lost. Links of the other
// classes are interested while something is queued. Each redials once after a loss,
// because the outcome (nothing answers: Refused; another incarnation: OtherNode; the
// same: Connected) distinguishes a crash from a transient fault.
//
// While a connection is open, a second goroutine reads from it. No data ever arrives, so
// the read returns only when the connection ends: the end is detected immediately (0.7 ms
// after a SIGKILL on loopback), not at the next write.
//
// The queue is emptied at every loss and failure, before the event. Frames of a class
// arrive in order or not at all, and frames written before the loss may or may not have
// arrived. Sending the rest later would keep the order, but a caller that was notified of
// the loss must not see its request executed seconds later.
//
// Tried in thought and rejected: one connection for both directions. Both sides
// dial at the same time, one connection has to be dropped, and frames sent on it
// meanwhile are lost or overtaken; every rule that breaks the tie makes one
// peer's sending depend on the other's dialling.
type link struct {
	shared *linkShared
	peer   Peer
	class  Class
	limit  classLimits
	// reached is set once a connection to the peer, of any class, was established.
	reached *atomic.Bool

	// wake is for the owner goroutine, which checks all state.
	wake signal.Wake

	// mu guards what follows. It is held for a copy of a frame, never over a system
	// call. Lock order: link.mu, then lifetime.mu.
	mu sync.Mutex
	queue
	direct direct
	// idle: the owner waits for wake.
	idle bool
	// started: the owner goroutine exists. cancel ends its dials and waits.
	started bool
	ctx     context.Context
	cancel  context.CancelFunc
	// redial requests one attempt without interest.
	redial bool
	// stopped is final; why is the drop reason of the frames then queued.
	stopped bool
	why     DropReason
	// conn is the open connection, or nil; broken is why it was lost.
	conn   net.Conn
	broken error
}

// linkShared holds what all links of a transport share.
type linkShared struct {
	cfg      *Config
	life     *lifetime
	events   *eventSink
	dialler  *dialler
	counters *Counters
	// flows name the flow of a frame, by kind; nil: no frame has one.
	flows [256]func(payload []byte) (f Flow, urgent bool)
	// blocks holds the memory for queued frames (backlog).
	blocks sync.Pool
}

func (l *link) initLink(s *linkShared, p Peer, c Class, reached *atomic.Bool) {
	l.shared, l.peer, l.class, l.limit, l.reached = s, p, c, *s.cfg.class(c), reached
	l.wake = signal.NewWake()
	l.backlog.pool, l.express.blocks.pool = &s.blocks, &s.blocks
}

// startLink lets the owner run if the link is interested and the engine has started.
func (l *link) startLink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startLocked()
}

func (l *link) startLocked() {
	if l.started || l.stopped || !l.shared.life.started.Load() || !l.interestedLocked() {
		return
	}
	l.ctx, l.cancel = context.WithCancel(l.shared.life.ctx)
	l.started = l.shared.life.spawn(l.runLink)
	if !l.started {
		l.cancel()
	}
}

func (l *link) interestedLocked() bool {
	return l.class == Control || l.redial || l.framesLocked() > 0
}

// stopLink ends the link for good.
func (l *link) stopLink(why DropReason) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	l.stopped, l.why = true, why
	n := l.emptyLocked()
	conn := l.conn
	if l.started {
		l.cancel()
	}
	l.mu.Unlock()
	l.countDrops(why, n)
	if conn != nil {
		_ = conn.Close() // unblocks writer and watcher
	}
	l.wake.Set()
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.stopped
}

// runLink is the owner goroutine.
func (l *link) runLink() {
	defer l.cancel()
	// fails counts consecutive failed attempts, young the consecutive connections that
	// did not last: the first attempt after a loss is immediate.
	fails, young, refused := 0, 0, false
	for l.awaitInterest() && l.pauseFor(l.backoff(fails+max(young-1, 0))) {
		conn, err := l.connect()
		if err != nil {
			if !refused && isRefused(err) {
				// An earlier failure of another kind, such as a hang-up by a dying
				// process, must not delay the refusals that prove its death.
				refused, fails = true, 0
			}
			fails++
			l.failed(err)
			continue
		}
		fails, refused = 0, false
		since := time.Now()
		err = l.serveConn(conn)
		young++
		if time.Since(since) >= l.shared.cfg.BackoffMax {
			young = 0
		}
		l.onLost(err)
	}
}

// awaitInterest blocks until there is a reason to connect. It reports false when
// the link has been stopped.
func (l *link) awaitInterest() bool {
	for {
		l.mu.Lock()
		stopped, interested := l.stopped, l.interestedLocked()
		l.idle = !stopped && !interested
		if interested {
			l.redial = false
		}
		l.mu.Unlock()
		if stopped || interested {
			return !stopped
		}
		select {
		case <-l.wake:
		case <-l.ctx.Done():
		}
	}
}

// pauseFor waits for d. It reports false when the link has been stopped.
func (l *link) pauseFor(d time.Duration) bool {
	if d == 0 {
		return l.ctx.Err() == nil
	}
	return sleep(l.ctx, d)
}

// backoff returns the wait before an attempt after n failures.
func (l *link) backoff(n int) time.Duration {
	return backoff(l.shared.cfg.BackoffMin, l.shared.cfg.BackoffMax, n, uint64(l.shared.cfg.ID)^uint64(l.peer.ID))
}

// backoff returns 0 for n = 0, and min(least*2^(n-1), most) less up to a quarter
// for n > 0. The reduction depends only on spread and n: the peers of one node spread
// out, and a test can be repeated.
func backoff(least, most time.Duration, n int, spread uint64) time.Duration {
	if n == 0 {
		return 0
	}
	d := most
	if n-1 < 30 && least<<(n-1) > 0 {
		d = min(most, least<<(n-1))
	}
	h := (spread + uint64(n)) * 0x9e3779b97f4a7c15 // Fibonacci hashing
	return d - time.Duration(float64(d/4)*float64(h>>11)/(1<<53))
}

// connect dials the peer and records the open connection.
func (l *link) connect() (net.Conn, error) {
	conn, _, err := l.shared.dialler.connect(l.ctx, l.peer.Addr, purpose(l.class), l.peer.ID)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		l.shared.life.closeConn(conn)
		return nil, ErrClosed
	}
	l.conn, l.broken = conn, nil
	l.direct.try = socket.DirectWriter(conn, &l.direct.buf)
	return conn, nil
}

// serveConn reports the connection and writes the queue to it until it breaks. It
// returns why it broke, with all of the connection's goroutines gone.
func (l *link) serveConn(conn net.Conn) error {
	counters := &l.shared.counters.Class[l.class]
	counters.Connections.Add(1)
	l.reached.Store(true)
	l.emit(PeerEvent{Peer: l.peer, Class: l.class, Type: Connected, RoundTrip: roundTrip(conn)})
	watched := make(chan struct{})
	if !l.shared.life.spawn(func() { defer close(watched); l.watch(conn) }) {
		close(watched)
	}
	l.writeLoop(conn)
	l.shared.life.closeConn(conn)
	<-watched
	counters.Connections.Add(-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.direct.try = nil, nil
	return l.broken
}

// roundTripNow returns the present round-trip time of the open connection, 0 if there is none or
// the system does not report it.
func (l *link) roundTripNow() time.Duration {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	return roundTrip(conn)
}

// errChatter: the accepting side sent data, which no node of this version does.
var errChatter = errors.New("transport: the peer sent bytes on a one-way connection")

// watch waits for the end of the connection.
func (l *link) watch(conn net.Conn) {
	var b [1]byte
	n, err := 0, error(nil)
	for n == 0 && err == nil {
		n, err = conn.Read(b[:])
	}
	if n > 0 {
		err = errChatter
	}
	l.breakOff(conn, err)
}

// breakOff ends the open connection; the first cause is kept.
func (l *link) breakOff(conn net.Conn, cause error) {
	l.mu.Lock()
	if l.broken == nil {
		l.broken = cause
	}
	l.mu.Unlock()
	_ = conn.Close() // unblocks the writer
	l.wake.Set()
}

// onLost empties the queue after an open connection broke.
func (l *link) onLost(cause error) {
	l.mu.Lock()
	n := l.emptyLocked()
	l.redial = true
	why := l.whyLocked(DropLost)
	l.mu.Unlock()
	l.countDrops(why, n)
	if l.alive() {
		l.shared.counters.Class[l.class].Lost.Add(1)
		l.emit(PeerEvent{Peer: l.peer, Class: l.class, Type: Lost, Err: cause})
	}
}

// failed empties the queue after an attempt to connect failed.
func (l *link) failed(cause error) {
	l.mu.Lock()
	n := l.emptyLocked()
	why := l.whyLocked(DropDialFailed)
	l.mu.Unlock()
	l.countDrops(why, n)
	ev := failureEvent(l.peer, l.class, cause)
	if ev.Type == OtherNode && !l.reached.Load() {
		// The peer may never have been there: the source of the address was wrong, or
		// lied. Another node's answer then proves nothing.
		l.emit(PeerEvent{Peer: l.peer, Class: l.class, Type: DialFailed, Err: cause})
		ev.Former = 0
	}
	l.emit(ev)
}

// failureEvent returns the event for a failed attempt to reach p.
func failureEvent(p Peer, c Class, cause error) PeerEvent {
	var other *otherNodeError
	switch {
	case errors.As(cause, &other):
		return PeerEvent{Peer: other.peer, Class: c, Type: OtherNode, Err: cause, Former: p.ID}
	case isRefused(cause):
		return PeerEvent{Peer: p, Class: c, Type: Refused, Err: cause}
	}
	return PeerEvent{Peer: p, Class: c, Type: DialFailed, Err: cause}
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// whyLocked returns the reason for frames dropped now.
func (l *link) whyLocked(otherwise DropReason) DropReason {
	if l.stopped {
		return l.why
	}
	return otherwise
}

func (l *link) countDrops(why DropReason, frames int) {
	if frames > 0 {
		l.shared.counters.Drops[why].Add(uint64(frames))
	}
}

func (l *link) emit(ev PeerEvent) { l.shared.events.emit(ev, l.alive) }
