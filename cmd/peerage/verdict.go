package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
	"github.com/peerage-go/peerage/sharding"
)

const (
	boundMajority  = 300 * time.Millisecond
	boundEmergency = 500 * time.Millisecond
)

// verdict is what the recorded histories prove.
type verdict struct {
	kills     []kill
	failovers []history.Failover
	doubles   []history.Double
	load      loadTotals
	// handled counts handler runs, lost the requests whose callers died waiting.
	handled, lost uint64
	survivor      string
	// survivorShards is how many shards the survivor serves at the end.
	survivorShards int
	// shards is how many shards the counters live in.
	shards int
	// unserved lists counters that the survivor had no answer from after the last kill.
	unserved []uint32
}

// verdict reads the histories of all processes, the killed ones' too.
func (c *demoCluster) verdict(kills []kill, survivor report) (*verdict, error) {
	v := &verdict{kills: kills, survivor: survivor.Name, survivorShards: survivor.Shards}
	var records []history.Record
	byName := map[string]*process{}
	for _, p := range c.nodes {
		h, err := history.Read(p.history)
		if err != nil {
			return nil, err
		}
		records = append(records, h...)
		byName[p.name] = p
		r, _ := p.snapshot()
		v.load.add(r.Load)
	}
	v.doubles = history.Doubles(records)
	killed := map[uint64]bool{}
	for i, k := range kills {
		for _, name := range k.names {
			maps.Copy(killed, byName[name].ids)
		}
		until := clock.Never
		if i+1 < len(kills) {
			until = kills[i+1].at
		}
		v.failovers = append(v.failovers, history.Failovers(records, killed, k.at, until))
	}
	v.count(records, killed, c.cfg.counters)
	var err error
	v.shards, err = usedShards(c.cfg)
	return v, err
}

func (v *verdict) count(records []history.Record, killed map[uint64]bool, counters int) {
	last := v.kills[len(v.kills)-1].at
	served := map[uint32]bool{}
	var asked, answered, failed uint64
	for _, r := range records {
		switch r.Op {
		case history.Handled:
			v.handled++
		case history.Answered:
			answered++
			if !killed[r.Node] && r.Start.After(last) {
				served[r.Entity] = true
			}
		case history.Failed:
			failed++
		case history.Asked:
			asked++
		}
	}
	for i := range uint32(counters) {
		if !served[i] {
			v.unserved = append(v.unserved, i)
		}
	}
	// The histories outlive the killed, their last totals may lag behind them.
	v.load.Asked, v.load.Answered, v.load.GaveUp = asked, answered, failed
	v.lost = asked - answered - failed
}

// print writes the verdict and returns the matching exit code.
func (v *verdict) print(w io.Writer, cfg demoConfig) int {
	fmt.Fprintf(w, "\nVerdict\n")
	fmt.Fprintf(w, "  requests         %d answered, %d given up by their callers, %d whose caller's process ended first; %d handler runs\n",
		v.load.Answered, v.load.GaveUp, v.lost, v.handled)
	fmt.Fprintf(w, "  failed attempts  %s\n", reasons(v.load.Tries))
	errs := v.failures(cfg)
	for i, k := range v.kills {
		f := v.failovers[i]
		fmt.Fprintf(w, "  kill of %-10s %2d counters moved; first answer p50 %v, p99 %v, max %v (bound %v: %s)\n",
			strings.Join(k.names, ","), f.Moved, rounded(f.Percentile(50)), rounded(f.Percentile(99)), rounded(f.Percentile(100)),
			k.bound(), within(f.Percentile(99) <= k.bound()))
	}
	fmt.Fprintf(w, "  survivor         %s serves %d of %d shards, %d of %d counters answered\n",
		v.survivor, v.survivorShards, v.shards, cfg.counters-len(v.unserved), cfg.counters)
	fmt.Fprintf(w, "  doubles          %d\n", len(v.doubles))
	for _, d := range v.doubles[:min(len(v.doubles), 5)] {
		fmt.Fprintf(w, "    %v\n", d)
	}
	if errs != nil {
		fmt.Fprintf(w, "FAIL\n  %s\n", strings.ReplaceAll(errs.Error(), "\n", "\n  "))
		return exitFailed
	}
	fmt.Fprintln(w, "PASS")
	return exitOK
}

func (v *verdict) failures(cfg demoConfig) error {
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
		errs = append(errs, fmt.Errorf("%d requests were given up after %v of retries", n, callerPatience))
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
		if p99 := f.Percentile(99); cfg.enforce && p99 > v.kills[i].bound() {
			errs = append(errs, fmt.Errorf("after the kill of %v the p99 of first answers is %v, the bound %v", v.kills[i].names, rounded(p99), v.kills[i].bound()))
		}
	}
	if moved == 0 {
		errs = append(errs, errors.New("no killed process hosted a counter: the run shows nothing"))
	}
	return errors.Join(errs...)
}

func (k kill) bound() time.Duration {
	if k.emergency {
		return boundEmergency
	}
	return boundMajority
}

func within(ok bool) string {
	if ok {
		return "met"
	}
	return "not met"
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

func reasons(tries map[string]uint64) string {
	if len(tries) == 0 {
		return "none"
	}
	keys := slices.SortedFunc(maps.Keys(tries), func(a, b string) int {
		return cmp.Or(-cmp.Compare(tries[a], tries[b]), strings.Compare(a, b))
	})
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, tries[k]))
	}
	return strings.Join(parts, ", ")
}

// usedShards is how many shards the demo's counters live in: only those are placed.
func usedShards(cfg demoConfig) (int, error) {
	counters, err := sharding.RegisterProxy(new(sharding.Registry), sharding.Type[add, total]{Name: "counter", Shards: cfg.shards})
	if err != nil {
		return 0, err
	}
	used := map[sharding.ShardID]bool{}
	for i := range cfg.counters {
		used[counters.ShardOf(counterID(i))] = true
	}
	return len(used), nil
}
