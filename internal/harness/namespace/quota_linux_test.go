package namespace

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that would run all the time is throttled, and is back in its group afterwards.
func TestQuotasThrottle(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a control group")
	}
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	q, err := LimitCPU(cmd.Process.Pid, 0.1)
	if err != nil {
		t.Skipf("no writable control group here: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		n, err := q.Throttled()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("throttled in %d periods, %v", n, err)
		}
		if n > 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := q.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(q.dir); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}
