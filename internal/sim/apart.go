package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/run"
)

// meeting is the state of a run with two clusters of one name that start apart: the hosts stand
// on two sides, nothing passes between them, and each side forms a cluster of its own hosts.
// Then they meet. One cluster stands, the other yields, its entities stop and its nodes join the
// first (internal/core/view/foreign.go, foreign.go of the root package). Before that a shard
// lives on both sides; package invariant has what holds from the meeting on.
type meeting struct {
	run *run.Run
	// left has the hosts of one side, as bits; met is set when the sides are connected.
	left int
	met  bool
	// formedOn is the side on which a cluster was formed. sides counts the sides.
	formedOn map[uint64]int
	sides    int
}

// resident is a process that stands in a cluster.
type resident struct {
	slot    int
	cluster uint64
}

func newMeeting(r *run.Run) *meeting {
	m := &meeting{run: r, formedOn: map[uint64]int{}}
	if r.Config.Apart {
		m.left, m.sides = 1+r.Rand.Apart.IntN(1<<r.Config.Nodes-2), 2
	}
	return m
}

func (m *meeting) sideOfHost(slot int) int { return m.left >> slot & 1 }

// separates reports whether hosts stand on two sides.
func (m *meeting) separates(a, b int) bool {
	return m.run.Config.Apart && m.sideOfHost(a) != m.sideOfHost(b)
}

// isParted reports whether nothing may pass between two hosts yet.
func (m *meeting) isParted(a, b int) bool { return !m.met && m.separates(a, b) }

// planMeeting has the sides meet.
func (m *meeting) planMeeting(net *network.Network) {
	s := &m.run.Config
	if s.Apart {
		m.run.After(m.run.Rand.Apart.Duration(s.Duration/4, s.Duration*3/4), func() { m.joinSides(net) })
	}
}

// grace is for how long a node that has not learned of the other cluster may hold its lease.
func (m *meeting) grace() time.Duration {
	lease := m.run.Config.Lease
	return lease + 2*m.run.Drift(lease) + 50*time.Millisecond
}

// joinSides connects the two sides.
func (m *meeting) joinSides(net *network.Network) {
	if !m.run.Config.Apart || m.met {
		return
	}
	m.met = true
	m.run.Hit(coverage.Met)
	m.run.Event("", "sides meet", uint64(m.left), nil)
	for i := range m.run.Config.Nodes {
		for j := range m.run.Config.Nodes {
			if m.separates(i, j) {
				net.SetPath(i, j, network.Open)
			}
		}
	}
}

// noteFormed notes on which side a cluster was formed.
func (m *meeting) noteFormed(slot int, cluster uint64, residents []resident) {
	if _, found := m.formedOn[cluster]; found {
		return
	}
	side := m.sideOfHost(slot)
	if m.outlivesItsSide(side, residents) {
		side = m.sides
		m.sides++
	}
	m.formedOn[cluster] = side
}

// outlivesItsSide reports whether a cluster of a side lives at hosts of the other side, which
// are no contact points of its own side. A cluster that is formed there starts apart from it.
func (m *meeting) outlivesItsSide(side int, residents []resident) bool {
	for _, r := range residents {
		if on, found := m.formedOn[r.cluster]; found && on == side && m.sideOfHost(r.slot) != side {
			return true
		}
	}
	return false
}

// cannotYield reports whether a cluster without secrets has a lower standing than another one and
// can never yield to it. As many members of the other cluster must confirm it as it had in an
// earlier contest, up to the number of voters here, and it has fewer now.
func cannotYield(own, other *gossip.View) bool {
	if own == nil || other == nil || own.Cluster == other.Cluster || own.Standing.Above(own.Cluster, other.Standing, other.Cluster) {
		return false
	}
	return min(other.Standing.Size, len(own.WithRole(""))) > len(other.WithRole(""))
}

// shunMost bounds how long two clusters ignore each other after a contest without result.
// The runs are short, and so is the bound.
const shunMost = 130 * time.Second
