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
