package transport

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func TestControlIsKeptAndOtherClassesOpenOnDemand(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		a.awaitEvent(Connected, Control, 2)
		b.awaitEvent(Accepted, Control, 1)
		a.send(b, Control, "x")
		b.awaitFrames(1)
		if n := a.count(Connected, Message) + a.count(Connected, Bulk); n != 0 {
			w.Errorf("%d connections that nobody asked for", n)
		}
		a.send(b, Bulk, "y")
		b.awaitFrames(2)
		a.awaitEvent(Connected, Bulk, 2)
		if n := a.count(Connected, Message); n != 0 {
			w.Errorf("%d message connections that nobody asked for", n)
		}
	})
}

func TestPeersLearntBeforeStartAreDialledByIt(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.start(2)
		a := w.make(1, "")
		a.Learn(b.Self())
		a.send(b, Message, "early")
		a.run()
		b.awaitFrames(1)
		a.awaitEvent(Connected, Control, 2)
	})
}

func TestProbeReturnsTheAnsweringNode(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		got, err := a.Probe(w.ctx(), b.Self().Addr)
		if err != nil || got != b.Self() {
			w.Errorf("Probe = %+v, %v; want %+v", got, err, b.Self())
		}
		if got, err := a.Probe(w.ctx(), a.Self().Addr); err != nil || got != a.Self() {
			w.Errorf("Probe of itself = %+v, %v", got, err)
		}
		addr := b.Self().Addr
		if err := b.Close(); err != nil {
			w.Error(err)
		}
		if _, err := a.Probe(w.ctx(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
			w.Errorf("Probe where nobody listens: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := a.Probe(ctx, addr); !errors.Is(err, context.Canceled) {
			w.Errorf("Probe with an ended context: %v", err)
		}
	})
}

func TestNodesThatDoNotFitAreRefusedWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		with configure
		code Failure
		says []string
	}{
		"cluster":         {func(c *Config) { c.Cluster = "prod" }, FailCluster, []string{`cluster name is \"prod\" at \"node-2\"`, `\"test\" at \"node-1\"`}},
		"setting":         {func(c *Config) { c.Settings = map[string]string{"lease": "2s"} }, FailSetting, []string{`setting lease is \"2s\" at \"node-2\"`, `\"1s\" at \"node-1\"`}},
		"missing setting": {func(c *Config) { c.Settings = nil }, FailSetting, []string{`setting lease is not set at \"node-2\"`, `\"1s\" at \"node-1\"`}},
		"surplus setting": {func(c *Config) { c.Settings = map[string]string{"lease": "1s", "shards": "9"} }, FailSetting, []string{`setting shards is \"9\" at \"node-2\"`, `not set at \"node-1\"`}},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(w *world) {
				var log logBook
				a, b := w.start(1), w.start(2, c.with, log.configure)
				_, err := a.Probe(w.ctx(), b.Self().Addr)
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Code != c.code || refused.Addr != b.Self().Addr {
					w.Fatalf("Probe: %v", err)
				}
				// A stranger receives only the kind of the difference; the log of the
				// refusing node has the values.
				for _, secret := range []string{"prod", "2s", "node-2"} {
					if strings.Contains(err.Error(), secret) {
						w.Errorf("%q tells a stranger %q", err, secret)
					}
				}
				for _, s := range c.says {
					if log.count(s) == 0 {
						w.Errorf("the log does not say %q:\n%s", s, &log.out)
					}
				}
				a.Learn(b.Self())
				ev := a.awaitEvent(DialFailed, Control, 2)
				if !errors.As(ev.Err, &refused) {
					w.Errorf("event says %v", ev.Err)
				}
				if _, err := a.DialStream(b.Self().Addr, patience); !errors.As(err, &refused) {
					w.Errorf("DialStream: %v", err)
				}
				w.poll("counted on both sides", func() bool {
					return b.Counters().HandshakeFailures[c.code].Load() >= 3 && a.Counters().DialRefusals[c.code].Load() >= 3
				})
				if n := b.Counters().Garbage(); n != 0 {
					w.Errorf("%d refused nodes were taken for garbage", n)
				}
			})
		})
	}
}

func TestALossIsReportedThenTheRefusals(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.pair()
		a.awaitEvent(Accepted, Control, 2)
		if err := b.Close(); err != nil {
			w.Fatal(err)
		}
		lost := a.awaitEvent(Lost, Control, 2)
		if lost.Err == nil {
			w.Error("a loss without a cause")
		}
		a.awaitEvent(AcceptedLost, Control, 2)
		a.await("three refusals", func() bool { return a.countLocked(Refused, Control) >= 3 })
	})
}

func TestAnotherIncarnationAtTheAddressIsReported(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		a.send(b, Message, "x")
		b.awaitFrames(1)
		a.awaitEvent(Connected, Control, 2)
		addr := b.Self().Addr
		if err := b.Close(); err != nil {
			w.Fatal(err)
		}
		c := w.make(3, addr)
		c.run()
		for _, class := range []Class{Control, Message} {
			if class == Message {
				// A queued frame makes the link dial, unless the failure of the former
				// attempt drops the frame.
				w.poll("dialled", func() bool {
					_ = a.Send(2, Message, KindView, []byte("for the dead"))
					return a.count(OtherNode, Message) > 0
				})
			}
			ev := a.awaitEvent(OtherNode, class, 3)
			if ev.Former != 2 || ev.Peer != c.Self() {
				w.Errorf("%v: OtherNode says %+v", class, ev)
			}
		}
		a.Forget(2)
		a.Learn(c.Self())
		a.send(c, Message, "y")
		if got := c.awaitFrames(1); got[0] != "1:y" {
			w.Errorf("the new incarnation got %q", got)
		}
	})
}

// A wrong address, forged or misconfigured, is no proof of a crash: another node that
// answers there proves nothing about a node that was never reached there.
func TestAWrongAddressProvesNothing(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(Peer{ID: 7, Name: "seven", Addr: b.Self().Addr})
		if ev := a.awaitEvent(OtherNode, Control, 2); ev.Former != 0 {
			w.Errorf("node %d was never met there: %+v", ev.Former, ev)
		}
		if ev := a.awaitEvent(DialFailed, Control, 7); ev.Err == nil || !strings.Contains(ev.Err.Error(), `("node-2") now`) {
			w.Errorf("%+v", ev)
		}
	})
}

// Open reports whether frames may be in flight, and opens no connection.
func TestOpenReportsFramesInFlight(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		if a.Open(2, Message) {
			w.Error("open to a node that nobody knows")
		}
		a.Learn(b.Self())
		a.awaitEvent(Connected, Control, 2)
		if a.Open(2, Message) || !a.Open(2, Control) || a.Open(2, classes) {
			w.Error("before anything is sent but control frames")
		}
		if err := a.Send(2, Message, KindView, []byte("x")); err != nil {
			w.Fatal(err)
		}
		if !a.Open(2, Message) {
			w.Error("not open with a frame that waits, or a connection")
		}
		b.awaitFrames(1)
		if !a.Open(2, Message) {
			w.Error("not open with a connection")
		}
		if err := b.Close(); err != nil {
			w.Fatal(err)
		}
		a.awaitEvent(Lost, Message, 2)
		w.poll("what is lost is not open", func() bool { return !a.Open(2, Message) })
	})
}

// A question over a new connection can be answered immediately: the handshake itself has
// the sender's address.
func TestADiallerCanBeAnswered(t *testing.T) {
	everywhere(t, func(w *world) {
		answered := make(chan error, 1)
		b := w.make(2, "")
		b.onFrame = func(from gossip.NodeID, _ []byte) { answered <- b.Send(from, Message, KindView, []byte("pong")) }
		b.run()
		a := w.start(1)
		a.Learn(b.Self())
		a.send(b, Message, "ping")
		if err := <-answered; err != nil {
			w.Error(err)
		}
		a.awaitFrames(1)
	})
}

// After a restart at the same address, other nodes' views still have the former incarnation
// there: the node neither dials itself nor logs a warning.
func TestAFormerIncarnationIsNotLookedForAtHome(t *testing.T) {
	everywhere(t, func(w *world) {
		a := w.start(1)
		a.Learn(Peer{ID: 7, Name: "one, before", Addr: a.Self().Addr})
		if ev := a.awaitEvent(DialFailed, Control, 7); !errors.Is(ev.Err, errOwnAddress) {
			w.Errorf("%+v", ev)
		}
		if n := a.Counters().HandshakeFailures[FailIdentity].Load() + a.Counters().Dials.Load(); n != 0 {
			w.Errorf("dialled itself, %d", n)
		}
	})
}

// TestUnconfirmedAddressesAreReplaced: an address at which a node was never reached is replaced by the next
// one that is learnt; an address at which it was reached is kept.
func TestUnconfirmedAddressesAreReplaced(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b, c := w.start(1), w.start(2), w.start(3)
		a.Learn(Peer{ID: 2, Name: "forged", Addr: c.Self().Addr})
		a.awaitEvent(DialFailed, Control, 2)
		a.Learn(b.Self())
		a.awaitEvent(Connected, Control, 2)
		a.send(b, Message, "to the right one")
		b.awaitFrames(1)
		a.Learn(Peer{ID: 2, Name: "forged", Addr: c.Self().Addr}, Peer{ID: 2})
		a.send(b, Message, "again")
		b.awaitFrames(2)
		if n := a.count(Lost, Control) + a.count(Lost, Message); n != 0 {
			w.Errorf("%d connections lost", n)
		}
		if n := a.Counters().Peers.Load(); n != 1 {
			w.Errorf("%d peers known", n)
		}
	})
}

func TestForgottenNodesStayOut(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.pair()
		a.awaitEvent(Accepted, Control, 2)
		a.Forget(2)
		a.Learn(b.Self())
		if err := a.Send(2, Control, KindView, nil); err != ErrUnknownPeer {
			w.Errorf("Send to a forgotten node: %v", err)
		}
		if err := a.WaitRoom(w.ctx(), 2, Control); err != ErrUnknownPeer {
			w.Errorf("WaitRoom: %v", err)
		}
		b.awaitEvent(Lost, Control, 1)
		ev := b.awaitEvent(DialFailed, Control, 1)
		var refused *RefusedError
		if !errors.As(ev.Err, &refused) || refused.Code != FailForgotten {
			w.Errorf("the forgotten node is told %v", ev.Err)
		}
		if _, err := b.Probe(w.ctx(), a.Self().Addr); !errors.As(err, &refused) {
			w.Errorf("Probe by a forgotten node: %v", err)
		}
		if n := a.count(AcceptedLost, Control) + a.count(Lost, Control); n != 0 {
			w.Errorf("%d events about a forgotten node", n)
		}
	})
}

func TestUnlearntNodesMayComeBack(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		b.Learn(a.Self())
		a.send(b, Control, "1")
		b.awaitFrames(1)
		b.awaitEvent(Connected, Control, 1) // a later one would add b again
		a.Unlearn(2)
		b.awaitEvent(AcceptedLost, Control, 1)
		if err := a.Send(2, Control, KindView, nil); err != ErrUnknownPeer {
			w.Errorf("Send: %v", err)
		}
		b.send(a, Control, "still welcome")
		a.awaitFrames(1)
		a.Learn(b.Self())
		a.send(b, Control, "2")
		b.awaitFrames(2)
	})
}

func TestTheObserverMayUseTheTransport(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.make(1, ""), w.start(2)
		done := make(chan struct{})
		a.Observe(func(ev PeerEvent) {
			if ev.Type == Accepted {
				a.Learn(ev.Peer)
				if err := a.Send(ev.Peer.ID, Message, KindView, []byte("welcome")); err != nil {
					w.Error(err)
				}
				a.Forget(77)
				a.Unlearn(78)
				a.Counters().QueueBytes(Message)
				close(done)
			}
		})
		a.run()
		b.Learn(a.Self())
		<-done
		b.awaitFrames(1)
		b.Unlearn(1)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		b.Learn(a.Self())
		a.send(b, Message, "x")
		b.awaitFrames(1)
		b.awaitEvent(Accepted, Control, 1)
		s, err := a.DialStream(b.Self().Addr, patience)
		if err != nil {
			w.Fatal(err)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := a.Close(); err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
		if err := a.Send(2, Message, KindView, nil); err != ErrClosed {
			w.Errorf("Send: %v", err)
		}
		if err := a.Send(99, Message, KindView, nil); err != ErrClosed {
			w.Errorf("Send to nobody: %v", err)
		}
		if err := a.WritePacket(nil, b.Self().Addr); err != ErrClosed {
			w.Errorf("WritePacket: %v", err)
		}
		if _, err := a.DialStream(b.Self().Addr, patience); err != ErrClosed {
			w.Errorf("DialStream: %v", err)
		}
		if _, err := a.Probe(w.ctx(), b.Self().Addr); err != ErrClosed {
			w.Errorf("Probe: %v", err)
		}
		if err := a.Start(); err != ErrClosed {
			w.Errorf("Start: %v", err)
		}
		if _, err := s.Write([]byte("x")); err == nil {
			w.Error("a raw stream lives on")
		}
		b.awaitEvent(AcceptedLost, Message, 1)
		b.awaitEvent(AcceptedLost, Control, 1)
		if n := a.Counters().Accepted.Load() + a.Counters().Strangers.Load() + a.Counters().Class[Control].Connections.Load(); n != 0 {
			w.Errorf("%d connections are still counted", n)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if n := a.countLocked(Lost, Control) + a.countLocked(AcceptedLost, Control); n != 0 {
			w.Errorf("%d events after Close", n)
		}
	})
}
