package namespacetest

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Enter moves the goroutine of a test into a new network namespace, which ends with it. The test is
// skipped without root, ip, nft or namespaces.
func Enter(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs the program %s: %v", tool, err)
		}
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace here: %v", err)
	}
}
