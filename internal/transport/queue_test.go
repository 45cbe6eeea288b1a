package transport

import (
	"bytes"
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

func TestAFullQueueRefusesAndRecovers(t *testing.T) {
	for name, bytes := range map[string]int{"frames of 32 KiB": 32 << 10, "frames of 10 KiB": 10 << 10} {
		t.Run(name, func(t *testing.T) { fillQueue(t, bytes) })
	}
}

// rest makes the link appear quiet, so that the next Send writes by itself if it can.
func (n *node) rest(to gossip.NodeID, c Class) {
	l := &n.e.peers.peerOf(to).links[c]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.direct.last = time.Time{}
}

func fillQueue(t *testing.T, frameBytes int) {
	small := func(c *Config) { c.Message = classLimits{FrameBytesMax: 64 << 10, QueueBytesMax: 256 << 10} }
	everywhere(t, func(w *world) {
		a, b := w.start(1, small), w.start(2, small)
		leave := make(chan struct{})
		var once sync.Once
		b.onFrame = func(gossip.NodeID, []byte) { <-leave }
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
			b.onFrame = func(_ gossip.NodeID, p []byte) {
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

func (w *world) limits(n *node, c Class) *classLimits { return n.e.cfg.class(c) }

func TestBadFramesEndTheConnectionAndAreCounted(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		for i, c := range []struct {
			name    string
			bytes   []byte
			counted func() uint64
		}{
			{"oversize", announced(KindView, 0xffffffff), b.Counters().OversizeFrames.Load},
			{"no kind", announced(0, 0), b.Counters().MalformedFrames.Load},
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
			// No event is due for a connection that a newer one has replaced meanwhile.
			b.await("its end told", func() bool { return b.countLocked(AcceptedLost, Control) == i+1 })
		}
		if got := b.awaitFrames(2); len(got) != 2 {
			w.Errorf("frames before the bad ones: %q", got)
		}
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
		const least, most = 100 * (batchHeaderBytes + 5), 100 * (frameBytesAround + 5)
		w.poll("100 frames of 5 bytes", func() bool {
			out, in := &a.Counters().Class[Message], &b.Counters().Class[Message]
			return out.FramesSent.Load() == 100 && in.FramesReceived.Load() == 100 &&
				out.BytesSent.Load() == in.BytesReceived.Load() && out.BytesSent.Load() > least && out.BytesSent.Load() <= most
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
