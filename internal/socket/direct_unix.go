//go:build unix

package socket

import (
	"net"
	"syscall"
)

// DirectWriter returns a function that writes as much of *buf as the socket of conn accepts
// without blocking, and returns that number; nil if conn is not a bare socket. Errors are
// left to the next ordinary write.
func DirectWriter(conn net.Conn, buf *[]byte) func() int {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	n := 0
	write := func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), *buf)
		return true // never wait
	}
	return func() int {
		n = 0
		_ = raw.Write(write) // a closed connection takes nothing
		return max(n, 0)
	}
}
