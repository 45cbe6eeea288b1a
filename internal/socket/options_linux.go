package socket

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Unread returns how many received bytes wait in the socket.
func Unread(conn *net.TCPConn) (n int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails on a closed socket, which has nothing to read
		n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	})
	return max(n, 0)
}

// RoundTrip returns the round-trip time of a connection as the kernel estimates it from its
// acknowledgements, 0 if it is not known. Kernels acknowledge, so load of the processes at either end
// hardly counts in it.
func RoundTrip(conn *net.TCPConn) (d time.Duration) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { d, _ = roundTripOf(fd) }) // fails on a closed socket
	return d
}

func roundTripOf(fd uintptr) (time.Duration, error) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, err
	}
	return time.Duration(info.Rtt) * time.Microsecond, nil
}

// A near peer is one whose round trip takes at most nearRTT. receiveBytes is enough to keep a
// connection to it busy.
const (
	nearRTT      = time.Millisecond
	receiveBytes = 256 << 10
)

// BoundReceived bounds the bytes from a near peer that wait in the socket to receiveBytes or so:
// they cannot be overtaken, and the kernel would let them grow to many megabytes while the reader
// is slower than the peer. It does nothing for other peers, for which a small buffer would bound
// the throughput.
func BoundReceived(conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // fails on a closed socket
		if rtt, err := roundTripOf(fd); err == nil && rtt <= nearRTT {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBytes) // the kernel's bound remains
		}
	})
}

// notSentBytes bounds the unsent bytes in the kernel's buffer: frames in that buffer can
// no longer be overtaken.
const notSentBytes = 128 << 10

// DialControl returns the net.Dialer.Control that sets the options of dialled connections:
// sent bytes may stay without acknowledgement for at most unacked.
func DialControl(unacked time.Duration) func(network, addr string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacked.Milliseconds())),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSentBytes))
		})
		if err != nil {
			return err
		}
		return failed
	}
}
