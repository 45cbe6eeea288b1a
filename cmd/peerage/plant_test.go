//go:build plant

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/harness/defect"
)

// Each verdict of chaos can fail: with its defect in the nodes, a run does not pass, and the
// report names the promise that is broken. The judge, which reads the kept histories, has the
// same verdicts.
func TestChaosFindsEachDefect(t *testing.T) {
	judge := filepath.Join(t.TempDir(), "judge")
	if out, err := exec.Command("go", "build", "-o", judge, "../../internal/judge").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	small := []string{"--nodes", "3", "--counters", "8", "--every", "50ms", "--seed", "4"}
	for kind, tc := range map[defect.Kind]struct {
		args []string
		code int
		want []string
	}{
		defect.TwoInstances: {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     no counter had two live instances", "FAIL     no token of a shard went back"}},
		defect.LostAdd:      {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     nothing acknowledged was lost by an instance", "FAIL     each counter is linearizable"}},
		defect.WrongAnswer:  {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     every answer was counted by an instance", "FAIL     each counter is linearizable"}},
		defect.Reorder:      {[]string{"--rounds", "1", "--faults", "drain", "--workload", "reliable"}, exitFailed, []string{"FAIL     messages of each process were handled in the order", "FAIL     reliable messages were handled in order"}},
		defect.LostMessage:  {[]string{"--rounds", "1", "--faults", "drain", "--workload", "reliable"}, exitFailed, []string{"FAIL     no reliable message was left out"}},
		defect.StaleRead:    {[]string{"--rounds", "2", "--faults", "clock"}, exitFailed, []string{"FAIL     a register shows no write that was overwritten"}},
		defect.LostEntry:    {[]string{"--rounds", "1", "--faults", "clock", "--workload", "set"}, exitFailed, []string{"FAIL     nothing acknowledged on disk was lost", "FAIL     a set contains what was added"}},
		defect.Mute:         {[]string{"--rounds", "1", "--faults", "drain", "--calm", "13s"}, exitFailed, []string{"FAIL     every counter was answered again", "FAIL     every request was answered"}},
		defect.Idle:         {[]string{"--rounds", "1", "--faults", "drain"}, exitUsage, []string{"UNKNOWN  the load stood before the first fault"}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			if kind == defect.Mute && testing.Short() {
				t.Skip("half a minute, until callers give up; the run without -short plays it")
			}
			kept := filepath.Join(t.TempDir(), "kept")
			args := append(append([]string{"chaos", "--plant", string(kind), "--keep", kept}, small...), tc.args...)
			expectVerdict(t, exec.Command(os.Args[0], args...), tc.code, tc.want)
			expectVerdict(t, exec.Command(judge, kept), tc.code, append(tc.want, " verdicts are those of the run itself"))
		})
	}
}

// expectVerdict runs a command that must exit with a code and print these lines, and no line on
// verdicts that differ.
func expectVerdict(t *testing.T, cmd *exec.Cmd, code int, want []string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != code || strings.Contains(string(out), "\ndiffers: ") {
		t.Errorf("it ends with %v, want exit code %d", err, code)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			t.Errorf("the output lacks %q", w)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
