package view

import (
	"github.com/peerage-go/peerage/gossip"
	"slices"
	"time"
)

// How a seed checks liveness at its end. Healing everything would hide livelocks, so a
// quorum is picked, faults stop inside it, and the rest stays crashed, paused or cut off.
func (s *swarm) end() {
	s.ending = true
	for _, pair := range s.accused {
		s.acquit(pair[0], pair[1])
	}
	v := s.newestView()
	if v == nil {
		return
	}
	if s.truth.wrongEvidence {
		s.endHealed()
		return
	}
	if s.chance(30) {
		s.endMinority(v)
		return
	}
	quorum := s.pickQuorum(v)
	if quorum == nil {
		s.marks["no quorum left"]++
		return
	}
	s.endQuorum(v, quorum)
}

func (s *swarm) newestView() *gossip.View {
	var newest *gossip.View
	for _, v := range s.truth.newest { // order-free: a maximum; there is one cluster
		if newest == nil || newest.Epoch < v.Epoch {
			newest = v
		}
	}
	return newest
}

// pickQuorum draws living voters that are a plain quorum of the newest view and of every
// attempt in flight on it, nil if the living voters are none.
func (s *swarm) pickQuorum(v *gossip.View) map[gossip.NodeID]bool {
	nexts := []*gossip.View{v}
	var ids []gossip.NodeID
	for _, n := range s.living() {
		held := n.core.View()
		if held == nil || v.Member(n.id) == nil || n.leaves {
			continue
		}
		ids = append(ids, n.id)
		for _, a := range n.core.acceptor.attempts { // order-free: all are collected
			nexts = append(nexts, a.next)
		}
	}
	in := map[gossip.NodeID]bool{}
	knows := func() bool {
		// One of them must hold the view, or they must be a quorum of the view that they
		// hold.
		for _, id := range ids {
			if !in[id] {
				continue
			}
			held := s.nodes[id].core.View()
			if held.Epoch == v.Epoch {
				return true
			}
			nexts = append(nexts, held)
		}
		return false
	}
	enough := func() bool {
		knows()
		return !slices.ContainsFunc(nexts, func(v *gossip.View) bool { return !s.quorum(v, func(id gossip.NodeID) bool { return in[id] }) })
	}
	s.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		if in[id] = true; enough() {
			return in
		}
	}
	return nil
}

func (s *swarm) soothe() {
	s.jitter = min(s.jitter, 5*time.Millisecond)
	s.dupPct = min(s.dupPct, 5)
}

// endHealed heals everything and requires one cluster.
func (s *swarm) endHealed() {
	s.marks["ends healed"]++
	s.blocked = map[[2]gossip.NodeID]time.Duration{}
	s.dropPct = min(s.dropPct, 5)
	s.soothe()
	for _, n := range s.living() {
		s.resume(n.id)
	}
	s.must(2*s.policy().(gossip.AssumeCrash).After+12*(s.cfg.RemoveAfter+s.cfg.Lease), "one cluster", func() bool {
		l := s.living()
		if !slices.ContainsFunc(l, func(n *simNode) bool { return n.core.View() != nil && !n.leaves }) {
			s.marks["no cluster left"]++
			return true
		}
		return !slices.ContainsFunc(l, func(n *simNode) bool {
			v := n.core.View()
			return !s.holds(n) || !sameView(v, l[0].core.View()) || len(v.Members) != len(l)
		})
	})
}

// endQuorum stops faults inside a quorum and requires it to serve and to admit a joiner.
func (s *swarm) endQuorum(v *gossip.View, in map[gossip.NodeID]bool) {
	s.marks["ends with a quorum"]++
	for _, n := range s.living() {
		switch {
		case in[n.id] || v.Member(n.id) == nil:
			s.resume(n.id)
		case s.chance(30):
			s.fell(n)
		case s.chance(30):
			s.pause(n.id)
		}
	}
	oneWay := s.rng.IntN(3)
	out := func(id gossip.NodeID) bool { return !in[id] && v.Member(id) != nil }
	s.wall = func(from, to gossip.NodeID) bool {
		switch oneWay {
		case 1:
			return out(from)
		case 2:
			return out(to)
		}
		return out(from) != out(to)
	}
	s.blocked = map[[2]gossip.NodeID]time.Duration{}
	s.dropPct = min(s.dropPct, 5)
	s.soothe()
	s.note("ends: quorum %v of %s, one way %d", in, viewText(v), oneWay)
	s.names++
	joiner := s.names
	s.arrive(joiner)
	bound := 6*(s.cfg.RemoveAfter+s.cfg.Lease) + time.Duration(len(s.order))*time.Second/4
	began := s.now
	s.must(bound, "the quorum serves", func() bool {
		if s.now-began > bound/2 && s.trapped(began) {
			s.marks["trapped by a proposal made as the cut fell"]++
			return true
		}
		return s.serves(in, joiner)
	})
}

// trapped reports whether a view was proposed before the leader could detect which nodes
// are cut off, and needs some of those. They may have chosen it, so no node may drop it:
// only the heal resolves that. With policies that may need more than a majority of a view
// enlarged by joiners, the time is longer: until those joiners have died.
func (s *swarm) trapped(began time.Duration) bool {
	from, to := began, began+2*s.cfg.Ping+20*s.jitter
	if s.policy() != (gossip.KeepMajority{}) {
		from, to = 0, time.Hour
	}
	for _, a := range s.truth.accepted { // order-free: any one suffices
		in := func(id gossip.NodeID) bool {
			n := s.nodes[id]
			return n != nil && !n.down && n.removed == nil && !s.wall(id, 0) && !s.wall(0, id)
		}
		if a.since > from && a.since < to && a.base.Epoch >= s.newestView().Epoch && !s.quorum(a.next, in) {
			return true
		}
	}
	return false
}

// serves reports whether every living node of the quorum, and the joiner, hold a lease in
// one view. A removed node returns as a new incarnation, which then must serve in its
// place.
func (s *swarm) serves(in map[gossip.NodeID]bool, joiner int) bool {
	var v *gossip.View
	joined := false
	for _, n := range s.living() {
		if s.wall(n.id, 0) || s.wall(0, n.id) {
			continue // outside
		}
		held := n.core.View()
		if held == nil || !s.holds(n) || v != nil && !sameView(v, held) {
			return false
		}
		v = held
		joined = joined || n.name == joiner
	}
	if v == nil || !joined {
		return false
	}
	return !slices.ContainsFunc(v.Members, func(m gossip.Member) bool {
		n := s.nodes[m.ID]
		return !m.Status.Votes() || n.down || n.paused
	})
}

// endMinority cuts a minority off and requires it to stop in time.
func (s *swarm) endMinority(v *gossip.View) {
	s.marks["ends with a minority"]++
	side := map[gossip.NodeID]bool{}
	for i := range v.Members {
		if side[v.Members[i].ID] = s.chance(50); s.quorum(v, func(id gossip.NodeID) bool { return side[id] }) {
			delete(side, v.Members[i].ID)
		}
	}
	s.wall = func(from, to gossip.NodeID) bool { return side[from] != side[to] }
	s.note("ends: %v is cut off", side)
	l := s.cfg.Lease
	s.run(l + 2*time.Duration(int64(l)/1e6*int64(s.cfg.DriftPPM)) + s.latency + 20*s.jitter + time.Millisecond)
	for _, n := range s.living() {
		if held := n.core.View(); side[n.id] && held != nil && held.Epoch == v.Epoch && s.holds(n) {
			s.fail("%d holds a lease in a minority for more than L", n.id)
		}
	}
}
