package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// memberlist is modelled as an adversary. Its contacts differ from node to node, come
// late and repeatedly, and mix the dead with the living. They never contain a view's
// membership. The only requirement is that a living contact comes up in the end.

// askAround repeatedly hands contacts to a process, and decides which process forms a cluster.
func (p *proc) askAround() {
	wait := p.w.toldRand.Duration(20*time.Millisecond, 400*time.Millisecond)
	if p.member.view != nil {
		wait *= 4
	}
	p.w.After(wait, func() {
		if !p.alive || p.over {
			return
		}
		p.run(p.learn)
		p.askAround()
	})
}

func (p *proc) learn() {
	w := p.w
	if p.over {
		return
	}
	if p.member.view == nil && w.mayForm(p) {
		w.event(p, "forms", 0, nil)
		w.formed++
		if w.formed > 1 {
			w.hit(markReformed)
		}
		generation, millisecond := w.formingGeneration(p)
		p.step(view.Form{Generation: generation, Millisecond: millisecond, Secret: [2]uint64{uint64(w.formed), 1}})
		return
	}
	told := w.story(p)
	if len(told) > 0 {
		p.step(view.Contacts{Nodes: told})
	}
}

// story draws the nodes that memberlist reports to one process at one time.
func (w *world) story(p *proc) []gossip.Node {
	var told []gossip.Node
	for _, i := range w.toldRand.Subset(len(w.hosts), 1+w.toldRand.IntN(len(w.hosts))) {
		if w.parted(p.slot, i) {
			continue
		}
		if q := w.hosts[i].proc; q != nil && (q != p || w.toldRand.Chance(10)) {
			told = append(told, q.node)
		}
		if old := w.hosts[i].former; len(old) > 0 && w.toldRand.Chance(25) {
			told = append(told, old[w.toldRand.IntN(len(old))])
		}
	}
	return told
}

// mayForm is the forming rule of package gossip with all hosts as contact points and
// all of them expected: every one answers, none belongs to a cluster, and this
// one has the lowest address.
func (w *world) mayForm(p *proc) bool {
	for i := range w.hosts {
		q := w.hosts[i].proc
		if skip, may := w.mayFormApart(p, i); skip && may {
			continue
		} else if !may {
			return false
		}
		if !w.hosts[i].expected {
			continue
		}
		if q == nil || q.paused || q.over || q.member.view != nil || w.blocked(p.slot, i) != open {
			return false
		}
		if i < p.slot {
			return false
		}
	}
	return true
}

// regroup handles the nodes outside the view of a node.
// Lineages that wrong evidence has parted are made to meet. A node that has lost its quorum
// ends when it finds a live cluster, or when its whole view has been dead for long.
func (p *proc) regroup() {
	m := &p.member
	if m.view == nil || m.leaving {
		return
	}
	now := p.w.Now()
	if p.leaseValid() {
		m.lostSince = virtual.Never
	} else {
		m.lostSince = min(m.lostSince, now)
	}
	if m.lostSince != virtual.Never && p.allDead() {
		m.deadSince = min(m.deadSince, now)
	} else {
		m.deadSince = virtual.Never
	}
	if m.deadSince != virtual.Never && now.Sub(m.deadSince) > reformAfter {
		p.removed(gossip.Removed{Reason: "its whole view is dead"})
		return
	}
	if p.w.toldRand.IntN(16) == 0 {
		p.lookAround()
	}
}

func (p *proc) allDead() bool {
	v := p.member.view
	for i := range v.Members {
		if id := v.Members[i].ID; id != p.node.ID && !p.links().peer(id).proof {
			return false
		}
	}
	return len(v.Members) > 1
}

// lookAround asks one contact point which cluster it belongs to.
func (p *proc) lookAround() {
	w, m := p.w, &p.member
	i := w.toldRand.IntN(len(w.hosts))
	q := w.hosts[i].proc
	if q == nil || q == p || q.paused || q.over || q.member.view == nil || w.blocked(p.slot, i) != open || m.view.Member(q.node.ID) != nil {
		return
	}
	theirs := q.member.view
	switch {
	case theirs.Cluster == m.view.Cluster && !invariant.SameView(theirs, m.view):
		p.sendView(view.Send{To: q.node.ID, Msg: &view.Decided{View: view.Whole(m.view)}})
	case theirs.Cluster != m.view.Cluster && q.leaseValid() && m.lostSince != virtual.Never && w.Now().Sub(m.lostSince) > w.swarm.removeAfter+w.swarm.lease:
		p.removed(gossip.Removed{Reason: "lost its quorum and found a live cluster", Outranked: true})
	case theirs.Cluster != m.view.Cluster && q.leaseValid() && p.leaseValid():
		p.step(view.ForeignSeen{Cluster: theirs.Cluster, Nodes: append([]gossip.Node{q.node}, nodesIn(theirs)...)})
	}
}

// nodesIn lists the members of a view.
func nodesIn(v *gossip.View) (out []gossip.Node) {
	for i := range v.Members {
		out = append(out, v.Members[i].Node)
	}
	return out
}
