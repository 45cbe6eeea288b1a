package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness/defect"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/harness/service"
)

// Config holds the settings of a run, those of the flags of `peerage chaos`.
type Config struct {
	Rounds   int           `json:"rounds"`
	Seed     uint64        `json:"seed"`
	Nodes    int           `json:"nodes"`
	Counters int           `json:"counters"`
	Shards   int           `json:"shards"`
	Replicas int           `json:"replicas"`
	Every    time.Duration `json:"every_ns"`
	Calm     time.Duration `json:"calm_ns"`
	// InFlight is how many requests a process may have in flight, 0 for the default.
	InFlight int    `json:"in_flight,omitempty"`
	Rolling  bool   `json:"rolling"`
	InPlace  bool   `json:"in_place"`
	Version  bool   `json:"new_version"`
	Enforce  bool   `json:"enforce_bounds"`
	Kinds    string `json:"faults"`
	// Work names workloads, with commas; "" is the counters alone.
	Work string `json:"workload,omitempty"`
	// Preset is the name of the preset that Kinds and Rolling come from, "" for none.
	Preset string `json:"preset,omitempty"`
	// Plant is the defect of the nodes, "" for none.
	Plant defect.Kind `json:"plant,omitempty"`
	// Service is the program of a user that the processes run, nil for nodes with counters.
	Service *service.Spec `json:"service,omitempty"`
	// Program is how this program was started, for the command that repeats the run.
	Program string `json:"-"`
	// ApartFrom is the network namespace that a run with cuts must not touch.
	ApartFrom string `json:"-"`
}

// Validate reports all settings out of range, by the names of their flags.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Rounds >= 1 && c.Rounds <= 10_000, "--rounds is %d: choose 1 to 10000", c.Rounds)
	check(c.Nodes >= 2 && c.Nodes <= fleet.PlacesMax, "--nodes is %d: choose 2 to %d", c.Nodes, fleet.PlacesMax)
	check(c.Counters >= 1 && c.Counters <= 1000, "--counters is %d: choose 1 to 1000", c.Counters)
	check(c.Shards >= 1 && c.Shards <= 4096, "--shards is %d: choose 1 to 4096", c.Shards)
	check(c.Replicas >= 0 && c.Replicas <= c.Nodes, "--replicas is %d: choose 0 to --nodes, %d", c.Replicas, c.Nodes)
	check(c.Every >= time.Millisecond && c.Every <= time.Second, "--every is %v: choose 1ms to 1s", c.Every)
	check(c.Calm >= 0 && c.Calm <= time.Minute, "--calm is %v: choose 0 to 1m", c.Calm)
	check(c.InFlight >= 0 && c.InFlight <= 100_000, "--in-flight is %d: choose 1 to 100000", c.InFlight)
	for _, k := range c.faultKinds() {
		check(k != faults.Ring || c.Nodes >= 4, "--faults ring needs --nodes 4 or more, not %d", c.Nodes)
		check(k.Exists(), "--faults names %q: choose of %s,%s,%s,%s", k, faults.DefaultKinds, faults.NetworkKinds, faults.MachineKinds, faults.ProcessorKinds)
		check(!k.NeedsFiles() || !c.Rolling, "--faults %s: not with --rolling", k)
	}
	errs = append(errs, c.checkWork(), c.checkService())
	if c.Plant != "" {
		errs = append(errs, defect.Plant(c.Plant))
	}
	return errors.Join(errs...)
}

// faultKinds are those of --faults.
func (c *Config) faultKinds() (out []faults.Kind) {
	for _, k := range strings.Split(c.Kinds, ",") {
		out = append(out, faults.Kind(k))
	}
	return out
}

// Cuts reports whether the run needs a wall.
func (c *Config) Cuts() bool {
	return !c.Rolling && slices.ContainsFunc(c.faultKinds(), faults.Kind.BreaksNetwork)
}

// Disks reports whether the run needs disks of its own.
func (c *Config) Disks() bool {
	return !c.Rolling && slices.ContainsFunc(c.faultKinds(), faults.Kind.NeedsDisks)
}

// files reports whether the processes keep files.
func (c *Config) files() bool {
	return !c.Rolling && slices.ContainsFunc(c.faultKinds(), faults.Kind.NeedsFiles)
}

// command is how to repeat the run.
func (c *Config) command() string {
	s := fmt.Sprintf("chaos --seed %d --nodes %d --counters %d --shards %d --every %v --calm %v", c.Seed, c.Nodes, c.Counters, c.Shards, c.Every, c.Calm)
	if c.Service != nil {
		s = fmt.Sprintf("chaos --service %s --seed %d --nodes %d --every %v --calm %v", c.Service.File, c.Seed, c.Nodes, c.Every, c.Calm)
	}
	s = cmp.Or(c.Program, "peerage") + " " + s
	if c.Replicas > 0 {
		s += fmt.Sprintf(" --replicas %d", c.Replicas)
	}
	if c.InFlight > 0 && c.InFlight != load.InFlightMax {
		s += fmt.Sprintf(" --in-flight %d", c.InFlight)
	}
	if c.Work != "" && c.Work != workCounter {
		s += fmt.Sprintf(" --workload %s", c.Work)
	}
	if c.Plant != "" {
		s += fmt.Sprintf(" --plant %s", c.Plant)
	}
	if c.Preset != "" {
		return s + fmt.Sprintf(" --rounds %d --preset %s", c.Rounds, c.Preset)
	}
	if c.Rolling {
		return s + fmt.Sprintf(" --rolling --in-place=%v --new-version=%v", c.InPlace, c.Version)
	}
	return s + fmt.Sprintf(" --rounds %d --faults %s", c.Rounds, c.Kinds)
}
