package chaos

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/history"
)

// Failover is how long a kind of kill took counters from their host to the first answer of the
// next one, divided into phases.
type Failover struct {
	Kind   string `json:"kind"`
	Rounds int    `json:"rounds"`
	// Total is from the kill to the first answer.
	Total harness.Quantiles `json:"total"`
	// P50Interval and P99Interval are the confidence intervals of two quantiles of Total, nil
	// for few rounds.
	P50Interval *harness.Interval `json:"p50_interval,omitempty"`
	P99Interval *harness.Interval `json:"p99_interval,omitempty"`
	// Phases are in the order in which they follow each other.
	Phases []Phase `json:"phases"`
}

// Phase is one part of a failover.
type Phase struct {
	Name string `json:"name"`
	harness.Quantiles
}

// phaseNames are the parts of a failover: until a member has evidence of the death; until a
// view excludes the dead; until the new home makes the instance; until that runs its first
// handler; until the first caller has its answer.
var phaseNames = [...]string{"detect", "decide", "allocate", "activate", "first answer"}

// moments are the ends of the parts of one failover of one counter, in the order of phaseNames.
type moments [len(phaseNames)]clock.Instant

// failovers fills the parts of the failovers of all kills.
func (r *Report) failovers(c *campaign, records []history.Record) {
	times := map[string]*[len(phaseNames) + 1][]time.Duration{}
	rounds := map[string][][]time.Duration{}
	var kinds []string
	for i := range c.faults.Rounds {
		ro := &c.faults.Rounds[i]
		if !ro.Kind.Kills() {
			continue
		}
		kind := kindOf(ro)
		if times[kind] == nil {
			times[kind], kinds = &[len(phaseNames) + 1][]time.Duration{}, append(kinds, kind)
		}
		var totals []time.Duration
		in := c.watched(i)
		for _, m := range failoversIn(during(records, history.Span{From: in.From.Add(-lookBack), To: in.To}), ro.Nodes, in) {
			last := in.From
			for p, at := range m {
				times[kind][p] = append(times[kind][p], at.Sub(last))
				last = at
			}
			totals = append(totals, last.Sub(in.From))
		}
		times[kind][len(phaseNames)] = append(times[kind][len(phaseNames)], totals...)
		rounds[kind] = append(rounds[kind], totals)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		if len(times[k][len(phaseNames)]) == 0 {
			continue // the host of a counter is not on record, as for a service
		}
		f := Failover{
			Kind: k, Rounds: len(rounds[k]), Total: harness.HistogramOf(times[k][len(phaseNames)]).Quantiles(),
			P50Interval: harness.QuantileInterval(rounds[k], 50), P99Interval: harness.QuantileInterval(rounds[k], 99),
		}
		for p, name := range phaseNames {
			f.Phases = append(f.Phases, Phase{name, harness.HistogramOf(times[k][p]).Quantiles()})
		}
		r.Failovers = append(r.Failovers, f)
	}
}

// failoversIn returns the moments of each counter whose host was among the killed and that was
// answered again.
func failoversIn(records []history.Record, killed []uint64, in history.Span) []moments {
	host := map[uint32]uint64{}
	passed := map[uint32]*moments{}
	detected, decided := map[uint64]clock.Instant{}, map[uint64]clock.Instant{}
	for _, rec := range records { // sorted by start
		dead := slices.Contains(killed, rec.Node)
		switch {
		case rec.Op == history.Handled && rec.Start.Before(in.From):
			host[rec.Entity] = rec.Node
		case rec.Start.Before(in.From) || dead:
		case rec.Op == history.Suspected:
			first(detected, rec.Sender, rec.Start)
		case rec.Op == history.Excluded:
			first(decided, rec.Sender, rec.Start)
		case rec.Op == history.Created && passed[rec.Entity] == nil:
			passed[rec.Entity] = &moments{2: rec.Start}
		case rec.Op == history.HandlerStarted && passed[rec.Entity] != nil && passed[rec.Entity][3] == 0:
			passed[rec.Entity][3] = rec.Start
		}
	}
	answers(records, killed, passed)
	var out []moments
	for entity, m := range inKeyOrder(passed) {
		h := host[entity]
		m[0], m[1] = detected[h], decided[h]
		if slices.Contains(killed, h) && m[len(m)-1] != 0 {
			m.sortParts()
			out = append(out, *m)
		}
	}
	return out
}

// sortParts moves each moment that is missing, or lies behind the one that follows it, to the
// latter. Different goroutines of a node record them: a new home may make the instance before
// its record of the view is written. A missing evidence is older than the kill, as in a cluster
// that has just lost packets.
func (m *moments) sortParts() {
	for i := len(m) - 2; i >= 0; i-- {
		if m[i] == 0 || m[i+1].Before(m[i]) {
			m[i] = m[i+1]
		}
	}
}

func first[K comparable](m map[K]clock.Instant, k K, at clock.Instant) {
	if _, found := m[k]; !found {
		m[k] = at
	}
}

// answers sets when a surviving caller had the first answer of each counter.
func answers(records []history.Record, killed []uint64, passed map[uint32]*moments) {
	for _, rec := range records {
		m := passed[rec.Entity]
		if rec.Op != history.Answered || m == nil || m[3] == 0 || rec.End.Before(m[3]) || slices.Contains(killed, rec.Node) {
			continue
		}
		if m[4] == 0 || rec.End.Before(m[4]) {
			m[4] = rec.End
		}
	}
}

// kindOf names the kind of a round, with what was left of the cluster.
func kindOf(ro *faults.Round) string {
	kind := string(ro.Kind)
	switch {
	case ro.Kind.NeedsFiles() && ro.Emergency:
		kind += ", all killed"
	case ro.Kind.NeedsFiles() && ro.Killed > 0:
		kind += ", one killed"
	case ro.Emergency:
		kind += ", no majority left"
	}
	return kind
}
