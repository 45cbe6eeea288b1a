package invariant

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Wrong evidence of death, AssumeCrash, and clocks beyond the bound or that stand still can
// part a cluster into lineages (gossip.Fork), and let a lease run on after the removal of its
// node. Then these hold:
//
//   - Each lineage has one view per epoch. No node returns to an earlier view.
//   - The lease of a node outside the newest view of its lineage ends within a bound after
//     the view that removed it.
//   - Of the members of the newest view of a lineage, one acts for a shard, and no other
//     starts it. A token has one owner in a lineage, and tokens grow.
//   - A message or ask runs once, and one instance handles the messages of a sender in their
//     order.
//   - A majority read by a member of its newest view has the words that were acknowledged in
//     its lineage, or before that lineage began.

// lineageKey identifies a lineage: two of one cluster differ in their newest takeover.
type lineageKey struct {
	cluster uint64
	fork    gossip.Fork
}

func lineageOf(v *gossip.View) lineageKey {
	key := lineageKey{cluster: v.Cluster}
	if n := len(v.Forks); n > 0 {
		key.fork = v.Forks[n-1]
	}
	return key
}

// lineages numbers the lineages of a run. Without tracking, a lineage is its cluster.
type lineages struct {
	tracked bool
	numbers map[lineageKey]uint64
	// outlives bounds how long a lease may outlive the removal of its node.
	outlives time.Duration
}

// ExpectLineages makes the checker distinguish the lineages of a cluster, and lets a lease
// outlive the removal of its node by a bound. It must be called before any fact.
func (m *Membership) ExpectLineages(outlives time.Duration) {
	m.lineages = lineages{tracked: true, numbers: map[lineageKey]uint64{}, outlives: outlives}
}

// numberOf returns the number of a view's lineage.
func (l *lineages) numberOf(v *gossip.View) uint64 {
	if !l.tracked {
		return v.Cluster
	}
	key := lineageOf(v)
	n, known := l.numbers[key]
	if !known {
		n = uint64(len(l.numbers)) + 1
		l.numbers[key] = n
	}
	return n
}

// Lineage returns the lineage of the view that a node holds, 0 if it holds none.
func (m *Membership) Lineage(id gossip.NodeID) uint64 {
	if n := m.nodes[id]; n != nil && n.held != nil {
		return m.lineages.numberOf(n.held)
	}
	return 0
}

// LineageOf returns the lineage of a view.
func (m *Membership) LineageOf(v *gossip.View) uint64 { return m.lineages.numberOf(v) }

// Held returns the view that a node holds, nil if none.
func (m *Membership) Held(id gossip.NodeID) *gossip.View {
	if n := m.nodes[id]; n != nil {
		return n.held
	}
	return nil
}

// MemberBeside reports whether a node is a member of the newest view in the lineage of another.
func (m *Membership) MemberBeside(id, other gossip.NodeID) bool {
	n, o := m.nodes[id], m.nodes[other]
	if n == nil || n.gone || o == nil || o.held == nil {
		return false
	}
	return m.newest[m.lineages.numberOf(o.held)].Member(id) != nil
}

// Thawed records that the clock of a node has run again since a time, after it had stood still.
// The lease now ends at until. Thawed reports whether it outlives the removal of the node.
func (m *Membership) Thawed(at, since time.Duration, id gossip.NodeID, until time.Duration) (outlives bool, b *Violation) {
	n := m.nodeOf(id)
	if n.outside {
		n.outSince = min(n.outSince+at-since, at)
	}
	b = m.Leased(at, id, until, n.leader)
	return n.outside && n.validAt(at), b
}

// allows reports whether a lease may end at until, of a node that was removed at since.
func (l *lineages) allows(since, until time.Duration) bool {
	return l.tracked && until <= since+l.outlives
}

// Precedes reports whether view b is view a or continues it in a's lineage, or in one that
// began after a.
func Precedes(a, b *gossip.View) bool {
	n := len(a.Forks)
	switch {
	case a.Cluster != b.Cluster || n > len(b.Forks) || !slices.Equal(a.Forks, b.Forks[:n]):
		return false
	case n == len(b.Forks):
		return a.Epoch <= b.Epoch
	}
	return a.Epoch <= b.Forks[n].From
}
