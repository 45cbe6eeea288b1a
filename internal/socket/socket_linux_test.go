package socket

import (
	"net"
	"testing"
	"time"
)

// pair returns the ends of a connection on the loopback interface.
func pair(t *testing.T, d *net.Dialer) (dialled, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func TestUnread(t *testing.T) {
	from, to := pair(t, &net.Dialer{})
	if n := Unread(to); n != 0 {
		t.Errorf("%d bytes are unread before the first one is sent", n)
	}
	if _, err := from.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Read(make([]byte, 1)); err != nil { // waits for the segment
		t.Fatal(err)
	}
	if n := Unread(to); n != 999 {
		t.Errorf("%d bytes are unread after one of 1000, want 999", n)
	}
	_ = to.Close()
	if n := Unread(to); n != 0 {
		t.Errorf("%d bytes are unread on a closed socket", n)
	}
}

// The kernel has measured a round trip once a connection is established.
func TestRoundTrip(t *testing.T) {
	from, to := pair(t, &net.Dialer{})
	if RoundTrip(from) <= 0 {
		t.Error("no round trip is known after the handshake")
	}
	_ = from.Close()
	if d := RoundTrip(from); d != 0 {
		t.Errorf("a closed socket has a round trip of %v", d)
	}
	_ = to.Close()
}

// A peer on the same host is near: what it sends waits in little memory here, and the rest with
// the peer, which can still choose what comes first.
func TestBoundReceived(t *testing.T) {
	d := net.Dialer{Control: DialControl(time.Second)}
	from, to := pair(t, &d)
	BoundReceived(to)
	buf := make([]byte, 64<<10)
	write := DirectWriter(from, &buf)
	sent := 0
	for still := 0; still < 100; still++ {
		if n := write(); n > 0 {
			sent, still = sent+n, 0
		}
	}
	if most := 2*receiveBytes + notSentBytes + len(buf); sent > most {
		t.Errorf("%d bytes are on their way to a reader that does not read, at most %d are due", sent, most)
	}
	_ = to.Close()
	BoundReceived(to) // does nothing
}

// TestDirectWriterNeverWaits: a full socket accepts part of the buffer, then nothing.
func TestDirectWriterNeverWaits(t *testing.T) {
	from, to := pair(t, &net.Dialer{})
	buf := []byte("frame")
	write := DirectWriter(from, &buf)
	if n := write(); n != len(buf) {
		t.Errorf("%d of %d bytes were written to an empty socket", n, len(buf))
	}
	got := make([]byte, len(buf))
	if _, err := to.Read(got); err != nil || string(got) != "frame" {
		t.Errorf("received %q, %v", got, err)
	}
	buf = make([]byte, 64<<20)
	if n := write(); n == 0 || n == len(buf) {
		t.Errorf("%d of %d bytes were written to a socket that is not read", n, len(buf))
	}
	_ = from.Close()
	if n := write(); n != 0 {
		t.Errorf("%d bytes were written to a closed socket", n)
	}
}

func TestDirectWriterNeedsABareSocket(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	if DirectWriter(a, new([]byte)) != nil {
		t.Error("a pipe has a direct writer")
	}
}

func TestDialControlIsAccepted(t *testing.T) {
	from, to := pair(t, &net.Dialer{Control: DialControl(5 * time.Second)})
	if _, err := from.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}
