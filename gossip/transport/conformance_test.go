package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

func TestFramesOfAClassArriveInOrder(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		const each = 500
		for i := range each {
			for c := range classes {
				a.send(b, c, fmt.Sprintf("%v %d", c, i))
			}
		}
		next := map[string]int{}
		for _, f := range b.awaitFrames(each * int(classes)) {
			var class string
			var i int
			if _, err := fmt.Sscanf(f, "1:%s %d", &class, &i); err != nil {
				w.Fatalf("frame %q: %v", f, err)
			}
			if i != next[class] {
				w.Fatalf("%s: frame %d came when %d was due", class, i, next[class])
			}
			next[class]++
		}
	})
}

func TestControlIsKeptAndTheOthersComeWhenNeeded(t *testing.T) {
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

func TestWhatWasLearntBeforeStartIsDialledByIt(t *testing.T) {
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

func TestProbeTellsWhoAnswers(t *testing.T) {
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
		"cluster":         {func(c *Config) { c.Cluster = "prod" }, FailCluster, []string{`cluster name is "prod" at "node-2"`, `"test" at "node-1"`}},
		"setting":         {func(c *Config) { c.Settings = map[string]string{"lease": "2s"} }, FailSetting, []string{`setting lease is "2s" at "node-2"`, `"1s" at "node-1"`}},
		"missing setting": {func(c *Config) { c.Settings = nil }, FailSetting, []string{`setting lease is not set at "node-2"`, `"1s" at "node-1"`}},
		"surplus setting": {func(c *Config) { c.Settings = map[string]string{"lease": "1s", "shards": "9"} }, FailSetting, []string{`setting shards is "9" at "node-2"`, `not set at "node-1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(w *world) {
				a, b := w.start(1), w.start(2, c.with)
				_, err := a.Probe(w.ctx(), b.Self().Addr)
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Code != c.code || refused.Addr != b.Self().Addr {
					w.Fatalf("Probe: %v", err)
				}
				for _, s := range c.says {
					if !strings.Contains(err.Error(), s) {
						w.Errorf("%q does not say %q", err, s)
					}
				}
				a.Learn(b.Self())
				ev := a.awaitEvent(DialFailed, Control, 2)
				if !errors.As(ev.Err, &refused) {
					w.Errorf("event says %v", ev.Err)
				}
				if _, err := a.DialStream(b.Self().Addr, time.Second); !errors.As(err, &refused) {
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

func TestALossIsToldAtOnceAndThenTheRefusals(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		b.Learn(a.Self())
		a.awaitEvent(Connected, Control, 2)
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

func TestAnotherIncarnationAtTheAddressIsTold(t *testing.T) {
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
				_ = a.Send(2, Message, KindView, []byte("for the dead")) // gives the link a reason to dial
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

// sever breaks the accepted connection of a peer and class, at the acceptor. It
// returns its number, or 0 if there is none with a number above after.
func (n *node) sever(from view.NodeID, c Class, after uint64) uint64 {
	n.e.acceptedMu.Lock()
	in := n.e.accepted[connKey{from, c}]
	n.e.acceptedMu.Unlock()
	if in == nil || in.number <= after {
		return 0
	}
	_ = in.conn.Close()
	return in.number
}

func TestOrderSurvivesReconnects(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1, func(c *Config) { c.BackoffMin, c.BackoffMax = 1e6, 1e6 }), w.start(2)
		a.Learn(b.Self())
		last, severed := -1, uint64(0)
		b.onFrame = func(_ view.NodeID, p []byte) {
			var i int
			if _, err := fmt.Sscanf(string(p), "%d", &i); err != nil || i <= last {
				w.Errorf("frame %q came behind %d (%v)", p, last, err)
			}
			last = i
		}
		sent := 0
		send := func() {
			if sent%3 == 0 {
				a.rest(2, Message)
			}
			for a.Send(2, Message, KindView, fmt.Appendf(nil, "%d %s", sent, strings.Repeat("x", sent%300))) != nil {
				if err := a.WaitRoom(w.ctx(), 2, Message); err != nil {
					w.Fatal(err)
				}
			}
			sent++
		}
		for loss := range 20 {
			for range 100 {
				send()
			}
			w.poll("a loss", func() bool {
				if n := b.sever(1, Message, severed); n > 0 {
					severed = n
				} else {
					send() // one severed before its welcome ends as a failed dial, and is not tried again
				}
				return a.count(Lost, Message) > loss
			})
		}
		// The last loss may still be under way, and take the end with it.
		for ; ; sent++ {
			a.send(b, Message, fmt.Sprintf("%d end", sent))
			end := func() bool { return len(b.frames) > 0 && strings.HasSuffix(b.frames[len(b.frames)-1], "end") }
			if b.within(10*time.Millisecond, end) {
				break
			}
		}
		w.Logf("%d of %d frames came, %d losses", len(b.awaitFrames(1)), sent, a.count(Lost, Message))
	})
}

func TestEverySenderKeepsItsOrderWhileConnectionsBreak(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1, func(c *Config) { c.BackoffMin, c.BackoffMax = 1e6, 1e6 }), w.start(2)
		a.Learn(b.Self())
		const senders = 8
		var last [senders]int
		b.onFrame = func(_ view.NodeID, p []byte) {
			var s, i int
			if _, err := fmt.Sscanf(string(p), "%d %d ", &s, &i); err != nil || i <= last[s] {
				w.Errorf("frame %q came behind %d (%v)", p, last[s], err)
			}
			last[s] = i
		}
		stop := make(chan struct{})
		var all sync.WaitGroup
		for s := range senders {
			all.Go(func() {
				for i := 1; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if i%(s+2) == 0 {
						a.rest(2, Message)
					}
					if a.Send(2, Message, KindView, fmt.Appendf(nil, "%d %d ", s, i)) != nil || i%100 == 0 {
						a.within(time.Millisecond, func() bool { return false }) // lets virtual time pass
					}
				}
			})
		}
		severed := uint64(0)
		for loss := range 10 {
			before := len(b.awaitFrames(1))
			b.awaitFrames(before + 100)
			w.poll("a loss", func() bool {
				severed = max(severed, b.sever(1, Message, severed))
				return a.count(Lost, Message) > loss
			})
		}
		close(stop)
		all.Wait()
	})
}

// dialAs opens a connection to b as the node whose engine is a.
func (n *node) dialAs(w *world, a *node, c Class) io.WriteCloser {
	w.Helper()
	conn, _, err := a.e.connect(w.ctx(), n.Self().Addr, purpose(c), n.ID())
	if err != nil {
		w.Fatal(err)
	}
	return conn
}

func TestANewConnectionEndsTheOldOne(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		entered, leave := make(chan string, 10), make(chan struct{})
		b.onFrame = func(_ view.NodeID, p []byte) {
			entered <- string(p)
			if string(p) == "old 0" {
				<-leave
			}
		}
		old := b.dialAs(w, a, Message)
		var frames []byte
		for i := range 100 {
			frames = appendFrame(frames, KindView, fmt.Appendf(nil, "old %d", i))
		}
		if _, err := old.Write(frames); err != nil {
			w.Fatal(err)
		}
		if got := <-entered; got != "old 0" {
			w.Fatalf("first frame is %q", got)
		}
		// Its handler runs. A newer connection is not welcomed before it is done.
		welcomed := make(chan io.WriteCloser, 1)
		go func() { welcomed <- b.dialAs(w, a, Message) }()
		w.poll("the old one is ended", func() bool { return b.Counters().Replaced.Load() == 1 })
		select {
		case <-welcomed:
			w.Error("welcomed while a handler of the old connection runs")
		default:
		}
		close(leave)
		fresh := <-welcomed
		if _, err := fresh.Write(appendFrame(nil, KindView, []byte("new"))); err != nil {
			w.Fatal(err)
		}
		if got := <-entered; got != "new" {
			w.Errorf("%q was handed out behind the welcome of the new connection", got)
		}
		w.poll("the rest is counted", func() bool { return b.Counters().Drops[DropReplaced].Load() == 1 })
		if n := b.count(AcceptedLost, Message); n != 0 {
			w.Errorf("%d AcceptedLost for a connection that was replaced", n)
		}
	})
}

func TestReplacementsInARowWaitForTheFirst(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1, patient), w.start(2, patient)
		var mu sync.Mutex
		running := 0
		entered, leave := make(chan struct{}, 1), make(chan struct{})
		b.onFrame = func(_ view.NodeID, p []byte) {
			mu.Lock()
			running++
			if running > 1 {
				w.Errorf("%q is handled beside another frame of the same peer and class", p)
			}
			mu.Unlock()
			if string(p) == "first" {
				entered <- struct{}{}
				<-leave
			}
			mu.Lock()
			running--
			mu.Unlock()
		}
		old := b.dialAs(w, a, Message)
		if _, err := old.Write(appendFrame(nil, KindView, []byte("first"))); err != nil {
			w.Fatal(err)
		}
		<-entered
		for i := range 3 {
			go func() {
				conn, _, err := a.e.connect(context.Background(), b.Self().Addr, purposeOf(Message), 2)
				if err == nil { // the last one
					_, _ = conn.Write(appendFrame(nil, KindView, []byte("last")))
				}
			}()
			w.poll("replaced", func() bool { return b.Counters().Replaced.Load() == uint64(i+1) })
		}
		close(leave)
		got := b.awaitFrames(2)
		if got[1] != "1:last" {
			w.Errorf("frames %q", got)
		}
	})
}

func purposeOf(c Class) purpose { return purpose(c) }

// patient gives handshakes more time than any test takes.
func patient(c *Config) { c.HandshakeTimeout = patience }

func TestAnOlderHelloNeverReplacesANewerOne(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		_ = b.dialAs(w, a, Message)
		a.e.connections.Store(0) // the next hello is one that was under way for long
		_, _, err := a.e.connect(w.ctx(), b.Self().Addr, purpose(Message), 2)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != FailSuperseded {
			w.Errorf("connect: %v", err)
		}
		if n := b.Counters().Replaced.Load(); n != 0 {
			w.Errorf("%d replaced", n)
		}
	})
}

func TestAFullQueueRefusesAndRecovers(t *testing.T) {
	for name, bytes := range map[string]int{"frames of 32 KiB": 32 << 10, "frames of 10 KiB": 10 << 10} {
		t.Run(name, func(t *testing.T) { fillQueue(t, bytes) })
	}
}

// rest makes the link believe that nothing was sent lately, so that the next Send
// writes by itself if it can.
func (n *node) rest(to view.NodeID, c Class) {
	l := &n.e.peers.peer(to).links[c]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.direct.last = time.Time{}
}

func fillQueue(t *testing.T, frameBytes int) {
	small := func(c *Config) { c.Message = ClassLimits{FrameBytesMax: 64 << 10, QueueBytesMax: 256 << 10} }
	everywhere(t, func(w *world) {
		a, b := w.start(1, small), w.start(2, small)
		leave := make(chan struct{})
		var once sync.Once
		b.onFrame = func(view.NodeID, []byte) { <-leave }
		defer once.Do(func() { close(leave) })
		a.Learn(b.Self())
		sent := 0
		pad := strings.Repeat("x", frameBytes)
		var err error
		for { // sockets of the kernel hold some megabytes first
			a.rest(2, Message)
			err = a.Send(2, Message, KindView, fmt.Appendf(nil, "%d %s", sent, pad))
			if err == nil {
				sent++
				continue
			}
			if !errors.Is(err, ErrQueueFull) {
				w.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			werr := a.WaitRoom(ctx, 2, Message)
			cancel()
			if werr != nil { // no room for long: all is full
				break
			}
		}
		if q := a.Counters().QueueBytes(Message); q > 256<<10 || q < 128<<10 {
			w.Errorf("%d bytes queued", q)
		}
		if a.Counters().Drops[DropQueueFull].Load() == 0 {
			w.Error("refusals are not counted")
		}
		a.send(b, Control, "control goes on") // handler blocks too, but the queue is another
		once.Do(func() { close(leave) })
		if err := a.WaitRoom(w.ctx(), 2, Message); err != nil {
			w.Fatal(err)
		}
		a.send(b, Message, fmt.Sprintf("%d end", sent))
		got := b.awaitFrames(sent + 2)
		next := 0
		for _, f := range got {
			var i int
			if _, err := fmt.Sscanf(f, "1:%d ", &i); err != nil {
				continue // the control frame
			}
			if i != next || i < sent && !strings.HasSuffix(f, pad) {
				w.Fatalf("frame %d came when %d was due, %d bytes", i, next, len(f))
			}
			next++
		}
	})
}

func TestWaitRoomAndFlushEndWithTheirContext(t *testing.T) {
	everywhere(t, func(w *world) {
		a := w.make(1, "") // never started, so its queues stay
		a.Learn(Peer{ID: 2, Name: "b", Addr: "127.0.0.1:1"})
		big := make([]byte, 1<<20)
		for range 3 {
			if err := a.Send(2, Control, KindView, big); err != nil {
				w.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if err := a.WaitRoom(ctx, 2, Control); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitRoom: %v", err)
		}
		if err := a.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("Flush: %v", err)
		}
		for forget, want := range map[bool]error{true: ErrUnknownPeer, false: ErrClosed} {
			ended := make(chan error, 1)
			a := w.make(1, "")
			a.Learn(Peer{ID: 2, Name: "b", Addr: "127.0.0.1:1"})
			for range 3 {
				if err := a.Send(2, Control, KindView, big); err != nil {
					w.Fatal(err)
				}
			}
			go func() { ended <- a.WaitRoom(context.Background(), 2, Control) }()
			if forget {
				a.Forget(2)
			} else if err := a.Close(); err != nil {
				w.Error(err)
			}
			if err := <-ended; err != want {
				w.Errorf("WaitRoom: %v, want %v", err, want)
			}
			if n := a.Counters().Drops[DropForgotten].Load() + a.Counters().Drops[DropClosed].Load(); n != 3 {
				w.Errorf("%d frames counted as dropped, want 3", n)
			}
		}
	})
}

func TestLargeFramesPassAndTooLargeOnesDoNot(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		for _, c := range []Class{Control, Message, Bulk} {
			most := w.limits(a, c).FrameBytesMax
			if err := a.Send(2, c, KindView, make([]byte, most+1)); err != ErrFrameTooLarge {
				w.Errorf("%v: %v", c, err)
			}
			want := bytes.Repeat([]byte{byte(c) + 1}, most)
			var got []byte
			done := make(chan struct{})
			b.onFrame = func(_ view.NodeID, p []byte) {
				if len(p) > 0 {
					got = append([]byte(nil), p...)
					close(done)
				}
			}
			if err := a.Send(2, c, KindView, nil); err != nil { // an empty one is fine
				w.Fatal(err)
			}
			if err := a.Send(2, c, KindView, want); err != nil {
				w.Fatal(err)
			}
			<-done
			if !bytes.Equal(got, want) {
				w.Errorf("%v: %d bytes came, or others", c, len(got))
			}
			b.awaitFrames(2 * (int(c) + 1))
		}
		if n := a.Counters().Drops[DropTooLarge].Load(); n != 3 {
			w.Errorf("%d counted as too large", n)
		}
	})
}

func (w *world) limits(n *node, c Class) *ClassLimits { return n.e.cfg.class(c) }

func TestBadFramesEndTheConnectionAndAreCounted(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		for _, c := range []struct {
			name    string
			bytes   []byte
			counted func() uint64
		}{
			{"oversize", []byte{0xff, 0xff, 0xff, 0xff, byte(KindView)}, b.Counters().OversizeFrames.Load},
			{"no kind", []byte{0, 0, 0, 0, 0}, b.Counters().MalformedFrames.Load},
		} {
			conn := b.dialAs(w, a, Control)
			if _, err := conn.Write(append(appendFrame(nil, KindView, []byte("good")), c.bytes...)); err != nil {
				w.Fatal(err)
			}
			var one [1]byte
			if _, err := conn.(io.Reader).Read(one[:]); err == nil {
				w.Errorf("%s: the connection lives", c.name)
			}
			if n := c.counted(); n != 1 {
				w.Errorf("%s: counted %d times", c.name, n)
			}
		}
		if got := b.awaitFrames(2); len(got) != 2 {
			w.Errorf("frames before the bad ones: %q", got)
		}
		b.await("both ends told", func() bool { return b.countLocked(AcceptedLost, Control) == 2 })
	})
}

func TestTrafficIsCountedOnBothSides(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		for i := range 100 {
			if i%2 == 0 {
				a.rest(2, Message)
			}
			a.send(b, Message, "12345")
		}
		b.awaitFrames(100)
		if err := a.Flush(w.ctx()); err != nil {
			w.Fatal(err)
		}
		w.poll("100 frames of 10 bytes", func() bool {
			out, in := &a.Counters().Class[Message], &b.Counters().Class[Message]
			return out.FramesSent.Load() == 100 && in.FramesReceived.Load() == 100 &&
				out.BytesSent.Load() == 1000 && in.BytesReceived.Load() == 1000
		})
	})
}

func TestFramesOfUnknownKindsAreCounted(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		if err := a.Send(2, Message, Kind(200), []byte("?")); err != nil {
			w.Fatal(err)
		}
		a.send(b, Message, "x")
		b.awaitFrames(1)
		if n := b.Counters().Drops[DropNoHandler].Load(); n != 1 {
			w.Errorf("%d counted", n)
		}
	})
}

func TestForgottenNodesStayOut(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		b.Learn(a.Self())
		a.awaitEvent(Accepted, Control, 2)
		a.awaitEvent(Connected, Control, 2)
		b.awaitEvent(Connected, Control, 1)
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
		s, err := a.DialStream(b.Self().Addr, time.Second)
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
		if _, err := a.DialStream(b.Self().Addr, time.Second); err != ErrClosed {
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

func TestFlushedFramesArriveThoughCloseFollows(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		for i := range 1000 {
			a.send(b, Message, fmt.Sprint(i))
		}
		if err := a.Flush(w.ctx()); err != nil {
			w.Fatal(err)
		}
		if err := a.Close(); err != nil {
			w.Fatal(err)
		}
		b.awaitFrames(1000)
	})
}

func TestStreamsCarryBytesBothWays(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		out, err := a.DialStream(b.Self().Addr, time.Second)
		if err != nil {
			w.Fatal(err)
		}
		in := <-b.Streams()
		if _, err := out.Write([]byte("ping")); err != nil {
			w.Fatal(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(in, got); err != nil || string(got) != "ping" {
			w.Errorf("%q, %v", got, err)
		}
		if _, err := in.Write([]byte("pong")); err != nil {
			w.Fatal(err)
		}
		if _, err := io.ReadFull(out, got); err != nil || string(got) != "pong" {
			w.Errorf("%q, %v", got, err)
		}
		if err := out.Close(); err != nil {
			w.Error(err)
		}
		if _, err := in.Read(got); err != io.EOF {
			w.Errorf("end of stream: %v", err)
		}
		_ = in.Close()
		_ = in.Close()
		if n := b.Counters().Accepted.Load(); n != 0 {
			w.Errorf("%d streams are still counted", n)
		}
	})
}

func TestStreamsThatNobodyTakesAreClosed(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2, func(c *Config) { c.StreamsMax = 1 })
		for range 2 {
			s, err := a.DialStream(b.Self().Addr, time.Second)
			if err != nil {
				w.Fatal(err)
			}
			defer s.Close()
		}
		w.poll("counted", func() bool { return b.Counters().Drops[DropStreamQueue].Load() == 1 })
	})
}

func TestPacketsArriveOrAreCounted(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2, func(c *Config) { c.PacketsMax = 4 })
		send := func() {
			if err := a.WritePacket([]byte("hello"), b.Self().Addr); err != nil {
				w.Fatal(err)
			}
		}
		send()
		p := <-b.Packets()
		if string(p.Data) != "hello" || p.From.String() != a.Self().Addr || p.Time.IsZero() {
			w.Errorf("packet %+v", p)
		}
		for range 6 {
			send()
		}
		w.poll("all seen", func() bool { return b.Counters().PacketsReceived.Load() == 7 })
		if n := b.Counters().Drops[DropPacketQueue].Load(); n != 2 {
			w.Errorf("%d dropped, want 2", n)
		}
		if err := a.WritePacket(make([]byte, 70000), b.Self().Addr); err != ErrFrameTooLarge {
			w.Errorf("a huge datagram: %v", err)
		}
		if err := a.WritePacket([]byte("x"), "127.0.0.1:1"); err != nil {
			w.Errorf("a datagram to nobody: %v", err)
		}
	})
}
