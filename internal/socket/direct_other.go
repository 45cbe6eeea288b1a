//go:build !unix

package socket

import "net"

// DirectWriter returns nil: this system has no write that never waits.
func DirectWriter(net.Conn, *[]byte) func() int { return nil }
