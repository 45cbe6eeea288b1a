package transport

import (
	"errors"
	"net"
	"testing"
)

// TestALifetimeRunsNothingOutsideOfIt: goroutines exist between start and end only, and
// connections that come later are left to the caller.
func TestALifetimeRunsNothingOutsideOfIt(t *testing.T) {
	var life lifetime
	life.initLifetime()
	if life.spawn(func() { t.Error("ran before the start") }) {
		t.Error("spawned before the start")
	}
	if err := life.markStarted(); err != nil {
		t.Fatal(err)
	}
	if err := life.markStarted(); err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("started twice: %v", err)
	}
	if cause := errors.New("another"); life.orClosed(cause) != cause {
		t.Error("an error before the end is replaced")
	}
	kept, gone := net.Conn(&memConn{}), net.Conn(&memConn{})
	if !life.track(kept) || !life.track(gone) {
		t.Error("a connection is not tracked")
	}
	life.untrack(gone)
	ran := make(chan struct{})
	if !life.spawn(func() { <-life.ctx.Done(); close(ran) }) {
		t.Error("nothing was spawned")
	}
	conns, first := life.markClosed()
	if _, ok := conns[kept]; !ok || !first || len(conns) != 1 {
		t.Errorf("left to close: %d connections, first %v", len(conns), first)
	}
	life.wg.Wait()
	select {
	case <-ran:
	default:
		t.Error("the goroutine did not end before Wait")
	}
	if conns, first := life.markClosed(); first || len(conns) != 0 {
		t.Errorf("the second end returns %d connections, first %v", len(conns), first)
	}
	if life.track(gone) || life.spawn(func() {}) || life.markStarted() != ErrClosed || life.orClosed(nil) != ErrClosed {
		t.Error("something begins after the end")
	}
}

// TestEventsEndWithTheirSubject: live decides under the sink's lock, and a closed or muted
// sink calls nothing.
func TestEventsEndWithTheirSubject(t *testing.T) {
	var life lifetime
	life.initLifetime()
	n := 0
	sink := eventSink{life: &life, observer: func(PeerEvent) { n++ }}
	for _, live := range []func() bool{nil, func() bool { return true }, func() bool { return false }} {
		sink.emit(PeerEvent{}, live)
	}
	if n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	asked := false
	sink.muted.Store(true)
	sink.emit(PeerEvent{}, func() bool { asked = true; return true })
	if n != 2 || !asked { // live changes the table even if the observer is not called
		t.Errorf("muted: %d events, live called: %v", n, asked)
	}
	sink.muted.Store(false)
	life.markClosed()
	if sink.emit(PeerEvent{}, nil); n != 2 {
		t.Error("an event after the end")
	}
}
