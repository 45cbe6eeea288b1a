package faults

import (
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/namespace"
	"github.com/peerage-go/peerage/internal/history"
)

// Round is one fault and its observed effects.
type Round struct {
	Number int  `json:"number"`
	Kind   Kind `json:"kind"`
	// Places are the processes that were hurt, Nodes their incarnations until then.
	Places []string `json:"places"`
	Nodes  []uint64 `json:"nodes"`
	// Other is the place that lost the one of Places, in a cut between two.
	Other string `json:"other,omitempty"`
	// Killed is how many processes a fault of the clock or of a disk killed as well.
	Killed int `json:"killed,omitempty"`
	// How is the way in which the network was broken, the clocks were set, or disks failed.
	How string `json:"how,omitempty"`
	// From and To are when the fault began, and when all processes agreed again, on the
	// machine's boot clock, in nanoseconds.
	From clock.Instant `json:"from"`
	To   clock.Instant `json:"to"`
	// Emergency: no majority of the view outlived it.
	Emergency bool `json:"emergency,omitempty"`
	// HeldFrom and HeldTo are when a process was held, on the same clock.
	HeldFrom clock.Instant `json:"held_from,omitempty"`
	HeldTo   clock.Instant `json:"held_to,omitempty"`
	// HeldMS is how long a process was held, or cut off, DrainMS how long its orderly end took.
	HeldMS  float64 `json:"held_ms,omitempty"`
	DrainMS float64 `json:"drain_ms,omitempty"`
	// Delay is what was measured of a delay, nil for other faults.
	Delay *namespace.Delayed `json:"delay,omitempty"`
	// KeepsMemory: the delay was too short to have a node removed, so it takes no state with it.
	KeepsMemory bool `json:"keeps_memory,omitempty"`
	// TookEffect is set if the intended effect of the fault was observed.
	TookEffect bool `json:"took_effect"`
}

// Span returns when the fault began, and when all processes agreed again.
func (r *Round) Span() history.Span { return history.Span{From: r.From, To: r.To} }

// PlaceNames joins the names of the places that were hurt.
func (r *Round) PlaceNames() string { return strings.Join(r.Places, ",") }

// Detail words how a fault was dealt, for a line of progress.
func (r *Round) Detail() string {
	switch {
	case r.Delay != nil:
		return fmt.Sprintf(" (%s) for %.0f ms, with round trips of %s, %s before", r.How, r.HeldMS, harness.FormatMillis(r.Delay.DuringMS), harness.FormatMillis(r.Delay.BeforeMS))
	case r.Other != "":
		return fmt.Sprintf(" from %s for %.0f ms", r.Other, r.HeldMS)
	case r.How != "":
		if r.HeldMS == 0 {
			return fmt.Sprintf(" (%s)", r.How)
		}
		return fmt.Sprintf(" (%s) for %.0f ms", r.How, r.HeldMS)
	case r.HeldMS > 0:
		return fmt.Sprintf(" for %.0f ms", r.HeldMS)
	case r.DrainMS > 0:
		return fmt.Sprintf(", out after %.0f ms", r.DrainMS)
	}
	return ""
}

// LosesMemory reports whether the round may lose state that is in memory only.
func (r *Round) LosesMemory() bool {
	if r.Kind.NeedsFiles() {
		return r.Killed > 0
	}
	return !r.KeepsMemory && r.Kind != Drain && r.Kind != Restart && r.Kind != RestartMany
}

// Lost is how many processes a rough round may have taken from the cluster at one time.
func (r *Round) Lost() int {
	if r.Kind.NeedsFiles() {
		return r.Killed
	}
	return len(r.Places)
}

func (r *Round) hurts(p *fleet.Process) {
	r.Places = append(r.Places, p.Name)
	r.Nodes = append(r.Nodes, p.NodeIDs()...)
}
