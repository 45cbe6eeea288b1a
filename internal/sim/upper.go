package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/coordinator"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/region"
)

// upper is the driver of one entity type on one process: the region core, the
// coordinator core and the replicator core, each carried out as the shells in
// sharding and replicator do. What the shells do on goroutines of their own
// happens here a little later, in the order of each goroutine.
type upper struct {
	p  *proc
	on bool

	repl replica

	floors *region.Floors
	region *region.Core
	regFx  region.Effects
	regAt  timer
	coord  *coordinator.Core
	cooFx  coordinator.Effects
	cooAt  timer
	own    []protocol.Message
	// inbox is the time before which the shell's goroutine sees nothing newer.
	inbox instant

	routes   []route
	buffered int
	markers  uint64
	hosts    []*hosted
	seqs     []uint64
	silent   map[nodeID]bool
	drained  func()
	probed   map[protocol.ShardID]bool
}

const typeName = "t"

func (p *proc) startUpper() {
	u := &p.upper
	if p.w.cfg.ViewsOnly {
		return
	}
	s := &p.w.swarm
	*u = upper{p: p, on: true, silent: map[nodeID]bool{}, floors: &region.Floors{}, probed: map[protocol.ShardID]bool{}}
	u.repl.start(u)
	u.region = region.New(region.Config{
		Self: p.node.ID, Type: typeName, Shards: s.shards, Hosts: true, Mutant: p.w.cfg.Mutant,
	}, u.floors)
	u.coord = coordinator.New(coordinator.Config{
		Self: p.node.ID, Type: typeName, Shards: s.shards, MinMembers: s.minMembers, RemoveAfter: s.removeAfter,
		StopTimeout: 2 * time.Second, BeginTimeout: s.beginTimeout, Rebalance: s.rebalance, Mutant: p.w.cfg.Mutant,
	})
	u.regAt = newTimer(p, u.tick)
	u.cooAt = newTimer(p, u.tick)
	u.routes = make([]route, s.shards)
	for i := range u.routes {
		u.routes[i].shard = protocol.ShardID(i)
	}
	u.hosts = make([]*hosted, s.shards)
	u.seqs = make([]uint64, s.entities)
	u.put(func() { u.lease(p.leaseValid()) })
	u.arm()
	u.look()
	u.talk()
	u.repl.chat()
}

// put hands an event to the shell's goroutine.
func (u *upper) put(do func()) {
	w := u.p.w
	d := time.Duration(0)
	if w.netRand.intn(16) == 0 {
		d = w.netRand.dur(0, 3*time.Millisecond)
	}
	u.inbox = max(u.inbox, w.now.add(d))
	w.at(u.inbox, func() {
		u.p.run(func() {
			if u.on {
				do()
				u.settle()
				u.arm()
			}
		})
	})
}

func (u *upper) arm() {
	u.regAt.set(u.region.Deadline())
	u.cooAt.set(u.coord.Deadline())
}

func (u *upper) tick() {
	if !u.on {
		return
	}
	now := u.p.now()
	if now >= u.region.Deadline() {
		u.stepRegion(region.Tick{})
	}
	if now >= u.coord.Deadline() {
		u.stepCoordinator(coordinator.Tick{})
	}
	u.settle()
	u.arm()
}

// settle delivers what the cores of this process said to each other.
func (u *upper) settle() {
	for len(u.own) > 0 {
		m := u.own[0]
		u.own = u.own[1:]
		u.receive(u.p.node.ID, m)
	}
}

func (u *upper) receive(from nodeID, m protocol.Message) {
	if protocol.ToCoordinator(m) {
		u.stepCoordinator(coordinator.Received{From: from, Msg: m})
		return
	}
	u.stepRegion(region.Received{From: from, Msg: m})
}

func (u *upper) stepRegion(ev region.Event) {
	floor := u.floors.Term()
	u.region.Step(u.p.now(), ev, &u.regFx)
	u.checkTerm(ev, floor)
	if err := u.region.Check(); err != nil {
		u.p.w.fail("core", "%s: %v", u.p.label, err)
	}
	for _, t := range u.regFx.Trace {
		u.trace(t.Kind, t.Shard, t.HasShard, t.Node, t.Token, t.Detail)
	}
	for _, e := range u.regFx.Do {
		u.doRegion(e)
	}
	u.regFx.Reset()
}

func (u *upper) stepCoordinator(ev coordinator.Event) {
	u.coord.Step(u.p.now(), ev, &u.cooFx)
	if err := u.coord.Check(); err != nil {
		u.p.w.fail("core", "%s: %v", u.p.label, err)
	}
	for _, t := range u.cooFx.Trace {
		u.trace(t.Kind, t.Shard, t.HasShard, t.Node, t.Token, t.Detail)
	}
	for _, e := range u.cooFx.Do {
		u.doCoordinator(e)
	}
	u.cooFx.Reset()
}

// checkTerm holds that orders below the term floor start and stop nothing (G2).
func (u *upper) checkTerm(ev region.Event, floor view.Epoch) {
	r, ok := ev.(region.Received)
	if !ok || r.Msg.Header().Term >= floor {
		return
	}
	for _, e := range u.regFx.Do {
		switch e.(type) {
		case region.StartShard, region.StopShard:
			u.p.w.fail("S7", "%s obeys an order of term %v, its floor is %v", u.p.label, r.Msg.Header().Term, floor)
		}
	}
}

func (u *upper) doRegion(e region.Effect) {
	switch e := e.(type) {
	case region.Send:
		u.send(e.To, e.Msg)
	case region.AbandonAll:
		u.dropInstances()
	case region.Drained:
		if u.drained != nil {
			u.drained()
			u.drained = nil
		}
	case region.StartShard:
		u.startShard(e)
	case region.StopShard:
		u.stopShard(e)
	case region.CloseRoute:
		u.closeRoute(&u.routes[e.Shard], e.Marker)
	case region.SendMarker:
		u.sendMarker(e.Owner, e.Shard, e.Token)
	case region.OpenRoute:
		u.openRoute(&u.routes[e.Shard], e.Home, e.Token)
	}
}

func (u *upper) doCoordinator(e coordinator.Effect) {
	switch e := e.(type) {
	case coordinator.Send:
		u.p.w.checkOrder(u.p, e.Msg)
		u.send(e.To, e.Msg)
	case coordinator.Write:
		u.p.later(u.p.w.netRand.dur(0, time.Millisecond/4), func() { u.repl.write(e) })
	case coordinator.Read:
		u.p.later(u.p.w.netRand.dur(0, time.Millisecond/4), func() { u.repl.read(e) })
	case coordinator.Yield:
		u.p.later(0, func() { u.p.step(view.Yield{Subject: e.Subject, Reporter: u.p.node.ID}) })
	}
}

func (u *upper) send(to nodeID, m protocol.Message) {
	p := u.p
	p.w.event(p, "order", uint64(to), func() string { return p.w.name(to) + " " + p.w.protocolText(m) })
	if to == p.node.ID {
		u.own = append(u.own, m)
		return
	}
	if w := p.w; w.swarm.datagrams && w.byID[to] != nil && !p.forgotten[to] {
		w.datagram(p, w.byID[to], frame{transport.KindCoordinator, m})
		return
	}
	_ = p.send(to, transport.Control, frame{transport.KindCoordinator, m})
}

func (u *upper) trace(kind string, shard protocol.ShardID, has bool, node nodeID, token protocol.Token, detail string) {
	w := u.p.w
	w.noteUpper(kind)
	w.event(u.p, kind, uint64(shard)<<32^uint64(node)^token.Seq, func() string {
		s := ""
		if has {
			s = "shard " + shard.String() + " "
		}
		if node != 0 {
			s += w.name(node) + " "
		}
		return s + w.tokenText(token) + " " + detail
	})
}

// handle takes a frame of the upper layers.
func (u *upper) handle(from nodeID, f frame) {
	if !u.on {
		return
	}
	switch m := f.msg.(type) {
	case protocol.Message:
		u.put(func() { u.receive(from, m) })
	case *entityFrame:
		u.entityFrame(from, m)
	default:
		u.repl.received(from, f.msg)
	}
}

func (p *proc) upperView(v *view.View) {
	u := &p.upper
	if !u.on {
		return
	}
	u.repl.setView(v)
	old := u.repl.view
	u.repl.view = v
	u.put(func() {
		u.stepRegion(region.ViewChanged{View: v})
		u.stepCoordinator(coordinator.ViewChanged{View: v})
	})
	if old == nil {
		return
	}
	for i := range old.Members {
		if id := old.Members[i].ID; v.Member(id) == nil {
			u.hearing(id, true)
			u.peerLost(id)
		}
	}
}

func (p *proc) upperLease(valid bool) {
	u := &p.upper
	if !u.on {
		return
	}
	u.put(func() { u.lease(valid) })
	if valid {
		for _, h := range u.hosts {
			u.dispatch(h)
		}
	}
}

func (u *upper) lease(valid bool) {
	u.stepRegion(region.LeaseChanged{Valid: valid})
	u.stepCoordinator(coordinator.LeaseChanged{Valid: valid})
}

// abandonUpper drops all instances; a lease of the new generation is valid only
// when that is done.
func (p *proc) abandonUpper() {
	u := &p.upper
	if !u.on {
		return
	}
	p.w.hosting.Abandoned(p.node.ID)
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

func (p *proc) endUpper() {
	u := &p.upper
	if !u.on {
		return
	}
	u.on = false
	p.w.hosting.Abandoned(p.node.ID)
}

// leaveUpper drains, and leaves when the shards are gone, or patience is.
func (p *proc) leaveUpper(then func()) {
	u := &p.upper
	if !u.on || !p.w.swarm.drain {
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
	u.drained = func() {
		p.w.hit(markDrained)
		p.later(0, leave)
	}
	u.put(func() { u.stepRegion(region.Drain{}) })
	p.later(2*time.Second, leave)
}

// upperPeer takes the coming and going of connections.
func (p *proc) upperPeer(id nodeID, class transport.Class, up bool) {
	u := &p.upper
	if !u.on {
		return
	}
	u.repl.peer(id, up)
	switch {
	case class == transport.Control:
		u.hearing(id, up)
	case class == transport.Message && up:
		u.peerUp(id)
	case class == transport.Message:
		u.peerLost(id)
	}
}

// hearing tells the coordinator who is silent.
func (u *upper) hearing(id nodeID, heard bool) {
	if u.silent[id] == !heard {
		return
	}
	if heard {
		delete(u.silent, id)
	} else {
		u.silent[id] = true
	}
	nodes := sortedIDs(u.silent)
	u.put(func() { u.stepCoordinator(coordinator.Silent{Nodes: nodes}) })
}
