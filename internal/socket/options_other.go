//go:build !linux

package socket

import (
	"net"
	"syscall"
	"time"
)

// Unread returns 0: this system does not report it.
func Unread(*net.TCPConn) int { return 0 }

// RoundTrip returns 0: this system does not report it.
func RoundTrip(*net.TCPConn) time.Duration { return 0 }

// BoundReceived does nothing: this system does not report round-trip times.
func BoundReceived(*net.TCPConn) {}

// DialControl returns nil: this system has no TCP_USER_TIMEOUT.
func DialControl(time.Duration) func(network, addr string, c syscall.RawConn) error { return nil }
