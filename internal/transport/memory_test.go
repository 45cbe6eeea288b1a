package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func (n *node) addr() string { return n.Self().Addr }

func TestACrashIsLostAndThenRefused(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		a.send(b, Control, "before")
		b.awaitFrames(1)
		since := time.Now()
		w.net.Crash(b.addr())
		a.awaitEvent(Lost, Control, 2)
		a.await("refusals", func() bool { return a.countLocked(Refused, Control) >= 3 })
		if took := time.Since(since); took > 50*time.Millisecond {
			w.Errorf("a loss and three refusals took %v", took)
		}
		if _, err := a.Probe(w.ctx(), b.addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			w.Errorf("Probe: %v", err)
		}
		// The dead node neither receives nor sends.
		b.mu.Lock()
		told := len(b.events)
		b.mu.Unlock()
		_ = b.Send(1, Control, KindView, []byte("from the dead"))
		if a.within(time.Minute, func() bool { return len(a.frames) > 0 }) {
			w.Errorf("frames from the dead: %q", a.frames)
		}
		if b.within(0, func() bool { return len(b.events) > told }) {
			w.Errorf("the dead was told: %s", b.story())
		}
	})
}

// Close of a crashed node waits for its dials, so they must end.
func TestADialOfACrashedNodeKeepsItsDeadline(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.Pause(a.addr()) // its kernel takes the connection, and no answer comes
		ended := make(chan error, 1)
		go func() {
			_, err := b.DialStream(a.addr(), time.Second)
			ended <- err
		}()
		synctest.Wait()
		w.net.Crash(b.addr())
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("the dial ended with %v", err)
			}
		case <-time.After(time.Minute):
			w.Error("the dial goes on after its deadline")
		}
	})
}

func TestARestartAfterACrashIsAnotherNode(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.Crash(b.addr())
		c := w.make(3, b.addr())
		c.run()
		if ev := a.awaitEvent(OtherNode, Control, 3); ev.Former != 2 {
			w.Errorf("%+v", ev)
		}
	})
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	inMemory(t, func(w *world) {
		b := w.start(2)
		_, err := w.net.Transport(MemoryConfig{Config: Config{ID: 3, Name: "c", Cluster: "test"}, Listen: b.addr()})
		if !errors.Is(err, syscall.EADDRINUSE) {
			w.Errorf("%v", err)
		}
	})
}

func TestAPowerCutIsSilent(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.PowerOff(b.addr())
		a.send(b, Control, "into the dark")
		since := time.Now()
		ev := a.awaitEvent(Lost, Control, 2)
		if took := time.Since(since); took != 5*time.Second || !errors.Is(ev.Err, syscall.ETIMEDOUT) {
			w.Errorf("lost after %v: %v", took, ev.Err)
		}
		ev = a.awaitEvent(DialFailed, Control, 2)
		if !errors.Is(ev.Err, context.DeadlineExceeded) {
			w.Errorf("dial: %v", ev.Err)
		}
		if n := a.count(Refused, Control); n != 0 {
			w.Errorf("%d refusals by a host without power", n)
		}
		c := w.make(3, b.addr())
		c.run()
		a.awaitEvent(OtherNode, Control, 3)
	})
}

func TestACutHoldsFramesBackAndHealsInOrder(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.SetPath(a.addr(), b.addr(), Path{Cut: Dropped})
		for i := range 10 {
			a.send(b, Control, fmt.Sprint(i))
		}
		b.send(a, Control, "this way is open")
		a.awaitFrames(1)
		if b.within(2*time.Second, func() bool { return len(b.frames) > 0 }) {
			w.Fatalf("%q came through a cut", b.frames)
		}
		w.net.Heal()
		for i, f := range b.awaitFrames(10) {
			if f != fmt.Sprintf("1:%d", i) {
				w.Errorf("frame %d is %q", i, f)
			}
		}
		if n := a.count(Lost, Control) + b.count(Lost, Control); n != 0 {
			w.Errorf("%d losses in a short cut", n)
		}
	})
}

func TestALongCutEndsConnectionsAndTheyComeBackSoon(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.Split(Dropped, []string{a.addr()}, []string{b.addr()})
		a.send(b, Control, "lost")
		a.awaitEvent(Lost, Control, 2)
		b.awaitEvent(Lost, Control, 1) // idle: keep-alive
		a.awaitEvent(AcceptedLost, Control, 2)
		before := a.count(Connected, Control) + b.count(Connected, Control)
		healed := time.Now()
		w.net.Heal()
		a.await("connected again", func() bool { return a.countLocked(Connected, Control) == 2 })
		b.await("connected again", func() bool { return b.countLocked(Connected, Control) == 2 })
		if took := time.Since(healed); took > time.Second || before != 2 {
			w.Errorf("%v after healing", took)
		}
		a.send(b, Control, "found")
		if got := b.awaitFrames(1); got[0] != "1:found" {
			w.Errorf("frames %q", got)
		}
	})
}

// A dead connection whose end only one side noticed is replaced by the new one.
func TestAnEndThatOnlyOneSideSaw(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.SetPaths(a.addr(), b.addr(), Path{Cut: Dropped})
		a.send(b, Control, "held, never seen")
		a.awaitEvent(Lost, Control, 2) // after 5 s; the idle side would need 8 s
		w.net.Heal()
		a.await("connected again", func() bool { return a.countLocked(Connected, Control) == 2 })
		a.send(b, Control, "new")
		if got := b.awaitFrames(1); got[0] != "1:new" {
			w.Errorf("frames %q: one of a dead connection counted", got)
		}
		if n := b.Counters().Replaced.Load(); n != 1 {
			w.Errorf("%d replaced", n)
		}
	})
}

func TestARejectingFirewallLooksLikeARefusal(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.SetPath(a.addr(), b.addr(), Path{Cut: Rejected})
		a.send(b, Control, "x")
		ev := a.awaitEvent(Lost, Control, 2)
		if !errors.Is(ev.Err, syscall.ECONNRESET) {
			w.Errorf("lost: %v", ev.Err)
		}
		a.awaitEvent(Refused, Control, 2)
		b.send(a, Control, "the other way is open")
		a.awaitFrames(1)
		w.net.Heal()
		a.await("connected again", func() bool { return a.countLocked(Connected, Control) == 2 })
	})
}

func TestAPausedNodeTakesConnectionsAndAnswersNothing(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.pair()
		w.net.Pause(b.addr())
		a.send(b, Control, "kept by the kernel")
		_, err := a.Probe(w.ctx(), b.addr())
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			w.Errorf("Probe: %v", err)
		}
		if b.within(time.Minute, func() bool { return len(b.frames) > 0 }) {
			w.Error("a paused node handles frames")
		}
		if n := a.count(Lost, Control); n != 0 {
			w.Errorf("%d losses", n)
		}
		w.net.Resume(b.addr())
		b.awaitFrames(1)
	})
}

func TestLatencyLossAndJitterKeepTheOrderOfConnections(t *testing.T) {
	inMemory(t, func(w *world) {
		w.net.SetUsual(Path{Latency: 30 * time.Millisecond, Jitter: 50 * time.Millisecond, Loss: 0.2})
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		since := time.Now()
		for i := range 100 {
			a.send(b, Message, fmt.Sprint(i))
			a.within(time.Millisecond, func() bool { return false }) // one write each
		}
		for i, f := range b.awaitFrames(100) {
			if f != fmt.Sprintf("1:%d", i) {
				w.Fatalf("frame %d is %q", i, f)
			}
		}
		// Dial, hello, welcome and the frame take two ways and a half at least.
		if took := time.Since(since); took < 150*time.Millisecond {
			w.Errorf("%v is faster than the network", took)
		}
	})
}

func TestDatagramsAreLostDelayedAndDoubled(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		count := func(p Path) int {
			w.net.SetPath(a.addr(), b.addr(), p)
			before := b.Counters().PacketsReceived.Load()
			for range 200 {
				if err := a.WritePacket([]byte("x"), b.addr()); err != nil {
					w.Fatal(err)
				}
			}
			b.within(time.Second, func() bool { return false }) // nothing comes later
			for len(b.Packets()) > 0 {
				<-b.Packets()
			}
			return int(b.Counters().PacketsReceived.Load() - before)
		}
		if n := count(Path{Latency: 5 * time.Millisecond}); n != 200 {
			w.Errorf("%d of 200 came on a good path", n)
		}
		if n := count(Path{Loss: 0.5}); n < 50 || n > 150 {
			w.Errorf("%d of 200 came at a loss of half", n)
		}
		if n := count(Path{Duplication: 0.5}); n < 250 || n > 350 {
			w.Errorf("%d came at a duplication of half", n)
		}
		if n := count(Path{Cut: Dropped}); n != 0 {
			w.Errorf("%d came through a cut", n)
		}
	})
}

// Twenty nodes that have all learnt each other: every control connection is open, and is
// open again after half of the nodes were cut off for a minute.
func TestAFullMeshHeals(t *testing.T) {
	inMemory(t, func(w *world) {
		const n = 20
		var nodes []*node
		var peers []Peer
		for i := range n {
			nodes = append(nodes, w.start(gossip.NodeID(i+1)))
			peers = append(peers, nodes[i].Self())
		}
		for _, x := range nodes {
			x.Learn(peers...)
		}
		full := func() bool {
			for _, x := range nodes {
				if x.Counters().Class[Control].Connections.Load() != n-1 {
					return false
				}
			}
			return true
		}
		w.poll("a full mesh", full)
		var left, right []string
		for i, p := range peers {
			if i%2 == 0 {
				left = append(left, p.Addr)
			} else {
				right = append(right, p.Addr)
			}
		}
		w.net.Split(Dropped, left, right)
		nodes[0].within(time.Minute, func() bool { return false })
		if full() {
			w.Fatal("the cut was not seen")
		}
		healed := time.Now()
		w.net.Heal()
		w.poll("a full mesh again", full)
		if took := time.Since(healed); took > 2*time.Second {
			w.Errorf("%v after healing", took)
		}
	})
}

func ExampleNetwork() {
	net := NewNetwork(NetworkConfig{Seed: 1})
	a, _ := net.Transport(MemoryConfig{Config: Config{ID: 1, Name: "a", Cluster: "shop"}})
	b, _ := net.Transport(MemoryConfig{Config: Config{ID: 2, Name: "b", Cluster: "shop"}})
	defer a.Close()
	defer b.Close()
	events := make(chan PeerEventType, 10)
	a.Observe(func(ev PeerEvent) { events <- ev.Type })
	got := make(chan string)
	b.Handle(KindEntity, func(from gossip.NodeID, payload []byte) { got <- strings.ToUpper(string(payload)) })
	_ = a.Start()
	_ = b.Start()

	a.Learn(b.Self())
	fmt.Println(<-events)
	_ = a.Send(b.Self().ID, Control, KindEntity, []byte("hello"))
	fmt.Println(<-got)
	net.Crash(b.Self().Addr)
	fmt.Println(<-events)
	fmt.Println(<-events)
	// Output:
	// connected
	// HELLO
	// lost
	// refused
}
