//go:build !unix

package transport

import "net"

// directTry returns nil: only the owner writes.
func directTry(net.Conn, *[]byte) func() int { return nil }
