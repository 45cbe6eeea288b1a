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
func (es *encounters) askVoters(e *encounter) {
	m := &Vouch{Cluster: e.cluster, Standing: e.newest.Standing, Nodes: e.newest.Nodes}
	for i := range es.view.Members {
		if id := es.view.Members[i].ID; es.view.Members[i].Status.Votes() && id != es.self() {
			es.sendTo(id, m)
		}
	}
	es.confront(m)
}

// onVouch contacts another cluster's nodes on the leader's behalf.
func (es *encounters) onVouch(from gossip.NodeID, m *Vouch) {
	if es.view != nil && from == es.follower.leader && es.votes() && m.Cluster != es.view.Cluster {
		es.confront(m)
	}
}

func (es *encounters) confront(m *Vouch) {
	a := es.asked
	if a == nil || a.vouch.Cluster != m.Cluster || a.vouch.Standing != m.Standing {
		a = &confrontation{nonce: es.random() | 1}
		es.asked = a
	}
	a.vouch = m
	for _, n := range m.Nodes {
		if !slices.Contains(a.confirmed, n.ID) {
			es.out.Learn = append(es.out.Learn, n)
			es.sendTo(n.ID, &Confront{Nonce: a.nonce})
		}
	}
	if len(a.confirmed) > 0 {
		es.sendVouched(a)
	}
}

// onConfront answers another cluster's node with this node's cluster and standing.
func (es *encounters) onConfront(from gossip.NodeID, m *Confront) {
	if es.cfg.Foreign == gossip.ForeignMerge && es.votes() {
		es.sendTo(from, &Confronted{Cluster: es.view.Cluster, Standing: es.view.Standing, Nonce: m.Nonce})
	}
}

func (es *encounters) onConfronted(from gossip.NodeID, m *Confronted) {
	a := es.asked
	if a == nil || m.Nonce != a.nonce || m.Cluster != a.vouch.Cluster || m.Standing != a.vouch.Standing || es.view == nil {
		return
	}
	if slices.Contains(a.confirmed, from) || !slices.ContainsFunc(a.vouch.Nodes, func(n gossip.Node) bool { return n.ID == from }) {
		return
	}
	a.confirmed = append(a.confirmed, from)
	es.sendVouched(a)
}

// sendVouched sends the leader the nodes that have confirmed.
func (es *encounters) sendVouched(a *confrontation) {
	if es.follower.isLeader() {
		es.onVouched(es.self(), &Vouched{Cluster: a.vouch.Cluster, Confirmed: a.confirmed})
		return
	}
	es.sendTo(es.follower.leader, &Vouched{Cluster: a.vouch.Cluster, Confirmed: slices.Clone(a.confirmed)})
}

// onVouched counts a voter's report.
func (es *encounters) onVouched(from gossip.NodeID, m *Vouched) {
	if !es.follower.isLeader() || es.view.Member(from) == nil {
		return
	}
	e := es.met[m.Cluster]
	if e == nil || e.newest == nil {
		return
	}
	for _, id := range m.Confirmed {
		if slices.ContainsFunc(e.newest.Nodes, func(n gossip.Node) bool { return n.ID == id }) {
			e.vouched[from], e.confirmed[id] = true, true
		}
	}
	es.changed = true
}

// confirmedForeign reports whether enough members of a cluster were reached to yield to it.
func (es *encounters) confirmedForeign(e *encounter) bool {
	if !es.quorums.plain(es.view, func(id gossip.NodeID) bool { return e.vouched[id] }) {
		return false
	}
	seen := 0
	for _, n := range e.newest.Nodes {
		if e.confirmed[n.ID] {
			seen++
		}
	}
	need := len(e.newest.Nodes)/2 + 1
	if !es.cfg.Authenticated {
		voters := 0
		for i := range es.view.Members {
			if es.view.Members[i].Status.Votes() {
				voters++
			}
		}
		need = max(need, min(e.newest.Standing.Size, voters, foreignNodesMax))
	}
	return seen >= need
}
