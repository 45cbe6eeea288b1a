package demo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

// Verdict is what the recorded histories prove.
type Verdict struct {
	cfg       Config
	kills     []kill
	failovers []history.Failover
	doubles   []history.Double
	load      harness.Totals
	// handled counts handler runs, lost the requests whose callers died waiting.
	handled, lost uint64
	survivor      string
	// survivorShards is how many shards the survivor serves at the end.
	survivorShards int
	// shards is how many shards the counters live in.
	shards int
	// took is how long the story was, without reading the records.
	took time.Duration
	// machine is how busy the machine was meanwhile.
	machine machine.Summary
	// unserved lists counters that the survivor had no answer from after the last kill.
	unserved []uint32
}

// verdict reads the histories of all processes, the killed ones' too.
func (c *cluster) verdict(kills []kill, survivor harness.Report) (*Verdict, error) {
	v := &Verdict{cfg: c.cfg, kills: kills, survivor: survivor.Name, survivorShards: survivor.Shards}
	records, _, err := c.records(nil)
	if err != nil {
		return nil, err
	}
	byName := map[string]*fleet.Process{}
	for _, p := range c.nodes {
		byName[p.Name] = p
		r, _ := p.Snapshot()
		v.load.Add(r.Load)
	}
	v.doubles = history.Doubles(records)
	killed := map[uint64]bool{}
	for i, k := range kills {
		for _, name := range k.names {
			maps.Copy(killed, byName[name].Ids)
		}
		until := clock.Never
		if i+1 < len(kills) {
			until = kills[i+1].at
		}
		v.failovers = append(v.failovers, history.Failovers(records, killed, k.at, until))
	}
	v.countRecords(records, killed, c.cfg.Counters)
	return v, nil
}

func (v *Verdict) countRecords(records []history.Record, killed map[uint64]bool, counters int) {
	var asked, answered, failed uint64
	for _, r := range records {
		switch r.Op {
		case history.Handled:
			v.handled++
		case history.Answered:
			answered++
		case history.Failed:
			failed++
		case history.Asked:
			asked++
		}
	}
	v.unserved = unserved(records, killed, v.kills[len(v.kills)-1].at, counters)
	// The histories outlive the killed, their last totals may lag behind them.
	v.load.Asked, v.load.Answered, v.load.GaveUp = asked, answered, failed
	v.lost = asked - answered - failed
}

// unserved returns the counters from which no surviving process has an answer to a request from after a
// kill.
func unserved(records []history.Record, killed map[uint64]bool, at clock.Instant, counters int) (out []uint32) {
	served := map[uint32]bool{}
	for _, r := range records {
		if r.Op == history.Answered && !killed[r.Node] && r.Start.After(at) {
			served[r.Entity] = true
		}
	}
	for i := range uint32(counters) {
		if !served[i] {
			out = append(out, i)
		}
	}
	return out
}

// records reads what all processes have recorded so far, and returns the incarnations of the
// processes of these names.
func (c *cluster) records(names []string) (all []history.Record, ids map[uint64]bool, err error) {
	ids = map[uint64]bool{}
	for _, p := range c.nodes {
		h, err := history.Read(p.History)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, h...)
		if slices.Contains(names, p.Name) {
			for _, id := range p.NodeIDs() {
				ids[id] = true
			}
		}
	}
	return all, ids, nil
}

// Passed reports whether everything held.
func (v *Verdict) Passed() bool { return v.failures() == nil }

func (v *Verdict) failures() error {
	var errs []error
	if n := len(v.doubles); n > 0 {
		errs = append(errs, fmt.Errorf("%d doubles: a counter had two live instances", n))
	}
	if n := len(v.unserved); n > 0 {
		errs = append(errs, fmt.Errorf("the survivor had no answer from %d counters: %v", n, v.unserved))
	}
	if v.survivorShards < v.shards {
		errs = append(errs, fmt.Errorf("the survivor serves %d shards, the counters live in %d", v.survivorShards, v.shards))
	}
	if n := v.load.GaveUp; n > 0 {
		errs = append(errs, fmt.Errorf("%d requests were given up after %v of retries", n, load.CallerPatience))
	}
	if v.load.Answered == 0 {
		errs = append(errs, errors.New("nothing was ever answered"))
	}
	moved := 0
	for i, f := range v.failovers {
		moved += f.Moved
		if len(f.Unanswered) > 0 {
			errs = append(errs, fmt.Errorf("after the kill of %v no survivor had an answer from counters %v", v.kills[i].names, f.Unanswered))
		}
		if p99 := harness.HistogramOf(f.Times).Percentile(99); v.cfg.Enforce && p99 > v.kills[i].bound() {
			errs = append(errs, fmt.Errorf("after the kill of %v the p99 of first answers is %v, the bound %v", v.kills[i].names, rounded(p99), v.kills[i].bound()))
		}
	}
	if moved == 0 {
		errs = append(errs, errors.New("no killed process hosted a counter: the run shows nothing"))
	}
	return errors.Join(errs...)
}

// metBounds reports whether the p99 of the first answers after each kill kept its bound.
func (v *Verdict) metBounds() bool {
	for i, k := range v.kills {
		if harness.HistogramOf(v.failovers[i].Times).Percentile(99) > k.bound() {
			return false
		}
	}
	return true
}

func (k kill) bound() time.Duration {
	if k.emergency {
		return harness.BoundEmergency
	}
	return harness.BoundMajority
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// usedShards is how many shards the demo's counters live in: only those are placed.
func usedShards(cfg Config) (int, error) {
	counters, err := sharding.RegisterProxy(new(sharding.Registry), sharding.Type[load.Add, load.Total]{Name: "counter", Shards: cfg.Shards})
	if err != nil {
		return 0, err
	}
	used := map[sharding.ShardID]bool{}
	for i := range cfg.Counters {
		used[counters.ShardOf(load.CounterID(i))] = true
	}
	return len(used), nil
}
