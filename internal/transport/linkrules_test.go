package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/loglimit"
)

// idleConn is a connection on which nothing happens.
type idleConn struct {
	net.Conn
	closed bool
}

func (c *idleConn) RemoteAddr() net.Addr { return memAddr("192.0.2.1:7") }
func (c *idleConn) Close() error         { c.closed = true; return nil }

// acceptsOf is a network whose listener returns what a test says.
type acceptsOf struct {
	network
	next func() (net.Conn, error)
}

func (a acceptsOf) accept() (net.Conn, error) { return a.next() }

// TestFailedAcceptsAreRepeatedEverSlower checks the pauses after errors of the listener, which begin
// anew with a connection, and that a listener that is lost is reported.
func TestFailedAcceptsAreRepeatedEverSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetworkConfig{})
		tr, err := n.Transport(MemoryConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		a, conn := &tr.acceptor, &idleConn{}
		var lost []PeerEvent
		tr.Observe(func(ev PeerEvent) { lost = append(lost, ev) })
		var pauses []time.Duration
		last, calls := time.Now(), 0
		a.net = acceptsOf{next: func() (net.Conn, error) {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			switch calls++; calls {
			case 11:
				return conn, nil
			case 13:
				return nil, syscall.EINVAL
			}
			return nil, syscall.EMFILE
		}}
		a.acceptLoop()
		want := []time.Duration{0, 5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 5}
		for i, d := range want {
			if i >= len(pauses) || pauses[i] != d*time.Millisecond {
				t.Fatalf("pauses %v, want %d ms", pauses, want)
			}
		}
		if !conn.closed || a.strangers.all.Len() != 0 || a.counters.Strangers.Load() != 0 || len(tr.life.conns) != 0 {
			t.Error("a connection keeps its slot, though nothing serves it")
		}
		if n := a.counters.AcceptErrors.Load(); n != 12 || len(lost) != 1 || lost[0].Type != ListenerLost || lost[0].Err != syscall.EINVAL {
			t.Errorf("%d errors are counted, events %+v", n, lost)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		late := &idleConn{}
		a.net = acceptsOf{next: func() (net.Conn, error) { return late, nil }}
		if a.acceptLoop(); !late.closed {
			t.Error("a connection that is accepted during Close stays open")
		}
	})
}

// TestFoldedLinesAreCounted checks that lines which differ only in ports are folded, and that the next
// line has their number, if there are any.
func TestFoldedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLimitedLogger(slog.New(slog.NewTextHandler(&out, nil)))
		for port := range 3 {
			l.writeLine(slog.LevelWarn, "closed", slog.String("from", fmt.Sprintf("192.0.2.1:%d", port)))
		}
		passTime(loglimit.FoldPeriod)
		l.writeLine(slog.LevelWarn, "closed", slog.String("from", "192.0.2.1:9"))
		l.writeLine(slog.LevelDebug, "other")
		all := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(all) != 2 || strings.Contains(all[0], loglimit.Folded) || !strings.Contains(all[1], loglimit.Folded+"=2") {
			t.Errorf("lines %q", all)
		}
	})
}

// TestClassesAndPeersThatAreNone checks what the methods of a transport return for nodes that were not
// learnt, and for classes that do not exist.
func TestClassesAndPeersThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: NewNetwork(NetworkConfig{})}
		a, b := w.make(1, ""), w.make(2, "")
		a.Learn(b.Self())
		for _, c := range []struct {
			to    gossip.NodeID
			class Class
			want  error
		}{{2, Message, nil}, {2, classes, ErrUnknownPeer}, {3, Message, ErrUnknownPeer}} {
			if err := a.WaitRoom(t.Context(), c.to, c.class); err != c.want {
				t.Errorf("room for node %v, class %d: %v", c.to, c.class, err)
			}
			if err := a.Send(c.to, c.class, KindView, []byte("x")); err != c.want {
				t.Errorf("send to node %v, class %d: %v", c.to, c.class, err)
			}
			if open := a.Open(c.to, c.class); open != (c.want == nil) {
				t.Errorf("node %v, class %d: open %v", c.to, c.class, open)
			}
		}
		if n := a.Counters().QueueBytes(classes); n != 0 || a.Counters().QueueBytes(Message) == 0 {
			t.Errorf("%d bytes of a class that does not exist", n)
		}
		if n := a.Counters().Drops[DropUnknownPeer].Load(); n != 2 {
			t.Errorf("%d drops for unknown peers, want 2", n)
		}
	})
}

// TestANodeIsBoundToItsOwnKey checks that a node with a certificate claims its own id, so that no
// other node with another key can take it.
func TestANodeIsBoundToItsOwnKey(t *testing.T) {
	ca := newAuthority(t)
	for name, cfg := range map[string]*TCPConfig{
		"files":  {Certificates: newCertFiles(t, ca.issue(t), ca).load()},
		"config": {TLS: ca.mutual(t)},
	} {
		c := credentials{keys: newKeyTable(10, func(gossip.NodeID) bool { return true })}
		c.self.ID = 7
		stats := c.useCertificate(cfg)
		if r := c.keys.claim(7, keyHash{1}); r == nil || r.code != FailIdentity {
			t.Errorf("%s: the own id is claimed by another key: %+v", name, r)
		}
		if !c.authenticated || stats == nil || stats().NotAfter.IsZero() {
			t.Errorf("%s: authenticated %v", name, c.authenticated)
		}
	}
	c := credentials{keys: newKeyTable(10, nil)}
	if c.useCertificate(&TCPConfig{}) != nil || c.authenticated || len(c.keys.order) != 0 {
		t.Error("a node without a certificate has one")
	}
}

// TestSourcesAreHosts checks that a source is the address of a host, in one form.
func TestSourcesAreHosts(t *testing.T) {
	at := func(addr string) (keyHash, bool) { return sourceKey(addressed{from: addr}) }
	first, ok := at("192.0.2.1:7")
	mapped, ok2 := at("[::ffff:192.0.2.1]:8")
	other, ok3 := at("192.0.2.2:7")
	if !ok || !ok2 || !ok3 || first != mapped || first == other {
		t.Error("one host has two sources, or two hosts one")
	}
	if _, ok := at("pipe"); ok {
		t.Error("an address that is none is a source")
	}
}

// TestALinkRedialsOnceAfterALoss checks that a link without frames dials exactly once after a loss, to
// find out what happened.
func TestALinkRedialsOnceAfterALoss(t *testing.T) {
	inMemory(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		a.Learn(b.Self())
		a.send(b, Message, "x")
		b.awaitFrames(1)
		w.net.Crash(b.addr())
		a.awaitEvent(Refused, Message, 2)
		if a.within(time.Hour, func() bool { return a.countLocked(Refused, Message) > 1 }) {
			w.Errorf("%d dials after the loss", a.count(Refused, Message))
		}
	})
}

// testLink returns a link to node 2 without a connection, whose owner never runs.
func testLink(t *testing.T) *link {
	t.Helper()
	cfg := (Config{ID: 1, Name: "a", Cluster: "c"}).withDefaults()
	life := &lifetime{}
	life.initLifetime()
	shared := &linkShared{cfg: &cfg, life: life, counters: &Counters{}, events: &eventSink{life: life}}
	l := &link{}
	l.initLink(shared, Peer{ID: 2}, Message, nil)
	return l
}

// TestDroppedFramesHaveTheReasonOfTheStop checks the reason with which frames are dropped, and the
// error of a sender, once a link was stopped.
func TestDroppedFramesHaveTheReasonOfTheStop(t *testing.T) {
	for why, want := range map[DropReason]error{DropClosed: ErrClosed, DropForgotten: ErrUnknownPeer} {
		l := testLink(t)
		if err := l.sendFrame(KindView, []byte("x")); err != nil || l.whyLocked(DropLost) != DropLost || !l.alive() {
			t.Errorf("before the stop: %v", err)
		}
		l.stopLink(why)
		l.stopLink(DropLost)
		if got := l.whyLocked(DropLost); got != why || l.alive() {
			t.Errorf("stopped for %v: frames are dropped for %v", why, got)
		}
		if err := l.sendFrame(KindView, []byte("x")); err != want {
			t.Errorf("stopped for %v: send: %v", why, err)
		}
		if err := l.sendFrame(KindView, make([]byte, pieceBytes+1)); err != want {
			t.Errorf("stopped for %v: send of a large frame: %v", why, err)
		}
		if err := l.awaitLevel(t.Context(), 0); err != want {
			t.Errorf("stopped for %v: wait: %v", why, err)
		}
		drops := &l.shared.counters.Drops
		if want == ErrClosed && drops[DropClosed].Load() != 3 || want != ErrClosed && (drops[DropUnknownPeer].Load() != 2 || drops[DropForgotten].Load() != 1) {
			t.Errorf("stopped for %v: %d, %d and %d drops", why, drops[DropClosed].Load(), drops[DropUnknownPeer].Load(), drops[DropForgotten].Load())
		}
	}
}

// TestAQueuedFrameIsTheSendersNoMore checks that a sender may change its bytes after Send: the queue
// has a copy, of small frames and of large ones.
func TestAQueuedFrameIsTheSendersNoMore(t *testing.T) {
	l := testLink(t)
	l.shared.flows[KindView] = func([]byte) (Flow, bool) { return 1, false }
	var want []byte
	for _, n := range []int{10, pieceBytes + 1, 20, pieceBytes} {
		payload := bytes.Repeat([]byte{1}, n)
		if err := l.sendFrame(KindView, payload); err != nil {
			t.Fatal(err)
		}
		clear(payload)
		want = append(want, bytes.Repeat([]byte{1}, n)...)
	}
	if len(l.lanes.order) != 1 || l.lanes.frames != 3 || l.backlog.frames != 1 {
		t.Errorf("%d frames in lanes, %d in the backlog", l.lanes.frames, l.backlog.frames)
	}
	var got []byte
	b := newFrameBuffer(pieceBytes)
	for l.framesLocked() > 0 {
		block := l.nextLocked()
		block.seal()
		err := feedEach(t, b, block.bytes, func() int { return len(block.bytes) }, func(_ Kind, size int) {
			slot := b.slot()
			p := b.cut(size)
			if slot&firstPiece != 0 {
				p = p[4:]
			}
			got = append(got, p...)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes were sent, want %d, or others", len(got), len(want))
	}
}

// TestTheRestOfADirectWriteGoesFirst checks that a frame which a sender writes by itself is counted
// once it is written, and that its rest is sent before all later frames.
func TestTheRestOfADirectWriteGoesFirst(t *testing.T) {
	for _, taken := range []int{0, 5, frameHeaderBytes + 7} {
		l := testLink(t)
		l.idle = true
		l.direct.try = func() int { return taken }
		if err := l.sendFrame(KindView, []byte("payload")); err != nil {
			t.Fatal(err)
		}
		frame := appendFrame(nil, KindView, []byte("payload"))
		whole := taken == len(frame)
		c := &l.shared.counters.Class[Message]
		if l.writing || l.idle != whole || len(l.wake) == 1 == whole || l.queued() != len(frame)-taken || c.Writes.Load() != 1 || c.BytesSent.Load() != uint64(taken) || (c.FramesSent.Load() == 1) != whole {
			t.Errorf("%d bytes taken: idle %v, queued %d, %d frames sent", taken, l.idle, l.queued(), c.FramesSent.Load())
		}
		if whole {
			continue
		}
		if err := l.sendFrame(KindView, []byte("later")); err != nil {
			t.Fatal(err)
		}
		b := l.takeNext()
		if !bytes.Equal(b.bytes, frame[taken:]) || b.frames != 1 || l.rest != nil || l.flight != len(b.bytes) {
			t.Errorf("%d bytes taken: the next block is %q", taken, b.bytes)
		}
		if n := l.onWritten(b, 0); n != 1 {
			t.Errorf("%d frames are complete", n)
		}
		if b = l.takeNext(); b.frames != 1 || l.flight != len(b.bytes) || l.flightFrames != 1 {
			t.Errorf("the block behind it has %d frames", b.frames)
		}
	}
}

// TestADirectWriteThatIsOvertakenByTheEnd checks that a frame is counted as dropped, not as sent, if
// its link was emptied while its sender wrote.
func TestADirectWriteThatIsOvertakenByTheEnd(t *testing.T) {
	l := testLink(t)
	l.idle = true
	l.direct.try = func() int { l.stopLink(DropForgotten); return 3 }
	if err := l.sendFrame(KindView, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	c := l.shared.counters
	if c.Drops[DropForgotten].Load() != 1 || c.Class[Message].FramesSent.Load() != 0 || c.Class[Message].Writes.Load() != 0 || l.rest != nil || l.idle {
		t.Errorf("%d drops, %d sent, rest %q", c.Drops[DropForgotten].Load(), c.Class[Message].FramesSent.Load(), l.rest)
	}
	if l.takeNext() != nil {
		t.Error("a stopped link has a next block")
	}
}

// chunks notes the writes to a connection.
type chunks struct {
	net.Conn
	sizes []int
	after func() error
}

func (c *chunks) Write(b []byte) (int, error) {
	c.sizes = append(c.sizes, len(b))
	return len(b), c.after()
}

// TestALargeBlockFreesItsRoomPieceByPiece checks that one write call has at most writeBytes, that what
// is written leaves the queue immediately, and that waiters are woken once half of it is free.
func TestALargeBlockFreesItsRoomPieceByPiece(t *testing.T) {
	l := testLink(t)
	l.limit.QueueBytesMax = 2 * writeBytes
	b := &block{bytes: make([]byte, 2*writeBytes+100), frames: 3, sealed: true}
	l.flight, l.flightFrames = len(b.bytes), b.frames
	l.room = make(chan struct{})
	room := l.room
	var queued []int
	conn := &chunks{after: func() error {
		queued = append(queued, l.queued())
		select {
		case <-room:
			queued = append(queued, -1)
		default:
		}
		return nil
	}}
	if err := l.writeBlock(conn, b); err != nil {
		t.Fatal(err)
	}
	c := &l.shared.counters.Class[Message]
	if !slices.Equal(conn.sizes, []int{writeBytes, writeBytes, 100}) || !slices.Equal(queued, []int{2*writeBytes + 100, writeBytes + 100, 100, -1}) || l.queued() != 0 {
		t.Errorf("writes of %d bytes; queued before each: %d", conn.sizes, queued)
	}
	if c.Writes.Load() != 3 || c.FramesSent.Load() != 3 || c.BytesSent.Load() != uint64(2*writeBytes+100) || c.WriteStalls.Load() != 0 || l.room != nil {
		t.Errorf("%d writes, %d frames, %d bytes", c.Writes.Load(), c.FramesSent.Load(), c.BytesSent.Load())
	}
	conn.after = func() error { return io.ErrClosedPipe }
	l.flight, l.flightFrames = 100, 2
	if err := l.writeBlock(conn, &block{bytes: make([]byte, 100), frames: 2, sealed: true}); err != io.ErrClosedPipe || c.FramesSent.Load() != 3 || l.flight != 100 {
		t.Errorf("a write that fails: %v, %d frames are counted, %d bytes in flight", err, c.FramesSent.Load(), l.flight)
	}
	if n := l.emptyLocked(); n != 2 || l.flight != 0 {
		t.Errorf("%d frames are dropped, want those in flight", n)
	}
}

// TestSlowWritesAreCounted checks that a write call of more than 10 ms counts as a stall.
func TestSlowWritesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLink(t)
		for _, d := range []time.Duration{10 * time.Millisecond, 11 * time.Millisecond} {
			conn := &chunks{after: func() error { passTime(d); return nil }}
			if err := l.writeBlock(conn, &block{bytes: make([]byte, 10), sealed: true}); err != nil {
				t.Fatal(err)
			}
		}
		c := &l.shared.counters.Class[Message]
		if c.WriteStalls.Load() != 1 || c.WriteNanos.Load() != uint64(21*time.Millisecond) {
			t.Errorf("%d stalls, %d ns", c.WriteStalls.Load(), c.WriteNanos.Load())
		}
	})
}

// TestHalfAQueueWakesItsWaiters checks when a waiter for room is woken.
func TestHalfAQueueWakesItsWaiters(t *testing.T) {
	l := testLink(t)
	l.limit.QueueBytesMax = 1000
	for _, c := range []struct {
		flight  int
		stopped bool
		want    bool
	}{{501, false, false}, {500, false, true}, {1000, true, true}} {
		l.room, l.flight, l.stopped = make(chan struct{}), c.flight, c.stopped
		if l.giveRoomLocked(); (l.room == nil) != c.want {
			t.Errorf("%+v: woken %v", c, !c.want)
		}
	}
	l.stopped, l.flight = false, 400
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.awaitLevel(ctx, 400); err != nil {
		t.Errorf("a level that is reached: %v", err)
	}
	if err := l.awaitLevel(ctx, 399); err != context.Canceled {
		t.Errorf("a level that is not reached: %v", err)
	}
}

// TestLinksOverTCPAreWrittenDirectly checks which connections a sender may write by itself.
func TestLinksOverTCPAreWrittenDirectly(t *testing.T) {
	everywhere(t, func(w *world) {
		a, _ := w.pair()
		l, err := a.e.peers.linkTo(2, Control)
		if err != nil {
			w.Fatal(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if got := l.direct.try != nil; got != (w.net == nil) {
			w.Errorf("written directly: %v", got)
		}
	})
}

// TestPeersAreAddedOnce checks which learnt nodes get links: not this one, none without an id, none that
// is forgotten, and at most PeersMax.
func TestPeersAreAddedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: NewNetwork(NetworkConfig{})}
		var log bytes.Buffer
		a := w.make(1, "", func(c *Config) { c.PeersMax, c.Logger = 3, slog.New(slog.NewTextHandler(&log, nil)) })
		a.Forget(9, 1, 0)
		a.Learn(Peer{ID: 1, Addr: "x"}, Peer{ID: 0, Addr: "x"}, Peer{ID: 9, Addr: "x"}, Peer{ID: 2, Addr: "x"}, Peer{ID: 3, Addr: "x"}, Peer{ID: 4, Addr: "x"}, Peer{ID: 5, Addr: "x"})
		known := func(want ...gossip.NodeID) {
			t.Helper()
			var got []gossip.NodeID
			for id := range a.e.peers.allLinks() {
				got = append(got, id)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || a.Counters().Peers.Load() != int64(len(want)) {
				t.Errorf("peers %v, %d counted, want %v", got, a.Counters().Peers.Load(), want)
			}
		}
		known(2, 3, 4)
		if !strings.Contains(log.String(), "PeersMax") {
			t.Errorf("a peer is ignored, and the log has %q", log.String())
		}
		if a.e.peers.isForgotten(1) || a.e.peers.isForgotten(0) || !a.e.peers.isForgotten(9) {
			t.Error("this node, or none, is forgotten")
		}
		former := a.e.peers.peerOf(2)
		a.Learn(Peer{ID: 2, Addr: "y"}, Peer{ID: 3, Addr: "x"})
		known(2, 3, 4)
		if p := a.e.peers.peerOf(2); p == former || p.Addr != "y" || former.links[Message].alive() || !p.links[Message].alive() {
			t.Error("an address that was never reached is kept, or its links are")
		}
		a.e.peers.peerOf(2).reached.Store(true)
		if a.Learn(Peer{ID: 2, Addr: "z"}); a.e.peers.peerOf(2).Addr != "y" {
			t.Error("an address that was reached is replaced")
		}
		a.Unlearn(2, 7)
		a.Forget(3)
		known(4)
		a.Learn(Peer{ID: 2, Addr: "y"}, Peer{ID: 3, Addr: "x"})
		known(2, 4)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		a.Learn(Peer{ID: 5, Addr: "y"})
		known(2, 4)
	})
}

// TestLeftFramesAreCountedByTheirReason checks that frames of a connection that has ended count as
// replaced, or as fenced, whole ones and those whose last piece has come.
func TestLeftFramesAreCountedByTheirReason(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		r := &receiver{cfg: &Config{Message: classLimits{FrameBytesMax: 100}}, counters: &Counters{}}
		r.halves.initHalves(1000)
		in := &inbound{class: Message}
		in.fenced.Store(fenced)
		b := newFrameBuffer(100)
		stream := append(frameOf(1, 0, "one"), frameOf(1, 1|firstPiece, string(piece(4, "pi")))...)
		stream = append(append(stream, frameOf(1, 1, "ec")...), frameOf(1, 2|firstPiece, string(piece(4, "ha")))...)
		b.received(copy(b.space(), stream))
		r.countLeft(in, b)
		replaced, left := r.counters.Drops[DropReplaced].Load(), r.counters.Drops[DropFenced].Load()
		if fenced {
			replaced, left = left, replaced
		}
		if replaced != 2 || left != 0 || r.halves.bytes() != 2 {
			t.Errorf("fenced %v: %d frames are counted with the reason, %d with the other; %d bytes are held", fenced, replaced, left, r.halves.bytes())
		}
	}
}

// TestBadFramesAreCountedByTheirFault checks which ends of a connection count as faults of its peer.
func TestBadFramesAreCountedByTheirFault(t *testing.T) {
	for name, c := range map[string]struct {
		cut                             error
		oversize, half, corrupt, broken uint64
		logged                          bool
	}{
		"oversize":  {&oversizeError{}, 1, 0, 0, 0, true},
		"half":      {&halfFramesError{}, 0, 1, 0, 0, true},
		"corrupt":   {errCorrupt, 0, 0, 1, 0, true},
		"malformed": {errMalformed, 0, 0, 0, 1, true},
		"replaced":  {errReplaced, 0, 0, 0, 0, false},
		"closed":    {ErrClosed, 0, 0, 0, 0, false},
	} {
		var out bytes.Buffer
		r := &receiver{counters: &Counters{}, log: newLimitedLogger(slog.New(slog.NewTextHandler(&out, nil)))}
		r.noteCut(&inbound{}, c.cut)
		n := r.counters
		if n.OversizeFrames.Load() != c.oversize || n.HalfFrames.Load() != c.half || n.CorruptFrames.Load() != c.corrupt || n.MalformedFrames.Load() != c.broken || out.Len() > 0 != c.logged {
			t.Errorf("%s: %d oversize, %d half, %d corrupt, %d malformed, logged %q", name, n.OversizeFrames.Load(), n.HalfFrames.Load(), n.CorruptFrames.Load(), n.MalformedFrames.Load(), out.String())
		}
	}
}

// TestWholeFramesGoToTheirHandler checks that a frame which came in pieces is given to the handler of
// its kind, and counted as dropped if there is none or if that does not take it.
func TestWholeFramesGoToTheirHandler(t *testing.T) {
	r := &receiver{counters: &Counters{}}
	r.halves.initHalves(1000)
	var got []string
	r.handlers[1] = func(_ gossip.NodeID, p []byte) { got = append(got, "single "+string(p)) }
	r.blockHandlers[2] = func(_ gossip.NodeID, f *Frames) {
		for p, ok := f.Next(); ok; p, ok = f.Next() {
			got = append(got, "block "+string(p))
		}
	}
	r.blockHandlers[3] = func(gossip.NodeID, *Frames) {}
	for k, drops := range []uint64{1, 1, 1, 2} {
		p := &part{kind: Kind(k), buf: []byte("x"), total: 1}
		r.halves.countBytes(p, 1)
		in := &inbound{}
		if r.handOutWhole(in, p); r.counters.Drops[DropNoHandler].Load() != drops || r.halves.bytes() != 0 {
			t.Errorf("kind %d: %d drops, want %d; %d bytes are held", k, r.counters.Drops[DropNoHandler].Load(), drops, r.halves.bytes())
		}
	}
	if !slices.Equal(got, []string{"single x", "block x"}) {
		t.Errorf("handled %q", got)
	}
	in := &inbound{}
	in.ended.Store(true)
	f := Frames{in: in, whole: []byte("x"), alone: true}
	if _, ok := f.Next(); ok {
		t.Error("a frame of a connection that has ended is handed out")
	}
}
