// Package daemon is the core of sharded daemons: it decides which workers run, and how
// their number changes. It is pure. On each node,
// package internal/core/residency follows the plans.
//
// Workers divide the work among them: worker i of n. So when n changes, every
// worker of the old number must have ended before the first of the new one begins.
// A plan lists the workers that must run. It changes in two steps:
//
//	running n --wish m--> stopping, m --every node has stopped--> running m
//
// Only the coordinator in office writes plans: to a majority, fenced by its
// term, and ordered by (term, seq). A node that has seen a stopping plan ends
// its workers, then acknowledges that plan, and never again runs a worker under an older
// one. A new node first announces itself to a majority, then reads
// the plan from a majority. So either the writer finds it when it counts
// acknowledgements, or it reads the stopping plan (the same argument as Dekker's). The
// announcement names a view in which the node is a member: a writer whose own view is
// older waits for the node too. Nodes that are no longer in the view run no worker: no
// lease outlives the removal of its node.
//
// After Pekko's ShardedDaemonProcess with dynamic scaling, where a coordinator keeps
// revision and size in distributed data; there the barrier is one of messages.
package daemon

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
)

// Rev orders plans.
type Rev struct {
	Term gossip.Epoch
	Seq  uint64
}

// Compare orders by term, then seq.
func (r Rev) Compare(o Rev) int {
	return cmp.Or(cmp.Compare(r.Term, o.Term), cmp.Compare(r.Seq, o.Seq))
}

// Plan lists the workers that must run. The zero Plan belongs to a cluster without a
// plan: no worker runs.
type Plan struct {
	Rev     Rev
	Workers int
	// Running: workers 0 to Workers-1 run. Otherwise all running workers must end.
	Running bool
}

// Runs reports whether a worker must run.
func (p Plan) Runs(worker int) bool { return p.Running && worker >= 0 && worker < p.Workers }

// State is a daemon's state as read from a majority.
type State struct {
	Plan Plan
	// Wish is the number of workers that the application last asked for, 0 if it never
	// did.
	Wish int
	// Acked has the nodes that host.
	Acked map[gossip.NodeID]Ack
}

// Ack is the record of a node that hosts.
type Ack struct {
	// Rev is that of the newest stopping plan for which it has ended its workers, zero at
	// the beginning.
	Rev Rev
	// Since is the epoch of a view in which it is a member.
	Since gossip.Epoch
}

// Members are those of a view.
type Members struct {
	Epoch gossip.Epoch
	Nodes []gossip.NodeID
}

// gone reports whether a node has left for good: the view is one that should have it.
func (m *Members) gone(n gossip.NodeID, a Ack) bool {
	return a.Since <= m.Epoch && !slices.Contains(m.Nodes, n)
}

// Next returns the plan to write, if it is time for one. The caller is in office in
// the given term and read s from a majority, fenced; first is the number of workers
// to begin with; members are those of its view.
func Next(s *State, term gossip.Epoch, first int, members Members) (Plan, bool) {
	if s.Plan.Rev.Term > term {
		return Plan{}, false
	}
	next := Plan{Rev: Rev{term, 1}, Workers: cmp.Or(s.Wish, first)}
	if s.Plan.Rev.Term == term {
		next.Rev.Seq = s.Plan.Rev.Seq + 1
	}
	switch {
	case next.Workers != s.Plan.Workers:
		return next, true
	case s.Plan.Running || !stopped(s, &members):
		return Plan{}, false
	}
	if assert.Enabled && next.Rev.Compare(s.Plan.Rev) <= 0 {
		assert.Broken("G11", "plan %v of %d workers follows %v", next.Rev, next.Workers, s.Plan.Rev)
	}
	next.Running = true
	return next, true
}

// stopped reports whether all nodes that host have ended their workers.
func stopped(s *State, members *Members) bool {
	for n, a := range s.Acked { // order-free: all are asked for
		if a.Rev.Compare(s.Plan.Rev) < 0 && !members.gone(n, a) {
			return false
		}
	}
	return true
}

// Stale returns the nodes whose acknowledgements are no longer needed.
func Stale(s *State, members Members) []gossip.NodeID {
	var gone []gossip.NodeID
	for n, a := range s.Acked { // order-free: each is deleted by itself
		if members.gone(n, a) {
			gone = append(gone, n)
		}
	}
	return gone
}
