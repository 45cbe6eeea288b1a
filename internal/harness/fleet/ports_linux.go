package fleet

import (
	"io"
	"net"
)

// reserve takes an address for the fleets of this process. It fails if a fleet of another
// process has it. The reservation is a socket with a name in the same network namespace as the
// address, and the kernel ends it with the process.
func reserve(addr string) (io.Closer, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: "@peerage-fleet-" + addr, Net: "unix"})
}
