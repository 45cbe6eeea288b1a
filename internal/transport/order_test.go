package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
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

// sever breaks the accepted connection of a peer and class, at the acceptor. It
// returns its number, or 0 if there is none with a number above after.
func (n *node) sever(from gossip.NodeID, c Class, after uint64) uint64 {
	n.e.inbounds.mu.Lock()
	in := n.e.inbounds.byKey[connKey{from, c}]
	n.e.inbounds.mu.Unlock()
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
		b.onFrame = func(_ gossip.NodeID, p []byte) {
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
		b.onFrame = func(_ gossip.NodeID, p []byte) {
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
	conn, _, err := a.e.dialler.connect(w.ctx(), n.Self().Addr, purpose(c), n.ID())
	if err != nil {
		w.Fatal(err)
	}
	return conn
}

func TestANewConnectionEndsTheOldOne(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		entered, leave := make(chan string, 10), make(chan struct{})
		b.onFrame = func(_ gossip.NodeID, p []byte) {
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
		w.poll("the rest is counted", func() bool { return b.Counters().Drops[DropReplaced].Load() == 99 })
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
		b.onFrame = func(_ gossip.NodeID, p []byte) {
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
				conn, _, err := a.e.dialler.connect(context.Background(), b.Self().Addr, purposeOf(Message), 2)
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

// patient gives dials and handshakes more time than any test takes.
func patient(c *Config) { c.DialTimeout, c.HandshakeTimeout = patience, patience }

func TestAnOlderHelloNeverReplacesANewerOne(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		_ = b.dialAs(w, a, Message)
		a.e.dialler.connections.Store(0) // the next hello is one that was under way for long
		_, _, err := a.e.dialler.connect(w.ctx(), b.Self().Addr, purpose(Message), 2)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != FailSuperseded {
			w.Errorf("connect: %v", err)
		}
		if n := b.Counters().Replaced.Load(); n != 0 {
			w.Errorf("%d replaced", n)
		}
	})
}

// A node may be forgotten while its handshake is under way: it stays out even so.
func TestForgottenInTheMiddleOfAHandshake(t *testing.T) {
	inMemory(t, func(w *world) {
		a := w.start(1)
		a.Forget(7)
		if _, r := a.e.inbounds.insertConn(&inbound{peer: Peer{ID: 7}, class: Control, number: 1}); r == nil || r.code != FailForgotten {
			w.Errorf("it is let in: %+v", r)
		}
	})
}
