package transport

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// controlDialled sets the socket options of dialled connections.
func controlDialled(unacked time.Duration) func(network, addr string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacked.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return failed
	}
}
