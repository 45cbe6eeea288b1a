//go:build !linux

package transport

import (
	"net"
	"syscall"
	"time"
)

// unreadOf cannot tell on this system.
func unreadOf(*net.TCPConn) int { return 0 }

// controlDialled sets nothing: this system has no TCP_USER_TIMEOUT.
func controlDialled(time.Duration) func(network, addr string, c syscall.RawConn) error { return nil }
