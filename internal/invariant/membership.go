package invariant

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Membership checks S6: one view per epoch; a node outside the newest committed
// view holds no valid lease; at most one leader lease at a time. ExpectLineages has it check
// each lineage of a cluster by itself.
//
// A lease is recorded with the common time at which it ends, so the caller accounts for
// clocks that run fast or slow. Between two facts leases only expire, so a check at each
// fact covers all times.
type Membership struct {
	views map[lineageEpoch]*gossip.View
	// newest is by lineage, clusters by cluster.
	newest, clusters map[uint64]*gossip.View
	nodes            map[gossip.NodeID]*standing
	// order holds the nodes in order of arrival, so that reports are reproducible.
	order    []*standing
	contests contests
	lineages lineages
}

type lineageEpoch struct {
	lineage uint64
	epoch   gossip.Epoch
}

type standing struct {
	id     gossip.NodeID
	held   *gossip.View
	until  time.Duration
	leader bool
	gone   bool
	// outside is set once the newest view of the lineage leaves the node out, outSince is
	// when that was.
	outside  bool
	outSince time.Duration
}

// NewMembership returns an empty checker.
func NewMembership() *Membership {
	return &Membership{
		views:    map[lineageEpoch]*gossip.View{},
		newest:   map[uint64]*gossip.View{},
		clusters: map[uint64]*gossip.View{},
		nodes:    map[gossip.NodeID]*standing{},

		contests: contests{},
	}
}

func (m *Membership) nodeOf(id gossip.NodeID) *standing {
	s := m.nodes[id]
	if s == nil {
		s = &standing{id: id}
		m.nodes[id] = s
		m.order = append(m.order, s)
	}
	return s
}

// Published records that a node holds v as committed.
func (m *Membership) Published(at time.Duration, id gossip.NodeID, v *gossip.View) *Violation {
	n := m.nodeOf(id)
	if h := n.held; h != nil && h.Cluster == v.Cluster && h.Epoch >= v.Epoch {
		return broken("S6", at, "%v went from epoch %v back to %v", id, h.Epoch, v.Epoch)
	}
	n.held, n.outside = v, false
	lineage := m.lineages.numberOf(v)
	key := lineageEpoch{lineage, v.Epoch}
	if known := m.views[key]; known == nil {
		m.views[key] = v
	} else if !SameView(known, v) {
		return broken("S6", at, "two views of epoch %v: %v and %v", v.Epoch, known.Members, v.Members)
	}
	if newest := m.clusters[v.Cluster]; newest == nil || newest.Epoch < v.Epoch {
		m.clusters[v.Cluster] = v
		m.contests.noteContests(at, v, m.clusters)
	}
	if newest := m.newest[lineage]; newest == nil || newest.Epoch < v.Epoch {
		m.newest[lineage] = v
		return m.outsiders(at, v)
	}
	return m.outsider(at, n, m.newest[lineage])
}

// outsiders returns a violation if a node outside the newest view holds a lease that it must
// not hold.
func (m *Membership) outsiders(at time.Duration, v *gossip.View) *Violation {
	lineage := m.lineages.numberOf(v)
	for _, n := range m.order {
		if n.held == nil || n.held.Cluster != v.Cluster || m.lineages.numberOf(n.held) != lineage {
			continue
		}
		if b := m.outsider(at, n, v); b != nil {
			return b
		}
	}
	return nil
}

// outsider notes whether v, the newest view of a node's lineage, leaves the node out, and
// returns a violation if that node holds a lease all the same.
func (m *Membership) outsider(at time.Duration, n *standing, v *gossip.View) *Violation {
	if e := v.Member(n.id); e != nil && e.Status.Votes() {
		n.outside = false
		return nil
	}
	if !n.outside {
		n.outside, n.outSince = true, at
	}
	if !n.validAt(at) || m.lineages.allows(n.outSince, n.until) {
		return nil
	}
	return broken("S6", at, "%v holds a lease until %v and is no voting member of the newest view %v since %v", n.id, n.until, v.Epoch, n.outSince)
}

// Leased records that a node's lease, or leader lease, now ends at until.
func (m *Membership) Leased(at time.Duration, id gossip.NodeID, until time.Duration, leader bool) *Violation {
	n := m.nodeOf(id)
	n.until, n.leader = until, leader
	if !n.validAt(at) || n.held == nil {
		return nil
	}
	if b := m.outsider(at, n, m.newest[m.lineages.numberOf(n.held)]); b != nil {
		return b
	}
	if !leader || m.lineages.tracked {
		return nil
	}
	for _, o := range m.order {
		if o != n && o.leader && o.validAt(at) && o.held != nil && o.held.Cluster == n.held.Cluster {
			return broken("S6", at, "two leader leases: %v until %v and %v until %v", o.id, o.until, id, until)
		}
	}
	return nil
}

// Gone records that a process ended, or gave its incarnation up.
func (m *Membership) Gone(id gossip.NodeID) { m.nodeOf(id).gone = true }

// Valid reports whether the node's lease holds at a time.
func (m *Membership) Valid(at time.Duration, id gossip.NodeID) bool {
	n := m.nodes[id]
	return n != nil && n.validAt(at)
}

// Member reports whether a node that has not gone stands in the newest view of
// the lineage it holds a view of.
func (m *Membership) Member(id gossip.NodeID) bool {
	n := m.nodes[id]
	if n == nil || n.gone || n.held == nil {
		return false
	}
	return m.newest[m.lineages.numberOf(n.held)].Member(id) != nil
}

func (n *standing) validAt(at time.Duration) bool { return !n.gone && at < n.until }

// SameView reports whether two views are equal.
func SameView(a, b *gossip.View) bool {
	return a.Cluster == b.Cluster && a.Epoch == b.Epoch &&
		slices.EqualFunc(a.Members, b.Members, func(x, y gossip.Member) bool {
			return x.ID == y.ID && x.Joined == y.Joined && x.Status == y.Status
		})
}
