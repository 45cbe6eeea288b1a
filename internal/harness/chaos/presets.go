package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

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
	{"flaky-network", "packets are lost or late, and pairs lose each other (root)", "loss,loss,delay,delay,cut-pair,oneway"},
	{"pause", "processes are paused, also until they are removed", "stop,freeze"},
	{"everything", "all kinds of faults (root)", faults.DefaultKinds + ",kill-rest,freeze," + faults.NetworkKinds + "," + faults.MachineKinds + "," + faults.ProcessorKinds},
}

// Presets returns a line about each preset.
func Presets() string {
	var b strings.Builder
	for _, p := range presets {
		fmt.Fprintf(&b, "  %-14s  %s\n", p.name, p.about)
	}
	return b.String()
}

// presetNames returns the names of all presets, with commas.
func presetNames() string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// Summary says in two sentences what a run does.
func (c *Config) Summary() string {
	asked := fmt.Sprintf("%d processes ask %d counters", c.Nodes, c.Counters)
	if c.Service != nil {
		asked = fmt.Sprintf("%d processes of %s are asked for %d keys", c.Nodes, c.Service.Name, c.Counters)
	}
	hurt := "Then each process is replaced, one after the other."
	if !c.Rolling {
		hurt = fmt.Sprintf("%s of faults: %s.", countOf(c.Rounds, "round"), c.describeFaults())
	}
	return fmt.Sprintf("%s, %s requests a second in all, whatever is answered. %s", asked, humanize.Comma(int64(c.rate())), hurt)
}

// rate returns how many requests are due a second.
func (c *Config) rate() float64 { return float64(c.Counters) / max(c.Every, 1).Seconds() }

// describeFaults describes the faults of a run: those of its preset, or its kinds.
func (c *Config) describeFaults() string {
	for _, p := range presets {
		if p.name == c.Preset {
			return strings.TrimSuffix(p.about, " (root)")
		}
	}
	var texts []string
	for _, k := range c.faultKinds() {
		if text := k.Text(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// KindText describes a kind of the figures of a report: that of a fault, with what it left.
func KindText(kind string) string {
	name, left, found := strings.Cut(kind, ", ")
	text := faults.Kind(name).Text()
	if found {
		text += ", " + left
	}
	return text
}

// UsePreset sets the kinds of faults to those of a preset. It fails if there is no such one.
func (c *Config) UsePreset(name string) error {
	name = strings.ReplaceAll(name, " ", "-")
	i := slices.IndexFunc(presets, func(p struct{ name, about, kinds string }) bool { return p.name == name })
	if i < 0 {
		return fmt.Errorf("--preset names %q: choose of %s", name, presetNames())
	}
	c.Preset = name
	if c.Rolling = presets[i].kinds == ""; !c.Rolling {
		c.Kinds = presets[i].kinds
	}
	return nil
}
