package namespacetest

import (
	"net"
	"os"
	"testing"
)

// TestANamespaceHasItsOwnInterfaces: after Enter, the test sees the loopback interface of a new
// namespace, which is down, and none of the machine's.
func TestANamespaceHasItsOwnInterfaces(t *testing.T) {
	const file = "/proc/thread-self/ns/net"
	before, err := os.Readlink(file)
	if err != nil {
		t.Fatal(err)
	}
	Enter(t)
	if after, err := os.Readlink(file); err != nil || after == before {
		t.Errorf("the namespace is %s before and %s after it: %v", before, after, err)
	}
	all, err := net.Interfaces()
	if err != nil || len(all) != 1 || all[0].Flags&net.FlagLoopback == 0 || all[0].Flags&net.FlagUp != 0 {
		t.Errorf("the interfaces are %v: %v", all, err)
	}
}
