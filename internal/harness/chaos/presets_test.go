package chaos

import (
	"strings"
	"testing"
	"time"
)

// Each preset is a run that Validate accepts, and its command repeats it.
func TestPresetsAreRuns(t *testing.T) {
	for _, p := range presets {
		c := Config{Rounds: 3, Seed: 1, Nodes: 5, Counters: 8, Shards: 8, Every: 20 * time.Millisecond, Kinds: "kill"}
		if err := c.UsePreset(p.name); err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil || !strings.HasSuffix(c.command(), "--rounds 3 --preset "+p.name) {
			t.Errorf("%s: %v: %s", p.name, err, c.command())
		}
		if c.Rolling != (p.name == "rolling") || !strings.Contains(Presets(), p.about) {
			t.Errorf("%s: rolling %v", p.name, c.Rolling)
		}
	}
	c := Config{}
	if err := c.UsePreset("flaky network"); err != nil || c.Preset != "flaky-network" || !c.Cuts() {
		t.Errorf("flaky network: %v, %+v", err, c)
	}
	if err := c.UsePreset("calm"); err == nil || !strings.Contains(err.Error(), "n-1") {
		t.Errorf("a preset that does not exist: %v", err)
	}
}

// A run says what it does in words: of its preset, or of its kinds of faults.
func TestRunsAreSummedUp(t *testing.T) {
	c := Config{Rounds: 3, Nodes: 5, Counters: 32, Every: 20 * time.Millisecond, Kinds: "loss,loss,drain"}
	const load = "5 processes ask 32 counters, 1,600 requests a second in all, whatever is answered. "
	if got := c.Summary(); got != load+"3 rounds of faults: packets lost, one drained." {
		t.Error(got)
	}
	for preset, want := range map[string]string{
		"n-1": "3 rounds of faults: all processes but one are killed at the same instant.", "rolling": "Then each process is replaced, one after the other.",
	} {
		if err := c.UsePreset(preset); err != nil || c.Summary() != load+want {
			t.Errorf("%s: %v: %s", preset, err, c.Summary())
		}
	}
	if got := KindText("kill-rest, no majority left"); got != "all but one killed together, no majority left" {
		t.Error(got)
	}
}

func TestWorkloads(t *testing.T) {
	c := Config{Rounds: 1, Nodes: 5, Counters: 8, Shards: 8, Every: 20 * time.Millisecond, Kinds: "kill", Work: "replicated,register,set"}
	if err := c.Validate(); err != nil || c.replicas() != 3 || !c.works(workSet) || c.works(workCounter) || !strings.Contains(c.command(), " --workload replicated,register,set") {
		t.Errorf("%v: %s, %d copies", err, c.command(), c.replicas())
	}
	c.Work = "counter,sloth"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `"sloth"`) || c.replicas() != 0 {
		t.Errorf("a workload that does not exist: %v", err)
	}
}

// A run has up to 64 processes.
func TestTheNumberOfProcessesIsBounded(t *testing.T) {
	for nodes, valid := range map[int]bool{1: false, 2: true, 9: true, 50: true, 64: true, 65: false} {
		c := Config{Rounds: 1, Nodes: nodes, Counters: 8, Shards: 8, Every: 20 * time.Millisecond, Kinds: "kill"}
		if err := c.Validate(); (err == nil) != valid || !valid && !strings.Contains(err.Error(), "choose 2 to 64") {
			t.Errorf("%d processes: %v", nodes, err)
		}
	}
}
