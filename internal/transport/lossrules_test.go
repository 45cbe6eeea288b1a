package transport

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// linkOf returns the link of a node to another one.
func (n *node) linkOf(to *node, c Class) *link {
	n.w.Helper()
	l, err := n.e.peers.linkTo(to.ID(), c)
	if err != nil {
		n.w.Fatal(err)
	}
	return l
}

// breakNow breaks the open connection of a link, and returns how long it takes until the next one stands.
func (n *node) breakNow(l *link) time.Duration {
	n.w.Helper()
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	began, stood := time.Now(), n.count(Connected, l.class)
	l.breakOff(conn, io.EOF)
	n.await("another connection", func() bool { return n.countLocked(Connected, l.class) > stood })
	synctest.Wait()
	return time.Since(began)
}

// TestOnlyYoungConnectionsDelayTheNext checks that a link redials immediately after a loss, but for the losses of
// connections that did not last: these delay the next attempt ever longer, until one has lasted BackoffMax.
func TestOnlyYoungConnectionsDelayTheNext(t *testing.T) {
	const least, most = 100 * time.Millisecond, time.Second
	for lasted, immediate := range map[time.Duration]bool{0: false, most - 1: false, most: true, 2 * most: true} {
		inMemory(t, func(w *world) {
			a, b := w.start(1, func(c *Config) { c.BackoffMin, c.BackoffMax = least, most }), w.start(2)
			a.Learn(b.Self())
			a.awaitEvent(Connected, Control, 2)
			synctest.Wait()
			l := a.linkOf(b, Control)
			if d := a.breakNow(l); d != 0 {
				w.Errorf("redials %v after the first loss", d)
			}
			if d := a.breakNow(l); d != l.backoff(1) || d == 0 {
				w.Errorf("redials %v after the second loss, want %v", d, l.backoff(1))
			}
			passTime(lasted)
			want := l.backoff(2)
			if immediate {
				want = 0
			}
			if d := a.breakNow(l); d != want {
				w.Errorf("redials %v after the loss of a connection that lasted %v, want %v", d, lasted, want)
			}
		})
	}
}

// TestAConnectionForAStoppedLinkIsClosed checks that a link which is stopped while it dials closes the connection
// that comes of it, and that its transport no longer holds it.
func TestAConnectionForAStoppedLinkIsClosed(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		a.awaitEvent(Connected, Control, 2)
		synctest.Wait()
		held := len(a.e.life.conns)
		l := a.linkOf(b, Message)
		l.stopLink(DropForgotten)
		l.ctx = context.Background()
		if conn, err := l.connect(); conn != nil || err != ErrClosed || l.conn != nil {
			w.Errorf("a stopped link has connection %v, error %v", conn, err)
		}
		synctest.Wait()
		if n := len(a.e.life.conns); n != held {
			w.Errorf("%d connections are held, want %d", n, held)
		}
	})
}

// endless is a connection without bytes, until it is closed.
type endless struct {
	net.Conn
	ended chan struct{}
}

func (c *endless) Read([]byte) (int, error) { <-c.ended; return 0, io.EOF }
func (c *endless) Close() error {
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
	return nil
}

// TestAConnectionEndsWithItsTransport checks that a connection which stands only once Close has begun is closed, and
// that the link does not wait for a goroutine that could no longer be started.
func TestAConnectionEndsWithItsTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, closed := range []bool{true, false} {
			l := testLink(t)
			l.reached = new(atomic.Bool)
			if err := l.shared.life.markStarted(); err != nil {
				t.Fatal(err)
			}
			if closed {
				l.shared.life.markClosed()
			}
			conn := &endless{ended: make(chan struct{})}
			served := make(chan error, 1)
			l.conn = conn
			go func() { served <- l.serveConn(conn) }()
			synctest.Wait()
			if n := l.shared.counters.Class[Message].Connections.Load(); n != 1 {
				t.Errorf("%d connections are counted while it is served", n)
			}
			l.stopLink(DropClosed)
			synctest.Wait()
			select {
			case <-served:
			default:
				t.Fatal("the connection is still served")
			}
			select {
			case <-conn.ended:
			default:
				t.Error("the connection is still open")
			}
			if n := l.shared.counters.Class[Message].Connections.Load(); n != 0 || l.conn != nil {
				t.Errorf("%d connections are counted afterwards", n)
			}
			l.shared.life.wg.Wait()
		}
	})
}

// TestALossDuringADirectWriteWakesTheOwner checks that the owner of a link, which looks at nothing while a sender
// writes, is woken afterwards if the connection was lost or frames were queued meanwhile.
func TestALossDuringADirectWriteWakesTheOwner(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(l *link)
		wake      bool
	}{
		"nothing":             {func(*link) {}, false},
		"the connection ends": {func(l *link) { l.breakOff(&idleConn{}, io.EOF) }, true},
		"the link is stopped": {func(l *link) { l.stopLink(DropForgotten) }, true},
		"a frame is queued": {func(l *link) {
			if err := l.sendFrame(KindView, []byte("later")); err != nil {
				t.Error(err)
			}
		}, true},
	} {
		l := testLink(t)
		l.idle = true
		l.direct.try = func() int {
			c.meanwhile(l)
			select {
			case <-l.wake: // the owner finds that a sender writes, and waits again
			default:
			}
			return frameHeaderBytes + len("payload")
		}
		if err := l.sendFrame(KindView, []byte("payload")); err != nil {
			t.Fatal(err)
		}
		if woken := len(l.wake) == 1; woken != c.wake || l.idle == c.wake {
			t.Errorf("%s: the owner is woken %v, idle %v", name, woken, l.idle)
		}
	}
}
