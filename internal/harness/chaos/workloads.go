package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/history"
)

// The workloads of a run.
const (
	// workCounter asks counters; every run has it.
	workCounter = "counter"
	// workReplicated keeps each count on three processes.
	workReplicated = "replicated"
	// workRegister writes and reads replicated registers at a majority.
	workRegister = "register"
	// workSet adds elements to a replicated set, and reads it, at a majority.
	workSet = "set"
	// workReliable sends reliable messages to counters.
	workReliable = "reliable"
)

// DefaultWork is the workload of a run that names none.
const DefaultWork = workCounter

// Workloads lists the workloads.
const Workloads = workCounter + "," + workReplicated + "," + workRegister + "," + workSet + "," + workReliable

// copiesOfWork is how many processes keep a count of the workload "replicated".
const copiesOfWork = 3

// works reports whether the run has a workload.
func (c *Config) works(name string) bool { return slices.Contains(strings.Split(c.Work, ","), name) }

// checkWork returns an error for workloads that do not exist.
func (c *Config) checkWork() error {
	if c.Work == "" {
		return nil
	}
	for _, w := range strings.Split(c.Work, ",") {
		if !slices.Contains(strings.Split(Workloads, ","), w) {
			return fmt.Errorf("--workload names %q: choose of %s", w, Workloads)
		}
	}
	return nil
}

// replicas returns how many processes keep each count.
func (c *Config) replicas() int {
	if c.Replicas == 0 && c.works(workReplicated) {
		return min(copiesOfWork, c.Nodes)
	}
	return c.Replicas
}

// majorityLost returns the spans in which half of the processes or more may have lost what they
// keep in memory, by faults of these kinds, or of any kind if none is named.
func (c *campaign) majorityLost(by ...faults.Kind) (lost []history.Span) {
	for i := range c.faults.Rounds {
		ro := &c.faults.Rounds[i]
		if ro.LosesMemory() && 2*ro.Lost() >= c.cfg.Nodes && (len(by) == 0 || slices.Contains(by, ro.Kind)) {
			lost = append(lost, ro.Span())
		}
	}
	return lost
}

// registers checks the reads of registers: on disk nothing is lost, but a majority of the disks may not
// be back yet.
func (r *Report) registers(c *campaign, records []history.Record) {
	lost, away, setBack := c.majorityLost(), []history.Span(nil), []history.Span(nil)
	if c.fleet.Files {
		lost, away, setBack = nil, lost, c.majorityLost(faults.Clock)
	}
	stale, checked := history.StaleReads(records, lost, away, setBack)
	r.addInvariant("a register shows no write that was overwritten", checked, formatViolations(c, stale, history.Stale.When))
}

// elements checks the reads of the set, which is in memory.
func (r *Report) elements(c *campaign, records []history.Record) {
	missing, checked := history.MissingElements(records, c.majorityLost())
	var v []string
	for _, m := range missing {
		v = append(v, fmt.Sprintf("%s element %d of process %016x is gone, at node %016x", c.when(m.Start), m.Entity, m.Sender, m.Node))
	}
	r.addInvariant("a set contains what was added to it", checked, v)
}

// ReliablePatience is how long a reliable message may wait for its confirmation, in times
// without a fault.
const ReliablePatience = 10 * time.Second

// reliable checks the reliable messages. A home that is lost takes its memory of them with it,
// also if its counts are replicated: rough are the spans in which that may happen.
func (r *Report) reliable(c *campaign, records []history.Record, rough []history.Span) {
	reruns, handled := history.Reruns(records, rough)
	r.addInvariant("reliable messages were handled in order, and again only after the loss of a home", handled,
		formatViolations(c, reruns, history.Rerun.When))
	omissions, confirmed := history.Omissions(records)
	r.addInvariant("no reliable message was left out", confirmed, formatViolations(c, omissions, history.Omission.When))
	var spans []history.Span
	for i := range c.faults.Rounds {
		spans = append(spans, c.faults.Rounds[i].Span())
	}
	delays, accepted := history.Delays(records, spans, history.Span{From: c.calmFrom, To: c.ended}, ReliablePatience)
	r.addAvailability(fmt.Sprintf("every reliable message was confirmed within %v of calm, unless its process ended first", ReliablePatience), accepted,
		formatViolations(c, delays, history.Delay.When))
}
