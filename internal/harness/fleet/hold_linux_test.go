package fleet

import (
	"fmt"
	"os"
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
	// A stopped process does not see that its input closes; after Release it does.
	p.stdin.Close()
	for stat := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid); ; {
		line, err := os.ReadFile(stat)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(line), ") T ") {
			break
		}
		if err := harness.Pause(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
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
