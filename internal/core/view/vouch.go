package view

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// A cluster does not yield because of one connection. First a quorum of its voters must
// each have reached a node of the other cluster, and enough of the other's members must
// have confirmed that they are in it:
//
//	leader   Vouch(cluster, standing, nodes) ──▶ every voter
//	voter    Confront(nonce) ──▶ each of the nodes; Confronted(standing, nonce) ◀──
//	voter    Vouched(those that confirmed) ──▶ leader
//
// If nodes authenticate each other, a majority of the listed members must confirm: their
// statements about their past are then trusted. Otherwise the other cluster must also
// show as many members as this one has.

// confrontation is a member's inquiry to another cluster's nodes, on behalf of its
// leader.
type confrontation struct {
	vouch     *Vouch
	nonce     uint64
	confirmed []gossip.NodeID
}

// askVoters makes the voters contact the other cluster's members.
func (c *Core) askVoters(e *encounter) {
	m := &Vouch{Cluster: e.cluster, Standing: e.newest.Standing, Nodes: e.newest.Nodes}
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; c.view.Members[i].Status.Votes() && id != c.self() {
			c.sendTo(id, m)
		}
	}
	c.confront(m)
}

// onVouch contacts another cluster's nodes on the leader's behalf.
func (c *Core) onVouch(from gossip.NodeID, m *Vouch) {
	if c.view != nil && from == c.follower.leader && c.votes() && m.Cluster != c.view.Cluster {
		c.confront(m)
	}
}

func (c *Core) confront(m *Vouch) {
	a := c.foreign.asked
	if a == nil || a.vouch.Cluster != m.Cluster || a.vouch.Standing != m.Standing {
		a = &confrontation{nonce: c.random() | 1}
		c.foreign.asked = a
	}
	a.vouch = m
	for _, n := range m.Nodes {
		if !slices.Contains(a.confirmed, n.ID) {
			c.out.Learn = append(c.out.Learn, n)
			c.sendTo(n.ID, &Confront{Nonce: a.nonce})
		}
	}
	if len(a.confirmed) > 0 {
		c.sendVouched(a)
	}
}

// onConfront answers another cluster's node with this node's cluster and standing.
func (c *Core) onConfront(from gossip.NodeID, m *Confront) {
	if c.cfg.Foreign == gossip.ForeignMerge && c.votes() {
		c.sendTo(from, &Confronted{Cluster: c.view.Cluster, Standing: c.view.Standing, Nonce: m.Nonce})
	}
}

func (c *Core) onConfronted(from gossip.NodeID, m *Confronted) {
	a := c.foreign.asked
	if a == nil || m.Nonce != a.nonce || m.Cluster != a.vouch.Cluster || m.Standing != a.vouch.Standing || c.view == nil {
		return
	}
	if slices.Contains(a.confirmed, from) || !slices.ContainsFunc(a.vouch.Nodes, func(n gossip.Node) bool { return n.ID == from }) {
		return
	}
	a.confirmed = append(a.confirmed, from)
	c.sendVouched(a)
}

// sendVouched sends the leader the nodes that have confirmed.
func (c *Core) sendVouched(a *confrontation) {
	if c.leadership != nil {
		c.onVouched(c.self(), &Vouched{Cluster: a.vouch.Cluster, Confirmed: a.confirmed})
		return
	}
	c.sendTo(c.follower.leader, &Vouched{Cluster: a.vouch.Cluster, Confirmed: slices.Clone(a.confirmed)})
}

// onVouched counts a voter's report.
func (c *Core) onVouched(from gossip.NodeID, m *Vouched) {
	if c.leadership == nil || c.view.Member(from) == nil {
		return
	}
	e := c.foreign.met[m.Cluster]
	if e == nil || e.newest == nil {
		return
	}
	for _, id := range m.Confirmed {
		if slices.ContainsFunc(e.newest.Nodes, func(n gossip.Node) bool { return n.ID == id }) {
			e.vouched[from], e.confirmed[id] = true, true
		}
	}
	c.requestReview()
}

// confirmedForeign reports whether enough members of a cluster were reached to yield to it.
func (c *Core) confirmedForeign(e *encounter) bool {
	if c.mutant == mutantCredulous {
		return true
	}
	if !c.quorums.plain(c.view, func(id gossip.NodeID) bool { return e.vouched[id] }) {
		return false
	}
	seen := 0
	for _, n := range e.newest.Nodes {
		if e.confirmed[n.ID] {
			seen++
		}
	}
	need := len(e.newest.Nodes)/2 + 1
	if !c.cfg.Authenticated {
		voters := 0
		for i := range c.view.Members {
			if c.view.Members[i].Status.Votes() {
				voters++
			}
		}
		need = max(need, min(e.newest.Standing.Size, voters, foreignNodesMax))
	}
	return seen >= need
}
