package transport

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// 300 sockets send three bytes and wait: honest handshakes go on, also those that come
// from the address of the attacker.
func TestAttackSlotsHeldByStrangers(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2, patient)
		a := w.start(1, patient)
		for range 300 {
			if _, err := w.stranger(b).Write([]byte("PEE")); err != nil {
				w.Fatal(err)
			}
		}
		for i := range 10 {
			if _, err := a.Probe(w.ctx(), b.Self().Addr); err != nil {
				w.Errorf("honest handshake %d: %v", i, err)
			}
		}
		a.Learn(b.Self())
		a.awaitEvent(Connected, Control, 2)
		if n := b.Counters().Strangers.Load(); n > 256 {
			w.Errorf("%d strangers", n)
		}
		w.poll("those displaced are counted", func() bool { return b.Counters().HandshakeFailures[FailBusy].Load() > 0 })
	})
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr { return memAddr(a.from) }

func TestSlotsAreSharedBySource(t *testing.T) {
	var s strangers
	var taken atomic.Int64
	s.initStrangers(8, 3, &taken)
	early := false
	s.draw = func(n int) int {
		if early {
			return 0
		}
		return n - 1
	}
	enter := func(from string) (in, out *strangerConn) { return s.enter(addressed{from: from}) }
	var first *strangerConn
	for i := range 3 {
		in, out := enter(fmt.Sprintf("192.0.2.1:%d", i))
		if out != nil {
			t.Fatalf("%d: %v ends", i, out.conn)
		}
		if i == 0 {
			first = in
		}
	}
	if _, out := enter("192.0.2.1:3"); out != first {
		t.Errorf("not the oldest of the source ends: %+v", out)
	}
	if s.leaveStranger(first) {
		t.Error("one that lost its slot gives it back")
	}
	for i := range 5 {
		if _, out := enter(fmt.Sprintf("[2001:db8::%d:1]:7", i)); i < 3 && out != nil || i >= 3 && out == nil {
			t.Errorf("a network of IPv6 addresses, %d: %+v", i, out)
		}
	}
	enter("192.0.2.7:1")
	if in, out := enter("192.0.2.9:1"); out != nil || !s.leaveStranger(in) {
		t.Errorf("%+v ends though a slot is free", out)
	}
	early = true
	if _, out := enter("192.0.2.10:1"); out == nil || out.source != "192.0.2.1" {
		t.Errorf("no early drop of any: %+v", out)
	}
	early = false
	enter("192.0.2.11:1")
	if _, out := enter("192.0.2.12:1"); out == nil || out.source != "2001:db8::/64" || taken.Load() != 8 {
		t.Errorf("with all slots taken, not one of the fullest source ends: %+v of %d", out, taken.Load())
	}
}

// TestTheSlotsTakenAreCountedWithThem checks that the counter of slots changes together with the
// slots, while strangers come and go side by side: a counter that is written later may keep a
// former number for as long as no other stranger comes.
func TestTheSlotsTakenAreCountedWithThem(t *testing.T) {
	var s strangers
	var taken atomic.Int64
	s.initStrangers(100, 100, &taken)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20_000 {
				in, _ := s.enter(addressed{from: "192.0.2.1:1"})
				s.mu.Lock()
				counted, held := taken.Load(), s.all.Len()
				s.mu.Unlock()
				if s.leaveStranger(in); counted != int64(held) {
					t.Errorf("%d slots are counted, %d are taken", counted, held)
					return
				}
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 0 {
		t.Errorf("%d slots are counted as taken after the last stranger has left", n)
	}
}
