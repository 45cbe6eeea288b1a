//go:build plant

package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/harness/defect"
)

// Each verdict of chaos can fail: with its defect in the nodes, a run does not pass, and the
// report names the promise that is broken.
func TestChaosFindsEachDefect(t *testing.T) {
	small := []string{"--nodes", "3", "--counters", "8", "--every", "50ms", "--seed", "4"}
	for kind, tc := range map[defect.Kind]struct {
		args []string
		code int
		want []string
	}{
		defect.TwoInstances: {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     no counter had two live instances", "FAIL     no token of a shard went back"}},
		defect.LostAdd:      {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     nothing acknowledged was lost by an instance", "FAIL     each counter is linearizable"}},
		defect.WrongAnswer:  {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     every answer was counted by an instance"}},
		defect.Reorder:      {[]string{"--rounds", "1", "--faults", "drain"}, exitFailed, []string{"FAIL     messages of each process were handled in the order"}},
		defect.StaleRead:    {[]string{"--rounds", "2", "--faults", "clock"}, exitFailed, []string{"FAIL     a register shows no write that was overwritten"}},
		defect.LostEntry:    {[]string{"--rounds", "1", "--faults", "clock", "--workload", "set"}, exitFailed, []string{"FAIL     nothing acknowledged on disk was lost", "FAIL     a set contains what was added"}},
		defect.Mute:         {[]string{"--rounds", "1", "--faults", "drain", "--calm", "13s"}, exitFailed, []string{"FAIL     every counter was answered again", "FAIL     every request was answered"}},
		defect.Idle:         {[]string{"--rounds", "1", "--faults", "drain"}, exitUsage, []string{"UNKNOWN  the load stood before the first fault"}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			if kind == defect.Mute && testing.Short() {
				t.Skip("half a minute, until callers give up; the run without -short plays it")
			}
			args := append(append([]string{"chaos", "--plant", string(kind)}, small...), tc.args...)
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // the histories of a run that fails stay
			out, err := cmd.CombinedOutput()
			exit := (*exec.ExitError)(nil)
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code {
				t.Errorf("it ends with %v, want exit code %d", err, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the report lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
