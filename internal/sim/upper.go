package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/statemove"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// upper is the driver of one entity type on one process. It runs the region core and, if
// the process carries the type's role, the coordinator core, as the shells in sharding do.
// Work that the shells do on goroutines of their own happens here a little later, in the
// order of each goroutine.
type upper struct {
	p    *proc
	on   bool
	spec *typeSpec
	// number is the type's number. repl is the replicator of the type's role, nil if the
	// process does not carry the role.
	number int
	repl   *replica

	// foreign: the process does not run the type. declinedIn is the view in which it has
	// promised not to coordinate it, before it ran it.
	foreign    bool
	declinedIn gossip.Epoch

	floors *region.Floors
	// regionView is the epoch of the view that the region holds.
	regionView gossip.Epoch
	region     *region.Core
	regFx      region.Effects
	regAt      timer
	// coord is nil where the process does not carry the role, or run the type.
	coord *coordinator.Core
	cooFx coordinator.Effects
	cooAt timer
	own   []protocol.Message
	// inbox is the time before which the shell's goroutine sees nothing newer.
	inbox virtual.Instant

	// path is the data path. looks counts calls of lookOnce.
	path    *datapath.Path
	looks   int
	hosts   []*hosted
	seqs    []uint64
	drained func()
	// drainAt is when draining began, never if it did not; drainedIn the epoch of the view
	// in which it ended, zero before.
	drainAt   virtual.Instant
	drainedIn gossip.Epoch
	probed    map[protocol.ShardID]bool

	calls map[uint64]*call
	// outbox are answers that wait for room on the connections.
	outbox map[nodeID][]typed
	// gone are the asks that their askers have cancelled.
	gone map[callOf]bool
	// mover moves the states of entities.
	mover *statemove.Mover
}

func (p *proc) startUpper(number int) *upper {
	s := &p.w.swarm
	spec := &s.types[number]
	u := &upper{
		p: p, on: true, spec: spec, number: number, repl: p.layers.stores[spec.role], drainAt: virtual.Never,
		floors: &region.Floors{}, probed: map[protocol.ShardID]bool{},
		calls: map[uint64]*call{}, outbox: map[nodeID][]typed{}, gone: map[callOf]bool{},
	}
	u.foreign = spec.absent>>p.slot&1 == 1
	u.newCores()
	u.regAt = newTimer(p, u.tick)
	u.cooAt = newTimer(p, u.tick)
	u.path = u.newPath()
	u.mover = statemove.New(p.node.ID, stateEnv{u}, p.w.cfg.Mutant)
	u.hosts = make([]*hosted, spec.shards)
	u.seqs = make([]uint64, spec.entities)
	u.put(func() { u.lease(p.leaseValid()) })
	u.arm()
	u.registerLate()
	return u
}

// stopTimeout is the time that an owner has to stop a shard.
const stopTimeout = 2 * time.Second

// put hands an event to the shell's goroutine.
func (u *upper) put(do func()) {
	w := u.p.w
	d := time.Duration(0)
	if w.netRand.IntN(16) == 0 {
		d = w.netRand.Duration(0, 3*time.Millisecond)
	}
	u.inbox = max(u.inbox, w.Now().Add(d))
	w.At(u.inbox, func() {
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
	if u.coord != nil {
		u.cooAt.set(u.coord.Deadline())
	}
}

func (u *upper) tick() {
	if !u.on {
		return
	}
	now := u.p.now()
	if now >= u.region.Deadline() {
		u.stepRegion(region.Tick{})
	}
	if u.coord != nil && now >= u.coord.Deadline() {
		u.stepCoordinator(coordinator.Tick{})
	}
	u.settle()
	u.arm()
}

// settle delivers the messages between the cores of this process.
func (u *upper) settle() {
	for len(u.own) > 0 {
		m := u.own[0]
		u.own = u.own[1:]
		u.receive(u.p.node.ID, m)
	}
}

func (u *upper) receive(from nodeID, m protocol.Message) {
	if d := u.declines(from, m); d != nil {
		u.send(from, d)
		return
	}
	if protocol.ToCoordinator(m) {
		u.stepCoordinator(coordinator.Received{From: from, Msg: m})
		return
	}
	u.stepRegion(region.Received{From: from, Msg: m})
}

func (u *upper) stepRegion(ev region.Event) {
	floor := u.floors.Term()
	if v, is := ev.(region.ViewChanged); is && v.View != nil {
		u.regionView = v.View.Epoch
	}
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
	if u.coord == nil {
		return
	}
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

// checkTerm checks that orders below the term floor start and stop nothing (G2).
func (u *upper) checkTerm(ev region.Event, floor gossip.Epoch) {
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
	case region.Standing:
		u.stepCoordinator(coordinator.Standing(e))
	case region.AbandonAll:
		u.dropInstances()
	case region.Drained:
		if u.drained != nil {
			u.drainedIn = u.p.member.view.Epoch
			u.drained()
			u.drained = nil
		}
	case region.StartShard:
		u.startShard(e)
	case region.StopShard:
		u.stopShard(e)
	case region.DropState:
		u.mover.Drop(protocol.ShardToken{Shard: e.Shard, Token: e.Token}, e.From)
	case region.CloseRoute:
		if e.Marker == nil {
			u.path.Close(e.Shard, 0, protocol.Token{})
			return
		}
		u.path.Close(e.Shard, e.Marker.Owner, e.Marker.Token)
	case region.SendMarker:
		u.path.Mark(e.Shard, e.Owner, e.Token)
	case region.OpenRoute:
		u.path.Open(e.Shard, e.Home, e.Token)
	}
}

func (u *upper) doCoordinator(e coordinator.Effect) {
	switch e := e.(type) {
	case coordinator.Send:
		u.p.w.checkOrder(u, e.Msg)
		u.send(e.To, e.Msg)
	case coordinator.Write:
		u.p.later(u.p.w.netRand.Duration(0, time.Millisecond/4), func() { u.write(e) })
	case coordinator.Read:
		u.p.later(u.p.w.netRand.Duration(0, time.Millisecond/4), func() { u.read(e) })
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
	if kind == coordinator.TraceOffice {
		w.checkOffice(u, token.Term)
	}
	w.strike(u, kind, node)
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

func (u *upper) lease(valid bool) {
	u.stepRegion(region.LeaseChanged{Valid: valid})
	u.stepCoordinator(coordinator.LeaseChanged{Valid: valid})
}
