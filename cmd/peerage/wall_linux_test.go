package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

// TestCutsOnRealProcesses checks that every promise is kept while networks are cut, and while
// they are slow.
func TestCutsOnRealProcesses(t *testing.T) {
	testsize.OnlyFull(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs the program %s", tool)
		}
	}
	for _, c := range []struct{ rounds, faults, round string }{
		{"6", "cut,cut-pair,oneway,ring,late", "cut off "},
		{"2", "delay", "delayed packets of "},
	} {
		var out, errs bytes.Buffer
		if code := run([]string{"chaos", "--rounds", c.rounds, "--seed", "5", "--faults", c.faults}, &out, &errs); code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
		}
		for _, want := range []string{"PASS     messages of each process", "PASS     every fault took effect", c.round} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the report does not say %q:\n%s", want, out.String())
			}
		}
	}
}

// The wall clocks of processes jump, over restarts too, and their disks fill up: tokens
// rise, registers keep the newest write, and nothing that was stored is lost.
func TestClocksAndDisksOnRealProcesses(t *testing.T) {
	testsize.OnlyFull(t)
	faults, rounds := "clock,disk", "8"
	if os.Getuid() != 0 {
		faults, rounds = "clock", "4"
		t.Log("disks are left out: they need root, to be mounted")
	}
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "chaos", "--rounds", rounds, "--nodes", "3", "--seed", "1", "--faults", faults)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"PASS     no token of a shard", "PASS     a register shows", "PASS     nothing acknowledged on disk"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the report does not say %q:\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the run left %v behind, %v", left, err)
	}
}
