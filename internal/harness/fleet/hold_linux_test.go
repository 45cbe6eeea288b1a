package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

func TestAHeldProcessStandsStill(t *testing.T) {
	p := start(t, "a")
	if err := p.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Hold(); err != nil {
		t.Fatal(err)
	}
	// The signal stops one thread after the other. Only then does nothing notice that the
	// input closes; after Release, the process does.
	for !allStopped(t, p.cmd.Process.Pid) {
		if err := harness.Pause(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	p.stdin.Close()
	if !allStopped(t, p.cmd.Process.Pid) {
		t.Error("a held process runs on")
	}
	if p.waitedFor() {
		t.Error("a held process has ended")
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if err := p.Finish(); err != nil {
		t.Error(err)
	}
}

// allStopped reports whether every thread of a process stands still.
func allStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, stat := range threads {
		line, err := os.ReadFile(stat)
		if err != nil || !strings.Contains(string(line), ") T ") {
			return false // it runs, or has just ended
		}
	}
	return true
}
