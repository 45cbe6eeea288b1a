package replication

import (
	"slices"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/replicator"
)

// fences holds the highest term that a replica has seen per group. Terms only
// grow, and a group is never forgotten: a replaced writer may wake at any time.
type fences struct {
	*env
	members *members
	terms   map[string]uint64
	max     int
	// epochs is Config.Epochs.
	epochs bool
}

// pass reports whether a request under f may go on here, and notes its term. If
// not, higher is the term that bars it. An unfenced request always passes.
func (s *fences) pass(f replicator.Fence) (higher uint64, ok bool) {
	if f.Zero() {
		return 0, true
	}
	if have := s.terms[f.Group]; have > f.Term {
		return have, false
	}
	s.raise(f)
	return 0, true
}

// raise notes a term and reports whether it was new.
func (s *fences) raise(f replicator.Fence) bool {
	have, known := s.terms[f.Group]
	if f.Zero() || known && have >= f.Term {
		return false
	}
	if !known && len(s.terms) >= s.max {
		return false
	}
	if s.terms == nil {
		s.terms = map[string]uint64{}
	}
	s.terms[f.Group] = f.Term
	return true
}

// full reports whether f's group is new and there is no room for it.
func (s *fences) full(f replicator.Fence) bool {
	_, known := s.terms[f.Group]
	return !f.Zero() && !known && len(s.terms) >= s.max
}

// sortedFences returns every group's term, sorted by group.
func (s *fences) sortedFences() []replicator.Fence {
	out := make([]replicator.Fence, 0, len(s.terms))
	for g, t := range s.terms {
		out = append(out, replicator.Fence{Group: g, Term: t})
	}
	slices.SortFunc(out, func(a, b replicator.Fence) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// early reports whether a term is above own, the epoch of this replica's view. Such a term
// does not bar writers here: if it did, one forged fence would keep a type without a
// coordinator until views had caught up with it. Nothing is lost: a read of a later view is
// answered in that view, and a newcomer that takes fences over counts for the views that it
// holds.
func (s *fences) early(term uint64, own gossip.Epoch) bool {
	return s.epochs && gossip.Epoch(term) > own
}

// far reports whether no view can have had a term yet: it is forged, and would bar the
// group's writers forever. Terms are epochs of views, or below. own is as in early; held is
// the epoch of the sender's view as its message has it, 0 if it has none.
func (s *fences) far(term uint64, own, held gossip.Epoch) bool {
	return gossip.Epoch(term).FarBeyond(own) || held != 0 && s.early(term, own) && gossip.Epoch(term) > held
}

// refuseTerm reports whether a term of a peer does not apply here, and counts a far one.
// held is as in fences.far.
func (s *fences) refuseTerm(from gossip.NodeID, group string, term uint64, held gossip.Epoch) bool {
	if s.far(term, s.members.epoch, held) {
		s.stats.FarTerms++
		s.traceEvent(TraceEvent{Kind: TraceFenceFar, Peer: from, Key: group})
		return true
	}
	return s.early(term, s.members.epoch)
}

// heldReads are reads of views that this replica does not hold yet.
type heldReads []Received

// heldReadsMax bounds them; further reads are dropped, and their senders retransmit them.
const heldReadsMax = 16

// keepRead keeps a read until its view is here.
func (h *heldReads) keepRead(from gossip.NodeID, m *ReadRequest) {
	if gossip.Epoch(m.Fence.Term) <= m.Epoch && len(*h) < heldReadsMax {
		*h = append(*h, Received{From: from, Msg: m})
	}
}

// takeReads returns all of them, and clears the list.
func (h *heldReads) takeReads() []Received {
	all := *h
	*h = nil
	return all
}

// raiseAll raises the terms that a peer has sent. held is as in fences.far.
func (s *fences) raiseAll(from gossip.NodeID, held gossip.Epoch, fs []replicator.Fence) {
	for _, f := range fs {
		if !s.refuseTerm(from, f.Group, f.Term, held) && s.raise(f) {
			s.traceEvent(TraceEvent{Kind: TraceFenceRaised, Peer: from, Key: f.Group})
		}
	}
}

// checkTerm applies a request's fence at this replica. A far or early term does not pass,
// and higher is 0. held is as in fences.far.
func (s *fences) checkTerm(from gossip.NodeID, held gossip.Epoch, f replicator.Fence) (higher uint64, ok bool) {
	if s.refuseTerm(from, f.Group, f.Term, held) {
		return 0, false
	}
	before := s.terms[f.Group]
	higher, ok = s.pass(f)
	switch {
	case !ok:
		s.stats.FencedHere++
		s.traceEvent(TraceEvent{Kind: TraceFenceRefused, Peer: from, Key: f.Group})
	case f.Term > before:
		s.traceEvent(TraceEvent{Kind: TraceFenceRaised, Peer: from, Key: f.Group})
	}
	return higher, ok
}

// barrier is how far this replica has forgotten state. Messages with state carry the floor
// and the sweep, and replicas accept state only at equal ones.
//
// Invariant: empty only while no state was taken from peers; floor is 0 or last has the
// lists of the commit that led to it; fresh only while empty.
type barrier struct {
	// floor counts the commits, last is the newest one.
	floor uint64
	last  Commit
	empty bool
	// maxForgottenStamp is the newest time of a forgotten deletion of a map entry;
	// inherited is the one that this replica received when it joined.
	maxForgottenStamp, inherited uint64
	// filed is maxForgottenStamp as the own file had it.
	filed uint64
	// sweep is the newest sweep, minGeneration the highest forgotten generation of a durable
	// key (retain.go).
	sweep, minGeneration uint64
	// fresh is set while the replica has loaded a file and not learned the sweep; own
	// are the items written here meanwhile.
	fresh bool
	own   []Item
}

// assertPasses asserts that a write of a replaced writer is not applied.
func (s *fences) assertPasses(f replicator.Fence) {
	if have := s.terms[f.Group]; f.Term < have {
		assert.Broken("G2", "a write of %q passes with term %d, and %d has passed", f.Group, f.Term, have)
	}
}
