package chaos

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/machine"
)

// The verdicts of a report and of each of its invariants.
const (
	Passed  = "PASS"
	Failed  = "FAIL"
	Unknown = "UNKNOWN"
)

// Report is the result of a run of `peerage chaos`. Times are in milliseconds.
type Report struct {
	Schema     int                 `json:"schema"`
	Verdict    string              `json:"verdict"`
	Invariants []Invariant         `json:"invariants"`
	Command    string              `json:"command"`
	Seed       uint64              `json:"seed"`
	Env        harness.Environment `json:"environment"`
	TookMS     float64             `json:"took_ms"`
	Rounds     []faults.Round      `json:"rounds"`
	Recovery   []Recovery          `json:"recovery"`
	Counters   map[string]uint64   `json:"counters"`
	// FailedAttempts counts attempts by reason; their callers tried again.
	FailedAttempts map[string]uint64 `json:"failed_attempts"`
	// Load is the rate of requests; Before, During and After are their latencies, those of
	// During touched a fault.
	Load   Load    `json:"load"`
	Before Latency `json:"latency_before"`
	During Latency `json:"latency_during"`
	After  Latency `json:"latency_after"`
	// LateHandlers counts handlers that were running, or just let in, when their process
	// was held, and ended after it went on: G1 allows that, and the token fences their effects.
	LateHandlers int `json:"late_handlers"`
	// MovesMax is the most moves of any shard, in a rolling restart.
	MovesMax int `json:"moves_per_shard_max,omitempty"`
	// Timeline has a bin for each 100 ms since the load stood, Faults where the faults lie.
	Timeline []Bin       `json:"timeline"`
	Faults   []FaultSpan `json:"faults"`
	Events   []Event     `json:"events,omitempty"`
	// Failovers are the parts of the time after kills, Costs what the processes took.
	Failovers []Failover      `json:"failovers"`
	Costs     []Cost          `json:"costs"`
	Healed    Healed          `json:"healed"`
	Linear    Linearizability `json:"linearizability"`
	// Availability sums up the timeline, Machine is what was seen of the machine meanwhile.
	Availability Availability    `json:"availability"`
	Machine      machine.Summary `json:"machine"`
	// Histories is the directory that holds the records, if it was kept.
	Histories string `json:"histories,omitempty"`
	// CalmFrom is when the load stood and nothing was hurt yet, 0 if the processes did not come
	// up. Ended is when the run was over. Both are on the boot clock, as the rounds are.
	CalmFrom clock.Instant `json:"calm_from"`
	Ended    clock.Instant `json:"ended"`
	// EndedEarly is why the last round is incomplete, or missing.
	EndedEarly string    `json:"ended_early,omitempty"`
	Config     Config    `json:"config"`
	At         time.Time `json:"at"`
}

// SchemaVersion is that of the JSON of a Report. It grows when a field is renamed, goes or
// changes its meaning; new fields leave it as it is.
const SchemaVersion = 2

const (
	// SingleInstance is the name of the first promise, NothingLost begins the names of those
	// about acknowledged requests.
	SingleInstance = "no counter had two live instances"
	NothingLost    = "nothing acknowledged was lost "
)

// Invariant is one promise, how often it was checked, and what broke it.
type Invariant struct {
	Name       string   `json:"name"`
	Verdict    string   `json:"verdict"`
	Checked    int      `json:"checked"`
	Violations []string `json:"violations,omitempty"`
	// Availability is set for promises that processes without enough processor time cannot
	// keep. On an overloaded machine, a broken one is UNKNOWN.
	Availability bool `json:"availability,omitempty"`
}

// Recovery is how long counters were without an answer, over all rounds of a kind.
type Recovery struct {
	Kind   string `json:"kind"`
	Rounds int    `json:"rounds"`
	harness.Quantiles
	BoundMS float64 `json:"bound_ms"`
	Met     bool    `json:"met"`
}

// Availability counts the requests that were due while the load stood, by what users had of
// them. Missed are those of Due that no process sent, since that of their caller was gone.
type Availability struct {
	Due    int `json:"due"`
	Missed int `json:"missed"`
	// Prompt had their answer within 100 ms, Answered at any time.
	Prompt   int `json:"prompt"`
	Answered int `json:"answered"`
	// NotSent were due while their process had too many requests in flight, of at most
	// InFlightMax. InFlightMost is the most that any process had.
	NotSent      int `json:"not_sent"`
	InFlightMax  int `json:"in_flight_max"`
	InFlightMost int `json:"in_flight_most"`
}

// Bin is what happened in a tenth of a second.
type Bin struct {
	// Due counts the requests of living processes that were due in it, Prompt those of them that
	// had their answer within 100 ms. SlowestMS is the longest time that one of them took. Missed
	// counts the requests that were due and were not sent, since their process was gone.
	Due       int     `json:"due"`
	Missed    int     `json:"missed,omitempty"`
	Prompt    int     `json:"prompt"`
	SlowestMS float64 `json:"slowest_ms,omitempty"`
	// Answered and GaveUp count the requests that ended in it.
	Answered int `json:"answered"`
	GaveUp   int `json:"gave_up,omitempty"`
}

// Wanted returns how many requests users wanted answered.
func (b Bin) Wanted() int { return b.Due + b.Missed }

// FaultSpan is where a fault lies on the timeline: until all processes agreed again.
type FaultSpan struct {
	Round      int         `json:"round"`
	Kind       faults.Kind `json:"kind"`
	Detail     string      `json:"detail"`
	FromMS     float64     `json:"from_ms"`
	ToMS       float64     `json:"to_ms"`
	TookEffect bool        `json:"took_effect"`
}

const (
	movesMost = 2
	// boundHealed is what kernels' retransmission and a new view take after a network has
	// healed. In a ring no removal makes all members reach each other, and a member behind a
	// delay may renew its lease: a counter may be without an answer until then (GUARANTEES.md, G5).
	boundHealed = 1500 * time.Millisecond
)

// boundOf returns the advertised p99 of the time without an answer after a round.
func boundOf(r *faults.Round) time.Duration {
	switch {
	case r.Kind == faults.Ring, r.Kind == faults.Delay:
		return max(harness.BoundFrozen, time.Duration(r.HeldMS)*time.Millisecond+boundHealed)
	case r.Kind == faults.Stop, r.Kind == faults.Freeze, r.Kind == faults.Slow, r.Kind.BreaksNetwork():
		return harness.BoundFrozen
	case r.Kind.NeedsFiles() && r.Emergency:
		return harness.BoundServed
	case !r.LosesMemory():
		return harness.BoundOrderly
	case r.Emergency:
		return harness.BoundEmergency
	}
	return harness.BoundMajority
}

// addAvailability adds a promise that an overloaded machine excuses.
func (r *Report) addAvailability(name string, checked int, violations []string) {
	r.addInvariant(name, checked, violations)
	r.Invariants[len(r.Invariants)-1].Availability = true
}

// excuseOverload makes broken promises of availability UNKNOWN if the machine was overloaded.
// Promises of safety hold on any machine.
func (r *Report) excuseOverload() {
	if !r.Machine.Overloaded {
		return
	}
	for i := range r.Invariants {
		if inv := &r.Invariants[i]; inv.Availability && inv.Verdict == Failed {
			inv.Verdict = Unknown
			inv.Violations = append([]string{"the machine was overloaded: " + r.Machine.String()}, inv.Violations...)
		}
	}
}

func (r *Report) addInvariant(name string, checked int, violations []string) {
	i := Invariant{Name: name, Verdict: Passed, Checked: checked, Violations: violations}
	switch {
	case len(violations) > 0:
		i.Verdict = Failed
	case checked == 0:
		i.Verdict = Unknown
	}
	r.Invariants = append(r.Invariants, i)
}

// ReportFile is the name of the report in a directory of kept histories.
const ReportFile = "report.json"

// SaveHistograms writes the latencies before, during and after faults to a directory, in the form that
// the plotters of HdrHistogram read (.hgrm), in milliseconds. A report that was read from a file has
// quantiles alone, and writes nothing.
func (r *Report) SaveHistograms(dir string) error {
	for name, l := range map[string]Latency{"before": r.Before, "during": r.During, "after": r.After} {
		if l.counts == nil {
			continue
		}
		var b bytes.Buffer
		if err := l.counts.WritePercentiles(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "latency-"+name+".hgrm"), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// Save writes the report in JSON; an empty name writes none.
func (r *Report) Save(file string) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}
