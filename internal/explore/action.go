package main

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

func (a action) String() string {
	switch a.kind {
	case proceed:
		return "time goes on"
	case deliver, breakLink, hold:
		return fmt.Sprintf("%v %d to %d class %d", a.kind, a.a+1, a.b+1, a.class)
	case move:
		return fmt.Sprintf("move shard %d to %d", a.b, a.a+1)
	}
	return fmt.Sprintf("%v %d", a.kind, a.a+1)
}

// dueActions lists what happens at this instant.
func (w *world) dueActions() []action {
	var out []action
	for i, n := range w.nodes {
		if !n.alive {
			continue
		}
		if w.x.plan.ownFirst && len(w.links[control][i][i]) > 0 {
			return []action{{deliver, i, i, control}}
		}
		for l := range classes {
			for j := range nodes {
				if len(w.links[l][j][i]) > 0 {
					out = append(out, action{deliver, j, i, l})
				}
			}
		}
		if w.behind(n) && !n.lagging && !n.cut {
			out = append(out, action{kind: learn, a: i})
		}
		if !w.now.Before(n.deadline()) {
			out = append(out, action{kind: fire, a: i})
		}
	}
	return out
}

// behind reports whether a member lacks the newest view.
func (w *world) behind(n *node) bool {
	return w.serves(n) && (n.view == nil || n.view.Epoch < w.cluster.newest.Epoch)
}

// laters lists what may happen now or later.
func (w *world) laters() []action {
	var out []action
	for k, f := range w.late {
		if w.nodes[f.to].alive && !w.nodes[f.to].cut && (k == 0 || w.late[k-1] != f) {
			out = append(out, action{kind: release, a: k})
		}
	}
	for i, n := range w.nodes {
		m := w.cluster.newest.Member(n.id)
		add := func(k kind, can bool) {
			if can {
				out = append(out, action{kind: k, a: i})
			}
		}
		add(heal, n.cut && n.alive)
		add(lapse, n.cut && n.lease)
		add(regain, n.alive && !n.lease && !n.cut && n.lapsedIn != 0 && m != nil && !w.behind(n))
		add(remove, m != nil && (!n.alive || !n.lease && m.Status.Votes() && n.lapsedIn != 0) && mayRemove(w, n))
		add(catchUp, n.lagging && w.behind(n) && !n.cut)
		add(part, n.drained && m != nil && m.Status == gossip.Leaving && n.alive)
		add(rise, m != nil && m.Status == gossip.Joining && n.alive && !w.behind(n))
		add(endIncarnation, n.alive && m == nil && n.view != nil)
	}
	return out
}

// mayRemove reports whether the other members can commit a view without n: a majority of them
// lives with leases, or all others are dead as well.
func mayRemove(w *world, n *node) bool {
	voters, able, living := 0, 0, 0
	for _, m := range w.cluster.newest.WithRole(role) {
		o := w.nodes[w.index(m.ID)]
		if voters++; o == n {
			continue
		}
		if o.alive {
			living++
		}
		if o.alive && o.lease && !o.cut {
			able++
		}
	}
	if n.alive {
		return able > voters/2
	}
	return able > voters/2 || able == living && able > 0
}

// can reports whether a wish or fault is possible.
func (w *world) can(a action) bool {
	n := w.nodes[a.a]
	m := w.cluster.newest.Member(n.id)
	up := n.alive && m != nil && m.Status == gossip.Up
	switch a.kind {
	case need, move, drain:
		return up
	case leave:
		return up && len(w.cluster.newest.Members) > 1
	case join:
		return !n.alive && n.view == nil
	case meet, yield, takeOver:
		return true
	case crash, isolate:
		return n.alive && m != nil && !n.cut
	case expire:
		return n.lease && m != nil && !n.cut
	case breakLink:
		return a.a != a.b && len(w.links[a.class][a.a][a.b]) > 0
	case hold:
		return len(w.links[a.class][a.a][a.b]) > 0 && w.nodes[a.b].alive && mayBeLate(w.links[a.class][a.a][a.b][0].msg)
	case lag:
		return w.behind(n) && !n.lagging
	case misjudge:
		return up && len(w.cluster.newest.WithRole(role)) > 1 && !w.cluster.truth.misjudged
	case elsewhere:
		return picksMajority(w, a.a)
	}
	return false
}

// mayBeLate reports whether a message may leave its order. Connections of class data keep the
// order of what they carry: they lose a message only with all that follow.
func mayBeLate(msg any) bool {
	switch msg.(type) {
	case *trail, *marker, *markerAck:
		return false
	}
	return true
}

// picksMajority reports whether the next message of a node to itself is an operation for which
// it has a choice of replicas.
func picksMajority(w *world, i int) bool {
	q := w.links[control][i][i]
	if len(q) == 0 {
		return false
	}
	if _, ok := q[0].msg.(*operation); !ok {
		return false
	}
	a, b := w.quorum(w.nodes[i], false), w.quorum(w.nodes[i], true)
	return !slices.Equal(a, b)
}

// loses marks the faults that may lose a state.
func (k kind) loses() bool { return k == crash || k == isolate || k == expire || k == misjudge }

// act performs an action on a state that is not in use yet.
func (w *world) act(a action) {
	w.logLine("-- %v", a)
	switch a.kind {
	case deliver:
		f := w.popFlight(a.class, a.a, a.b)
		w.arrive(a.a, a.b, f)
	case release:
		f := w.late[a.a]
		w.late = slices.Delete(slices.Clone(w.late), a.a, a.a+1)
		w.arrive(f.from, f.to, f.flight)
	case fire:
		w.fire(w.edit(a.a))
	case learn, catchUp:
		w.learn(w.edit(a.a))
	case proceed:
		w.now = w.nextTimer()
	case hold:
		f := w.popFlight(a.class, a.a, a.b)
		w.late = append(w.late[:len(w.late):len(w.late)], lateFlight{a.a, a.b, f})
	case breakLink:
		w.links[a.class][a.a][a.b] = nil
	case elsewhere:
		f := w.popFlight(control, a.a, a.a)
		w.operate(w.edit(a.a), f.msg.(*operation), true)
	case lag:
		w.edit(a.a).lagging = true
	default:
		w.actOn(w.edit(a.a), a)
	}
}

// actOn performs an action on one node.
func (w *world) actOn(n *node, a action) {
	switch a.kind {
	case heal:
		n.cut = false
	case lapse, expire:
		w.setLease(n, false)
	case regain:
		w.setLease(n, true)
	case crash:
		n.endLife()
		w.forget(a.a)
	case isolate:
		n.cut = true
		dropLinks(w, a.a)
	case endIncarnation:
		n.endLife()
		w.forget(a.a)
	case need:
		w.stepRegion(n, region.NeedHome{Shards: []protocol.ShardID{0, 1}})
	case drain:
		w.stepRegion(n, region.Drain{})
	case move:
		w.want(n, protocol.ShardID(a.b))
	default:
		w.actOnView(n, a)
	}
}

// want has the application want a shard at a node; all coordinators learn of it.
func (w *world) want(n *node, s protocol.ShardID) {
	for i, o := range w.nodes {
		if o.alive {
			w.stepCoordinator(w.edit(i), coordinator.Wanted{Names: map[protocol.ShardID]string{s: nameOf(n.id)}})
		}
	}
}

// forget loses the messages to a dead node, and those it sent itself.
func (w *world) forget(i int) {
	for l := range w.links {
		for j := range nodes {
			w.links[l][j][i] = nil
		}
	}
}

// actOnView performs an action that commits a view.
func (w *world) actOnView(n *node, a action) {
	v := *w.cluster.newest
	v.Epoch++
	v.Out = nil
	switch a.kind {
	case remove:
		w.takeOut(n, &v)
	case part:
		n.endLife()
		w.forget(a.a)
		v.Members = without(v.Members, n.id)
	case misjudge:
		w.editCluster().truth.misjudged = true
		v.Members = without(v.Members, n.id)
		if len(v.WithRole(role)) <= len(w.cluster.newest.WithRole(role))/2 {
			v.Epoch = gossip.TakeoverEpoch(v.Epoch.Generation() + 1)
		}
	case leave:
		v.Members = withStatus(v.Members, n.id, gossip.Leaving)
		w.stepRegion(n, region.Drain{})
	case rise:
		v.Members = withStatus(v.Members, n.id, gossip.Up)
		w.levelUp(n)
	case join:
		n.alive = true
		m := n.memberEntry(gossip.Joining)
		m.Joined = v.Epoch
		v.Members = append(slices.Clone(v.Members), m)
	case takeOver:
		v.Epoch = gossip.TakeoverEpoch(v.Epoch.Generation() + 1)
	case meet:
		v.Epoch = gossip.FirstEpoch(v.Epoch.Generation() + 1)
		v.TokensFrom = v.Epoch.Generation()
	case yield:
		v.Foreign = []gossip.Contest{{Cluster: 2, Verdict: gossip.VerdictYields}}
	}
	w.editCluster().newest = &v
}

// takeOut removes a member that is dead or has no lease. If too few are left for a majority, the
// survivors open a generation, without all that are dead.
func (w *world) takeOut(n *node, v *gossip.View) {
	dead := []gossip.NodeID{n.id}
	able := 0
	for _, m := range v.WithRole(role) {
		if o := w.nodes[w.index(m.ID)]; o != n && o.alive && o.lease && !o.cut {
			able++
		}
	}
	if able <= len(v.WithRole(role))/2 {
		v.Epoch = gossip.TakeoverEpoch(v.Epoch.Generation() + 1)
		for _, o := range w.nodes {
			if !o.alive {
				dead = append(dead, o.id)
			}
		}
	}
	v.Members = without(v.Members, dead...)
	if n.alive {
		n.endLife()
		w.forget(w.index(n.id))
	}
}

// levelUp gives a joining member the records of all others, before it votes.
func (w *world) levelUp(n *node) {
	for _, o := range w.nodes {
		if o != n && w.serves(o) {
			n.replica.merge(o.replica.list())
			n.replica.fence = max(n.replica.fence, o.replica.fence)
		}
	}
}

func withStatus(ms []gossip.Member, id gossip.NodeID, s gossip.Status) []gossip.Member {
	out := slices.Clone(ms)
	for i := range out {
		if out[i].ID == id {
			out[i].Status = s
		}
	}
	return out
}

// arrive hands over a message that was on its way.
func (w *world) arrive(from, to int, f flight) {
	if w.x.loud {
		w.logLine("   %d <- %d %T %+v", to+1, from+1, f.msg, f.msg)
	}
	w.x.countMessage(f.msg)
	w.deliver(w.edit(to), w.nodes[from].id, f.msg)
}
