package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestCutsOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs the program %s", tool)
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--rounds", "6", "--seed", "5", "--faults", "cut,cut-pair,oneway,ring,late"}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	for _, want := range []string{"PASS     messages of each process", "PASS     every fault took effect"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, out.String())
		}
	}
}

// The rules of a wall must never reach the network that others use.
func TestAWallNeedsANetworkOfItsOwn(t *testing.T) {
	here, err := thisNetwork()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newWall(t.Context(), here, 2); err == nil || !strings.Contains(err.Error(), here) {
		t.Errorf("a wall in %s: %v", here, err)
	}
}
