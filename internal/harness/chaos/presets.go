package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/internal/harness/faults"
)

// presets are the kinds of faults under names that people look for.
var presets = []struct {
	name, about string
	kinds       string
}{
	{"n-1", "all processes but one are killed at the same instant", string(faults.KillRest)},
	{"rolling", "all processes are replaced, one after the other", ""},
	{"partition", "the network is cut in all ways (root)", "cut,cut-pair,oneway,ring,reject,late"},
	{"flaky-network", "packets are lost, and pairs lose each other (root)", "loss,loss,cut-pair,oneway"},
	{"pause", "processes are paused, also until they are removed", "stop,freeze"},
	{"everything", "all kinds of faults (root)", faults.DefaultKinds + ",kill-rest,freeze," + faults.NetworkKinds + "," + faults.MachineKinds + "," + faults.ProcessorKinds},
}

// Presets describes the presets in one sentence.
func Presets() string {
	var parts []string
	for _, p := range presets {
		parts = append(parts, p.name+": "+p.about)
	}
	return strings.Join(parts, "; ") + "."
}

// UsePreset sets the kinds of faults to those of a preset. It fails if there is no such one.
func (c *Config) UsePreset(name string) error {
	name = strings.ReplaceAll(name, " ", "-")
	i := slices.IndexFunc(presets, func(p struct{ name, about, kinds string }) bool { return p.name == name })
	if i < 0 {
		return fmt.Errorf("--preset names %q; choose one of these. %s", name, Presets())
	}
	c.Preset = name
	if c.Rolling = presets[i].kinds == ""; !c.Rolling {
		c.Kinds = presets[i].kinds
	}
	return nil
}
