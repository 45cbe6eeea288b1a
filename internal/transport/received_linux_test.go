package transport

import (
	"encoding/binary"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerage-go/peerage/gossip"
)

// receiveBuffer returns the bytes that the kernel may hold for the reader of a connection.
func receiveBuffer(t *testing.T, conn *net.TCPConn) (n int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got error
	if err := raw.Control(func(fd uintptr) { n, got = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF) }); err != nil || got != nil {
		t.Fatal(err, got)
	}
	return n
}

// A Connected event has the round trip that the kernel measured, whatever seals the connection, and
// the longest one of the open connections is known.
func TestConnectionsHaveRoundTrips(t *testing.T) {
	for name, w := range map[string]*world{
		"plain":          {T: t},
		"mutual TLS":     {T: t, tls: newAuthority(t).mutual(t)},
		"shared secrets": {T: t, secrets: [][]byte{make([]byte, secretBytesMin)}},
	} {
		a, b := w.pair()
		if d := a.Counters().LongestRoundTrip(); d <= 0 {
			t.Errorf("%s: the longest round trip is %v", name, d)
		}
		a.note(func() {
			for _, ev := range a.events {
				if (ev.Type == Connected) != (ev.RoundTrip > 0) {
					t.Errorf("%s: %v of %v has a round trip of %v", name, ev.Type, ev.Class, ev.RoundTrip)
				}
			}
		})
		for _, n := range []*node{a, b} {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
		if d := a.Counters().LongestRoundTrip(); d != 0 {
			t.Errorf("%s: a closed transport has a round trip of %v", name, d)
		}
	}
	inMemory(t, func(w *world) {
		a, _ := w.pair()
		if d := a.Counters().LongestRoundTrip(); d != 0 {
			t.Errorf("in memory: a round trip of %v", d)
		}
	})
}

// A flood of small frames keeps the buffer that the kernel chooses. The first piece of a large frame
// bounds it, for message connections only.
func TestLargeFramesBoundWhatWaitsInTheSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, c := range []struct {
		class Class
		bound bool
	}{{Message, true}, {Control, false}} {
		from, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = from.Close() }()
		to, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = to.Close() }()

		e, in, b := handing(KindEntity)
		in.class, in.conn = c.class, to
		e.Handle(KindEntity, func(gossip.NodeID, []byte) {})
		before := receiveBuffer(t, to.(*net.TCPConn))
		if err := e.receiver.handOut(in, b); err != nil {
			t.Fatal(err)
		}
		if n := receiveBuffer(t, to.(*net.TCPConn)); n != before {
			t.Errorf("%v: a small frame changed the buffer from %d to %d bytes", c.class, before, n)
		}
		b.w = b.r // without the half frame
		body := append(binary.BigEndian.AppendUint32(nil, pieceBytes+1), 1)
		h := makePieceHeader(KindEntity, 1|firstPiece, body)
		b.received(copy(b.space(), append(h[:], body...)))
		if err := e.receiver.handOut(in, b); err != nil {
			t.Fatal(err)
		}
		if n := receiveBuffer(t, to.(*net.TCPConn)); (n != before) != c.bound {
			t.Errorf("%v: the buffer has %d bytes after the first piece of a large frame, %d before", c.class, n, before)
		}
	}
}
