package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// layers holds the drivers above the view core on one process: a replicator for each
// role that it carries, and an upper for each entity type.
type layers struct {
	on bool
	// stores are by role, nil for those that the process does not carry. In runs with clocks
	// one more, the last, has the register (walls.go).
	stores []*replica
	types  []*upper
	view   *gossip.View
	silent map[nodeID]bool
	// drained: everything was handed over before the process left.
	drained bool
	// parting counts the farewells that a member has not acknowledged.
	parting map[nodeID]int
}

// forRole is a message of a role's replicator.
type forRole struct {
	role int
	msg  replication.Message
}

// typed is what travels on message and bulk connections.
type typed interface{ ofType() int }

func (p *proc) startLayers() {
	if p.w.cfg.ViewsOnly {
		return
	}
	s := &p.w.swarm
	l := &p.layers
	*l = layers{on: true, silent: map[nodeID]bool{}}
	l.stores = make([]*replica, s.storeCount())
	for i := range l.stores {
		if s.hasRole(p.slot, s.roleOf(i)) {
			l.stores[i] = &replica{}
			l.stores[i].start(p, i)
		}
	}
	for i := range s.types {
		l.types = append(l.types, p.startUpper(i))
	}
	p.look()
	for _, u := range l.types {
		u.talk()
	}
	for _, r := range l.stores {
		if r != nil {
			r.chat()
			r.useRegister()
		}
	}
}

// handleUpper takes a frame of the upper layers.
func (p *proc) handleUpper(from nodeID, f frame) {
	l := &p.layers
	if !l.on {
		return
	}
	switch m := f.msg.(type) {
	case protocol.Message:
		for _, u := range l.types {
			if u.spec.name == m.Header().Type {
				u.put(func() { u.receive(from, m) })
			}
		}
	case forRole:
		if r := l.stores[m.role]; r != nil {
			r.step(replication.Received{From: from, Msg: m.msg})
		}
	case typed:
		l.types[m.ofType()].entityFrame(from, m)
	}
}

func (p *proc) upperView(v *gossip.View) {
	l := &p.layers
	if !l.on {
		return
	}
	old := l.view
	l.view = v // what the replicators answer now they answer in this view
	for _, r := range l.stores {
		if r != nil {
			r.step(replication.ViewChanged{View: v})
		}
	}
	for _, u := range l.types {
		u.upperViewOf(v)
	}
	if old == nil {
		return
	}
	for i := range old.Members {
		if id := old.Members[i].ID; v.Member(id) == nil {
			l.hearing(id, true)
			l.peerLost(id)
			for _, u := range l.types {
				u.path.Forget(id)
			}
		}
	}
}

func (p *proc) upperLease(valid bool) {
	l := &p.layers
	if !l.on {
		return
	}
	for _, r := range l.stores {
		if r != nil && valid {
			r.step(replication.LeaseRegained{})
		}
	}
	for _, u := range l.types {
		u.put(func() { u.lease(valid) })
		if !valid {
			continue
		}
		for _, h := range u.hosts {
			u.dispatch(h)
		}
	}
}

// abandonUpper drops all instances; a lease of the new generation is valid only
// when that is done.
func (p *proc) abandonUpper() {
	l := &p.layers
	if !l.on {
		return
	}
	p.w.abandoned(p)
	for _, u := range l.types {
		p.member.abandoning++
		p.tell(func() {
			u.dropInstances()
			u.put(func() {
				u.stepRegion(region.Abandoned{})
				u.settle()
				p.member.abandoning--
				p.lapse()
				p.regain()
			})
		})
	}
}

func (p *proc) endUpper() {
	l := &p.layers
	if !l.on {
		return
	}
	l.on = false
	for _, u := range l.types {
		u.on = false
		p.w.types[u.number].asks.AskerGone(p.node.ID)
	}
	p.w.abandoned(p)
}

// abandoned reports to the checkers that no instance of a process runs.
func (w *world) abandoned(p *proc) {
	if !p.layers.drained {
		w.lastDeath = w.Now()
	}
	for _, t := range w.types {
		t.hosting.Abandoned(p.node.ID)
	}
}

// leaveUpper drains, and leaves when the shards are gone, or patience is.
func (p *proc) leaveUpper(then func()) {
	l := &p.layers
	if !l.on || !p.w.swarm.drain {
		then()
		return
	}
	left := false
	leave := func() {
		if !left && p.alive && !p.over {
			left = true
			then()
		}
	}
	more := len(l.types)
	for _, u := range l.types {
		u.drained = func() {
			if more--; more == 0 {
				l.drained = true
				p.w.hit(markDrained)
				p.waitAnswered(func() { p.part(leave) })
			}
		}
		u.drainAt = p.w.Now()
		u.put(func() { u.stepRegion(region.Drain{}) })
	}
	p.later(p.w.swarm.drainPatience(), func() {
		if !l.drained && p.w.swarm.orderly && p.alive && !p.over {
			p.w.outOfPatience(p)
		}
		leave()
	})
}

// drainPatience is how long a process drains at most. Entities that are left after it are
// lost, as GUARANTEES documents. Orderly runs allow as long as the command does: in a
// network this slow, with queues this short, a drain may exceed two seconds.
func (s *swarm) drainPatience() time.Duration {
	if s.orderly {
		return 10 * time.Second
	}
	return 2 * time.Second
}

// outOfPatience checks that draining ends as long as a quorum can act.
func (w *world) outOfPatience(p *proc) {
	if p.leaseValid() {
		w.fail("L6", "%s has not drained in %v, though it holds a lease", p.label, w.swarm.drainPatience())
	}
}

// waitAnswered goes on when no ask of this process waits for its answer, as a
// Node's Drain does.
func (p *proc) waitAnswered(then func()) {
	p.later(time.Millisecond, func() {
		for _, u := range p.layers.types {
			if u.on && len(u.calls) > 0 {
				p.waitAnswered(then)
				return
			}
		}
		then()
	})
}

// part calls then once the members have received all frames of this process.
// A Node's Drain does the same: the view without the process must not overtake its last
// answers.
func (p *proc) part(then func()) {
	l := &p.layers
	l.parting = map[nodeID]int{}
	if l.view == nil {
		then()
		return
	}
	for i := range l.view.Members {
		id := l.view.Members[i].ID
		if id == p.node.ID {
			continue
		}
		for _, u := range l.types {
			l.parting[id]++
			u.answer(id, &entityFrame{typ: u.number, op: opFarewell})
		}
	}
	p.waitParted(then)
}

func (p *proc) waitParted(then func()) {
	if len(p.layers.parting) == 0 {
		then()
		return
	}
	p.later(time.Millisecond, func() { p.waitParted(then) })
}

func (l *layers) farewellAcked(id nodeID) {
	if l.parting[id]--; l.parting[id] <= 0 {
		delete(l.parting, id)
	}
}

// upperPeer takes the coming and going of connections.
func (p *proc) upperPeer(id nodeID, class transport.Class, up bool) {
	l := &p.layers
	if !l.on {
		return
	}
	for _, r := range l.stores {
		if r != nil {
			r.peer(id, up)
		}
	}
	switch {
	case class == transport.Control:
		l.hearing(id, up)
	case class == transport.Message && up:
		for _, u := range l.types {
			u.path.PeerUp(id)
		}
	case class == transport.Message:
		l.peerLost(id)
	}
}

func (l *layers) peerLost(id nodeID) {
	delete(l.parting, id)
	for _, u := range l.types {
		u.path.PeerLost(id)
		u.failCalls(id)
	}
}

// hearing reports to the coordinators whether a member is silent.
func (l *layers) hearing(id nodeID, heard bool) {
	if l.silent[id] == !heard {
		return
	}
	if heard {
		delete(l.silent, id)
	} else {
		l.silent[id] = true
	}
	nodes := sortedIDs(l.silent)
	for _, u := range l.types {
		u.put(func() { u.stepCoordinator(coordinator.Silent{Nodes: nodes}) })
	}
}

// look keeps asking for connections that routes wait for.
func (p *proc) look() {
	p.w.After(50*time.Millisecond, func() {
		if !p.layers.on {
			return
		}
		p.run(func() {
			for _, u := range p.layers.types {
				u.lookOnce()
			}
		})
		p.look()
	})
}

// typeWorld holds the checkers of one entity type, and the facts that they need.
type typeWorld struct {
	hosting *invariant.Hosting
	states  *invariant.States
	asks    *invariant.Asks
	// written are the allocations whose write was acknowledged.
	written map[protocol.ShardToken]bool
	// untaken are the allocations that ended because no member could take the shard:
	// all members drain. Messages to the shard then have no destination.
	untaken map[protocol.ShardToken]bool
	// unhosted is when the type last lost its last home because that one leaves.
	unhosted virtual.Instant
	// offices are the nodes that took office in a term.
	offices map[officeOf]nodeID
	// ends records how the newest instance of each shard ended.
	ends map[protocol.ShardID]howEnded
}
