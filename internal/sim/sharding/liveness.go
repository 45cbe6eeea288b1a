package sharding

import (
	"fmt"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/trace"
)

const (
	servedBound = 15 * time.Second
	probeEvery  = 500 * time.Millisecond
)

// CheckLiveness checks L1 and L6 of the hosts in q: every process among them gets
// a message to every shard of every type that q can host, and each shard lives once.
func (v *Invariants) CheckLiveness(q map[int]bool) {
	r := v.run
	from := r.Now()
	for _, m := range v.modelsOn(q) {
		clear(m.senders.probed)
	}
	next := r.Now()
	if !r.UntilTrue(servedBound, 20*time.Millisecond, func() bool {
		if r.Now() >= next {
			next = r.Now().Add(probeEvery)
			v.probe(q)
		}
		return v.isServed(q)
	}) {
		r.Fail("L6", "not every shard is served %v after the cluster was whole: %s", servedBound, v.describeUnserved(q))
	}
	if !r.UntilTrue(servedBound, 100*time.Millisecond, func() bool { return v.outdated() == "" }) {
		r.Fail("G2", "%v after the cluster was whole a token is below those of a cluster that it has absorbed: %s", servedBound, v.outdated())
	}
	if !r.UntilTrue(servedBound, 100*time.Millisecond, func() bool { return v.checkConfirmed(q) == "" }) {
		r.Fail("L6", "%v after the cluster was whole, %s has reliable messages that are not confirmed", servedBound, v.checkConfirmed(q))
	}
	if !r.UntilTrue(servedBound, 100*time.Millisecond, func() bool { return v.describeWorkers(q) == "" }) {
		r.Fail("G11", "%v after the cluster was whole, not all workers run: %s", servedBound, v.describeWorkers(q))
	}
	if !r.UntilTrue(servedBound, 100*time.Millisecond, func() bool { return v.describeEntities(q) == "" }) {
		r.Fail("Singleton", "%v after the cluster was whole, %s", servedBound, v.describeEntities(q))
	}
	if !r.UntilTrue(servedBound, 100*time.Millisecond, func() bool { return v.describeRemembered(q) == "" }) {
		r.Fail("Remembered", "%v after the cluster was whole, %s", servedBound, v.describeRemembered(q))
	}
	v.countServed(q)
	took := r.Now().Sub(from)
	r.Event("", "settled: shards", uint64(took), func() string { return took.String() })
}

// modelsOn lists the models on the hosts in q.
func (v *Invariants) modelsOn(q map[int]bool) []*Model {
	var all []*Model
	for slot, n := range v.nodes {
		if q[slot] && n != nil {
			all = append(all, n.models...)
		}
	}
	return all
}

// canHost reports whether the hosts in q are enough for a type.
func (v *Invariants) canHost(q map[int]bool, t *seed.Type) bool {
	n := 0
	for slot := range v.nodes {
		if q[slot] && v.run.Config.Hosts(slot, t) {
			n++
		}
	}
	return n >= max(v.run.Config.MinMembers, 1)
}

// probe sends a message from each process to each shard that has not answered.
func (v *Invariants) probe(q map[int]bool) {
	for _, m := range v.modelsOn(q) {
		if v.canHost(q, m.spec) {
			m.senders.probe()
		}
	}
}

// isServed reports whether all hosts in q run, and each has had an answer of every shard.
func (v *Invariants) isServed(q map[int]bool) bool {
	for slot, n := range v.nodes {
		if q[slot] && n == nil {
			return false
		}
	}
	for _, m := range v.modelsOn(q) {
		if v.mustReach(m, q) && len(m.senders.probed) < min(m.spec.Shards, m.spec.Entities) {
			return false
		}
	}
	return true
}

// mustReach reports whether a model must reach the shards of its type on the hosts in q.
func (v *Invariants) mustReach(m *Model, q map[int]bool) bool {
	return v.canHost(q, m.spec) && v.run.Config.Runs(m.p.Slot, m.spec)
}

// describeUnserved describes the shards and hosts in q that do not serve, "" if all do.
func (v *Invariants) describeUnserved(q map[int]bool) string {
	var b strings.Builder
	for slot, n := range v.nodes {
		if q[slot] && n == nil {
			fmt.Fprintf(&b, "%s is down; ", trace.Label(slot, 0))
		}
	}
	names := &v.run.Names
	for _, m := range v.modelsOn(q) {
		if !v.mustReach(m, q) {
			continue
		}
		for s := range min(m.spec.Shards, m.spec.Entities) {
			shard := protocol.ShardID(s)
			if m.senders.probed[shard] {
				continue
			}
			home, state, held := m.path.Describe(shard)
			fmt.Fprintf(&b, "%s -> %s %d (route %s, home %s, %d messages held, live %v); ", m.p.Label, m.spec.Name, s, state,
				names.Name(home), held, names.List(m.checks.hosting.Live(shard)))
		}
	}
	return b.String()
}

// outdated returns a shard that runs under a token below those of an absorbed cluster.
func (v *Invariants) outdated() string {
	for _, t := range v.types {
		if s, node, found := t.hosting.Outdated(); v.run.Config.Apart && found {
			return "shard " + s.String() + " at " + v.run.Names.Name(node)
		}
	}
	return ""
}

// countServed sets the marks of a run that serves again.
func (v *Invariants) countServed(q map[int]bool) {
	s := &v.run.Config
	for number := range s.Types {
		t := &s.Types[number]
		if p, _ := v.newestPlan(q, number); p.Running && p.Workers != t.Workers && v.canHost(q, t) {
			v.run.Hit(coverage.Scaled)
		}
	}
	for _, m := range v.modelsOn(q) {
		if !v.canHost(q, m.spec) {
			continue
		}
		if s.Runs(m.p.Slot, m.spec) && !s.Hosts(m.p.Slot, m.spec) {
			v.run.Hit(coverage.Proxy)
		}
		if m.spec.Role > 0 {
			v.run.Hit(coverage.SecondRole)
		}
	}
}
