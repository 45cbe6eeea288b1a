//go:build !linux

package transport

import (
	"syscall"
	"time"
)

// controlDialled sets nothing: this system has no TCP_USER_TIMEOUT.
func controlDialled(time.Duration) func(network, addr string, c syscall.RawConn) error { return nil }
