package core

import (
	"slices"
	"strings"

	"github.com/peerage-go/peerage/gossip/view"
)

// fences holds the highest term that a replica has seen per group. Terms only
// grow, and a group is never forgotten: a replaced writer may wake at any time.
type fences struct {
	terms map[string]uint64
	max   int
}

// pass reports whether a request under f may go on here, and notes its term. If
// not, higher is the term that bars it. An unfenced request always passes.
func (s *fences) pass(f Fence) (higher uint64, ok bool) {
	if f.Zero() {
		return 0, true
	}
	if have := s.terms[f.Group]; have > f.Term {
		return have, false
	}
	s.raise(f)
	return 0, true
}

// raise notes a term and reports whether it was news.
func (s *fences) raise(f Fence) bool {
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
func (s *fences) full(f Fence) bool {
	_, known := s.terms[f.Group]
	return !f.Zero() && !known && len(s.terms) >= s.max
}

// all returns every group's term, sorted by group.
func (s *fences) all() []Fence {
	out := make([]Fence, 0, len(s.terms))
	for g, t := range s.terms {
		out = append(out, Fence{Group: g, Term: t})
	}
	slices.SortFunc(out, func(a, b Fence) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// far reports whether no view can have had a term yet: it is forged, and would bar the
// group's writers for ever. Terms are epochs of views, or below.
func (c *Core) far(term uint64) bool { return view.Epoch(term).FarBeyond(c.epoch) }

// refuseFar counts a far term of a peer.
func (c *Core) refuseFar(from view.NodeID, group string, term uint64) bool {
	if !c.far(term) {
		return false
	}
	c.stats.FarTerms++
	c.trace(TraceEvent{Kind: TraceFenceFar, Peer: from, Key: group})
	return true
}

// takeFences raises the terms that a peer knows.
func (c *Core) takeFences(from view.NodeID, fs []Fence) {
	for _, f := range fs {
		if !c.refuseFar(from, f.Group, f.Term) && c.fences.raise(f) {
			c.trace(TraceEvent{Kind: TraceFenceRaised, Peer: from, Key: f.Group})
		}
	}
}

// passFence applies a request's fence at this replica. A far term does not pass, and no
// higher one is told.
func (c *Core) passFence(from view.NodeID, f Fence) (higher uint64, ok bool) {
	if c.blunder == blunderNoFence {
		return 0, true
	}
	if c.refuseFar(from, f.Group, f.Term) {
		return 0, false
	}
	before := c.fences.terms[f.Group]
	higher, ok = c.fences.pass(f)
	switch {
	case !ok:
		c.stats.FencedHere++
		c.trace(TraceEvent{Kind: TraceFenceRefused, Peer: from, Key: f.Group})
	case f.Term > before:
		c.trace(TraceEvent{Kind: TraceFenceRaised, Peer: from, Key: f.Group})
	}
	return higher, ok
}
