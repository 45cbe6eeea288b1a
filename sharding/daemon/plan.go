// Package daemon is the core of sharded daemons: which workers run, and how their
// number changes. It is pure; package sharding is its shell.
//
// Workers divide the work among them: worker i of n. So when n changes, every
// worker of the old number must have ended before the first of the new one begins.
// A plan says what is to run. It changes in two steps:
//
//	running n --wish m--> stopping, m --every node has stopped--> running m
//
// Plans are written by the coordinator in office alone, to a majority, fenced by its
// term, and are ordered by (term, seq). A node that has seen a stopping plan ends
// its workers, then acknowledges that plan, and runs nothing under an older one ever
// after. A node that comes anew first says to a majority that it is there, then reads
// the plan from a majority: so either the writer knows of it when it counts
// acknowledgements, or it reads the stopping plan (the same argument as Dekker's).
// Nodes that are not in the view run nothing: their lease is over (DESIGN 4.3).
//
// After Pekko's ShardedDaemonProcess with dynamic scaling, where a coordinator keeps
// revision and size in distributed data; there the barrier is one of messages.
package daemon

import (
	"cmp"

	"github.com/peerage-go/peerage/gossip/view"
)

// Rev orders plans.
type Rev struct {
	Term view.Epoch
	Seq  uint64
}

// Compare orders by term, then seq.
func (r Rev) Compare(o Rev) int {
	return cmp.Or(cmp.Compare(r.Term, o.Term), cmp.Compare(r.Seq, o.Seq))
}

// Plan says what is to run. The zero Plan is that of a cluster that has none yet:
// nothing runs.
type Plan struct {
	Rev     Rev
	Workers int
	// Running: workers 0 to Workers-1 run. Otherwise all that run are to end.
	Running bool
}

// Runs reports whether a worker is to run.
func (p Plan) Runs(worker int) bool { return p.Running && worker >= 0 && worker < p.Workers }

// State is what a majority knows about a daemon.
type State struct {
	Plan Plan
	// Wish is the number of workers that the application asked for last, 0 if it never
	// did.
	Wish int
	// Acked has the newest stopping plan that each node has ended its workers for. Nodes
	// that host, and have acknowledged nothing yet, are in it with the zero Rev.
	Acked map[view.NodeID]Rev
}

// Next returns the plan to write, if it is time for one. The caller is in office in
// the given term and read s from a majority, fenced; first is the number of workers
// to begin with; members are those of its view.
func Next(s *State, term view.Epoch, first int, members []view.NodeID) (Plan, bool) {
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
	case s.Plan.Running || !stopped(s, members):
		return Plan{}, false
	}
	next.Running = true
	return next, true
}

// stopped reports whether all members that host have ended what ran.
func stopped(s *State, members []view.NodeID) bool {
	for _, m := range members {
		if rev, hosts := s.Acked[m]; hosts && rev.Compare(s.Plan.Rev) < 0 {
			return false
		}
	}
	return true
}

// Stale returns the nodes whose acknowledgements are of no more use.
func Stale(s *State, members []view.NodeID) []view.NodeID {
	in := map[view.NodeID]bool{}
	for _, m := range members {
		in[m] = true
	}
	var gone []view.NodeID
	for n := range s.Acked { // order-free: each is deleted by itself
		if !in[n] {
			gone = append(gone, n)
		}
	}
	return gone
}
