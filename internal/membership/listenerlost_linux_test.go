package membership

import (
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestALostListenerEndsTheIncarnation: the kernel destroys the listening socket of a
// living process. Other nodes are then refused as if the process had died, so the
// incarnation ends before they act on it.
func TestALostListenerEndsTheIncarnation(t *testing.T) {
	n, err := Start(t.Context(), Config{Listen: "127.0.0.149:0", NoDiscovery: true, Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	if err := syscall.Shutdown(listener(t, n.self.Addr), syscall.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.over:
	case <-time.After(30 * time.Second):
		t.Fatal("the incarnation goes on without its listener")
	}
	if n.LeaseValid() {
		t.Error("it holds a lease")
	}
}

// listener finds the descriptor of this process that listens at an address.
func listener(t *testing.T, addr string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		sa, err := syscall.Getsockname(fd)
		if err != nil {
			continue
		}
		if in, ok := sa.(*syscall.SockaddrInet4); ok && net.IP(in.Addr[:]).String() == host && strconv.Itoa(in.Port) == port {
			if listening, _ := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); listening == 1 {
				return fd
			}
		}
	}
	t.Fatalf("nothing listens at %s: %s", addr, strings.Join(os.Args, " "))
	return -1
}
