package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// facts are what report.json records of a run, besides its verdicts: its settings and its faults.
type facts struct {
	Schema int `json:"schema"`
	Config struct {
		Rounds   int           `json:"rounds"`
		Nodes    int           `json:"nodes"`
		Counters int           `json:"counters"`
		Replicas int           `json:"replicas"`
		Every    time.Duration `json:"every_ns"`
		Rolling  bool          `json:"rolling"`
		InPlace  bool          `json:"in_place"`
		Faults   string        `json:"faults"`
		Workload string        `json:"workload"`
		Service  *service      `json:"service"`
	} `json:"config"`
	Rounds     []round `json:"rounds"`
	CalmFrom   int64   `json:"calm_from"`
	Ended      int64   `json:"ended"`
	EndedEarly string  `json:"ended_early"`
	Machine    struct {
		Windows int `json:"windows"`
		Starved int `json:"starved"`
	} `json:"machine"`
	FailedAttempts map[string]uint64 `json:"failed_attempts"`
	// Verdicts are those of the run itself. The judge only compares them with its own.
	Verdicts []struct {
		Name    string `json:"name"`
		Verdict string `json:"verdict"`
	} `json:"invariants"`
}

// service is what a program of a user promises.
type service struct {
	Keeps   string    `json:"keeps"`
	Copies  int       `json:"copies"`
	Counter *struct{} `json:"counter"`
}

// round is one fault.
type round struct {
	Number     int      `json:"number"`
	Kind       string   `json:"kind"`
	Places     []string `json:"places"`
	Nodes      []uint64 `json:"nodes"`
	Killed     int      `json:"killed"`
	From       int64    `json:"from"`
	To         int64    `json:"to"`
	HeldFrom   int64    `json:"held_from"`
	HeldTo     int64    `json:"held_to"`
	TookEffect bool     `json:"took_effect"`
	// KeepsMemory is set for delays that were too short to have a node removed.
	KeepsMemory bool `json:"keeps_memory"`
	// beside are the nodes that were removed on an overloaded machine while the round lasted, and
	// that it did not hurt. The records tell.
	beside map[uint64]bool
}

const (
	factsFile    = "report.json"
	factsSchema  = 2
	factsBytes   = 256 << 20
	countersMost = 1 << 20
)

// readFacts reads the facts of the run whose histories are in a directory.
func readFacts(dir string) (*facts, error) {
	path := filepath.Join(dir, factsFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s, which has the faults of the run: a version of peerage before it was written kept these histories", dir, factsFile)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, factsBytes))
	if err != nil {
		return nil, err
	}
	out, err := parseFacts(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// parseFacts reads a report, and rejects values that no run has.
func parseFacts(b []byte) (*facts, error) {
	f := &facts{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, err
	}
	c := &f.Config
	switch {
	case f.Schema != factsSchema:
		return nil, fmt.Errorf("schema %d, want %d", f.Schema, factsSchema)
	case f.Ended == 0:
		return nil, errors.New(`no "ended": the report is of a version of peerage that did not record it`)
	case c.Counters < 0 || c.Counters > countersMost || c.Nodes < 1 || c.Replicas < 0:
		return nil, fmt.Errorf("config has %d counters, %d nodes and %d replicas", c.Counters, c.Nodes, c.Replicas)
	case f.CalmFrom < 0 || f.CalmFrom > f.Ended:
		return nil, fmt.Errorf("calm_from is %d, ended is %d", f.CalmFrom, f.Ended)
	}
	last := int64(0)
	for i := range f.Rounds {
		r := &f.Rounds[i]
		if r.From < last || r.To < r.From || r.HeldTo < r.HeldFrom || r.Killed < 0 {
			return nil, fmt.Errorf("round %d lasts from %d to %d, after a round until %d, and holds from %d to %d", r.Number, r.From, r.To, last, r.HeldFrom, r.HeldTo)
		}
		last = r.To
	}
	return f, nil
}

// span is a stretch of time, without its end.
type span struct{ from, to int64 }

// anyTouches reports whether any of spans has a part between two instants.
func anyTouches(spans []span, from, to int64) bool {
	for _, s := range spans {
		if from < s.to && s.from < to {
			return true
		}
	}
	return false
}

// hasWorkload reports whether the run had a workload.
func (f *facts) hasWorkload(name string) bool {
	return slices.Contains(strings.Split(f.Config.Workload, ","), name)
}

// onDisk reports whether the processes kept files: for the faults of clocks and disks they do.
func (f *facts) onDisk() bool {
	return !f.Config.Rolling && slices.ContainsFunc(strings.Split(f.Config.Faults, ","), onMachine)
}

// onMachine reports whether a fault hurts the clock or the disk of a process.
func onMachine(fault string) bool { return fault == "clock" || fault == "disk" }

// copies returns how many processes keep each count; 0 means its host alone.
func (f *facts) copies() int {
	if f.Config.Replicas == 0 && f.hasWorkload("replicated") {
		return min(3, f.Config.Nodes)
	}
	return f.Config.Replicas
}

// inOrder reports whether the round ended its processes in order.
func (r *round) inOrder() bool {
	return r.Kind == "drain" || r.Kind == "restart" || r.Kind == "restart-many"
}

// taken returns how many processes may have lost their memory in the round. A process that is
// paused, slowed, delayed or cut off counts, since the cluster may remove it.
func (r *round) taken() int {
	switch {
	case r.inOrder(), r.KeepsMemory:
		return 0
	case onMachine(r.Kind):
		return r.Killed
	}
	return len(r.Places)
}

// lost returns those of some rounds in which processes may have lost their memory.
func (f *facts) lost(counts func(r *round) bool) (out []span) {
	for i := range f.Rounds {
		if r := &f.Rounds[i]; r.taken() > 0 && counts(r) {
			out = append(out, span{r.From, r.To})
		}
	}
	return out
}

// anyLost are the rounds in which a process may have lost its memory.
func (f *facts) anyLost() []span { return f.lost(func(*round) bool { return true }) }

// halfLost are the rounds in which half of some processes, or more, may have lost their memory.
func (f *facts) halfLost(of int) []span {
	return f.lost(func(r *round) bool { return 2*r.taken() >= of })
}

// halfSetBack are the rounds of halfLost that set clocks.
func (f *facts) halfSetBack(of int) []span {
	return f.lost(func(r *round) bool { return r.Kind == "clock" && 2*r.taken() >= of })
}

// majorityLost are the rounds in which a majority of some processes may have lost their memory.
func (f *facts) majorityLost(of int) []span {
	return f.lost(func(r *round) bool { return 2*(r.taken()+len(r.beside)) > of })
}

// noteRemoved notes the removal of a node on an overloaded machine.
func (f *facts) noteRemoved(node uint64, at int64) {
	for i := range f.Rounds {
		r := &f.Rounds[i]
		if at < r.From || at >= r.To || slices.Contains(r.Nodes, node) {
			continue
		}
		if r.beside == nil {
			r.beside = map[uint64]bool{}
		}
		r.beside[node] = true
	}
}

// watched returns the time from the begin of round i until the next round, or the end.
func (f *facts) watched(i int) span {
	to := f.Ended
	if i+1 < len(f.Rounds) {
		to = f.Rounds[i+1].From
	}
	return span{f.Rounds[i].From, to}
}

// overloaded reports whether the machine had too little time for the run.
func (f *facts) overloaded() bool {
	s, w := f.Machine.Starved, f.Machine.Windows
	return s > 5 || s >= 2 && 10*s > w
}

// when words in which round an instant lies.
func (f *facts) when(at int64) string {
	for i := range f.Rounds {
		r := &f.Rounds[i]
		switch {
		case at < r.From:
			return fmt.Sprintf("before round %d (%s)", r.Number, r.Kind)
		case at < r.To:
			return fmt.Sprintf("in round %d (%s), %v after its begin", r.Number, r.Kind, time.Duration(at-r.From).Round(time.Microsecond))
		}
	}
	return "after the last round"
}
