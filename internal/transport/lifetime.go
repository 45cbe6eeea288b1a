package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// lifetime owns what Close ends: the context, the goroutines and the open connections of a
// transport.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards the fields below. Invariant: once closed, nothing is added to conns, and wg
	// only goes down.
	mu      sync.Mutex
	started atomic.Bool // written with mu
	closed  bool
	conns   map[io.Closer]struct{}
}

func (t *lifetime) initLifetime() {
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.conns = make(map[io.Closer]struct{})
}

// markStarted lets goroutines be spawned. It fails the second time and after the end.
func (t *lifetime) markStarted() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if t.started.Load() {
		return errors.New("transport: started twice")
	}
	t.started.Store(true)
	return nil
}

// markClosed ends the context. It returns the connections that the caller must close; first
// is false if it was called before.
func (t *lifetime) markClosed() (conns map[io.Closer]struct{}, first bool) {
	t.mu.Lock()
	first = !t.closed
	t.closed = true
	conns, t.conns = t.conns, nil
	t.mu.Unlock()
	t.cancel()
	return conns, first
}

// spawn runs f on a goroutine that Close waits for. It reports false, and runs
// nothing, before Start and after Close.
func (t *lifetime) spawn(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.started.Load() {
		return false
	}
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		f()
	}()
	return true
}

// track makes Close close c. It reports false when Close has begun: then the caller must
// close c.
func (t *lifetime) track(c io.Closer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.conns[c] = struct{}{}
	return true
}

// closeConn closes and untracks c.
func (t *lifetime) closeConn(c io.Closer) {
	t.untrack(c)
	_ = c.Close() // nothing more is sent on it
}

func (t *lifetime) untrack(c io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// orClosed returns ErrClosed instead of an error that occurred after Close began.
func (t *lifetime) orClosed(err error) error {
	if t.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// sleep waits for d. It reports false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// eventSink passes the events of peers to the observer, one at a time.
type eventSink struct {
	life     *lifetime
	observer func(PeerEvent)

	// mu makes a change of the accepted connections and its event one step. The observer
	// is called with it held, so no method of Transport may lock it. Lock order: mu, then
	// any other.
	mu sync.Mutex
	// muted stops the events: this node's process is dead (Memory).
	muted atomic.Bool
}

// emit calls the observer, unless the transport is closing or live reports that the
// event's subject no longer exists. The caller holds no lock.
func (s *eventSink) emit(ev PeerEvent, live func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if live != nil && !live() || s.observer == nil || s.muted.Load() || s.life.ctx.Err() != nil {
		return
	}
	s.observer(ev)
}
