package sharding

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/entities"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/statemove"
)

// Model is one entity type on one process. Work that the shells do on goroutines of their own
// happens here a little later, in the order of each goroutine.
type Model struct {
	base
	cores     cores
	instances instances
	senders   senders
	calls     calls
	outbox    outbox
	producer  *producer
	workers   workers
	entities  *entities.Table
	// path is the data path, mover moves the states of entities.
	path  *datapath.Path
	mover *statemove.Mover
	// looks counts calls of look.
	looks int
	// drainedIn is the epoch of the view in which draining ended, zero before. onDrained is
	// called then, onFarewellAck when a member has all frames of this process.
	drainedIn     gossip.Epoch
	onDrained     func()
	onFarewellAck func(from gossip.NodeID)
}

func startModel(s *site, number int, store *replica.Driver, onFarewellAck func(gossip.NodeID)) *Model {
	r := s.p.Run
	m := &Model{onFarewellAck: onFarewellAck}
	b := &m.base
	*b = base{site: s, p: s.p, run: r, spec: &r.Config.Types[number], number: number, checks: s.inv.types[number]}
	m.outbox = outbox{m: b, answers: map[gossip.NodeID][]Frame{}}
	m.calls = calls{m: b, outbox: &m.outbox, withdraw: func(msg *datapath.Message) bool { return m.path.Withdraw(msg) }, open: map[uint64]*call{}, cancelled: map[askOf]bool{}}
	m.cores = cores{m: b, inbox: inbox{m: b}, perform: m.perform, onRegister: func() {
		m.path = m.newPath()
		m.instances.hostStandbys()
		m.hostWithoutMessages()
	}}
	if store != nil {
		m.cores.records = &records{m: b, store: store, answer: func(outcome func() coordinator.Event) {
			m.cores.put(func() { m.cores.stepCoordinator(outcome()) })
		}}
	}
	m.path = m.newPath()
	room := statemove.Room{HeldBytes: r.Config.HeldBytes, PartialMax: r.Config.PartialMax}
	if r.Config.BulkBytes > 0 {
		room.ChunkBytes = severalStates
	}
	m.mover = statemove.New(m.p.Node.ID, stateEnv{b, &m.cores, &m.instances, &m.outbox}, room)
	m.instances = instances{m: b, cores: &m.cores, calls: &m.calls, mover: m.mover, shards: make([]*instance, m.spec.Shards)}
	m.senders = senders{m: b, cores: &m.cores, calls: &m.calls, path: m.currentPath, seqs: make([]uint64, m.spec.Entities), probed: map[protocol.ShardID]bool{}}
	m.producer = newProducer(b, &m.cores, &m.outbox, m.currentPath)
	m.instances.onConfirm = m.producer.onConfirm
	m.instances.onFreed = func(ev reliable.Freed) {
		if b.spec.Reliable {
			m.producer.noteEvent(ev)
		}
	}
	m.workers = workers{
		m: b, cores: &m.cores, instances: &m.instances, inbox: inbox{m: b}, plans: plans{m: b, records: m.cores.records},
		needHome: func(shard protocol.ShardID) { m.cores.putRegion(region.NeedHome{Shards: []protocol.ShardID{shard}}) },
	}
	m.entities = entities.NewTable(m.p, m.spec, entitiesEnv{b, &m.cores, &m.instances, &inbox{m: b}, &m.senders})
	m.instances.entities = m.entities
	m.instances.onStarted = func() {
		m.workers.shardStarted()
		m.entities.ShardStarted()
	}
	m.instances.onGone = func(shard protocol.ShardID) {
		m.workers.shardGone(shard)
		m.entities.ShardGone(shard)
	}
	m.cores.startCores()
	m.instances.startStandbys()
	m.hostWithoutMessages()
	return m
}

// hostWithoutMessages has the process run workers, and other entities that need no message.
func (m *Model) hostWithoutMessages() {
	m.workers.host()
	m.hostEntities()
}

// newPath returns the data path of the type.
func (m *Model) newPath() *datapath.Path {
	s := &m.run.Config
	return datapath.New(datapath.Config{
		Self: m.p.Node.ID, Shards: m.spec.Shards, Buffer: s.BufferMax, Windows: s.WindowBytes, Parked: s.ParkedBytes,
	}, pathEnv{&m.base, &m.cores, &m.calls, &m.instances, &m.outbox, m.currentPath})
}

func (m *Model) currentPath() *datapath.Path { return m.path }

// receiveFrame takes a frame that came over a message or bulk connection.
func (m *Model) receiveFrame(from gossip.NodeID, frame Frame) {
	switch f := frame.(type) {
	case *pathFrame:
		m.path.Handle(from, f.Frame)
	case *stateFrame:
		m.mover.Handle(from, f.chunk)
	case *stateAckFrame:
		if m.mover.OnAck(from, f.ack) {
			m.run.Hit(coverage.StateSent)
		}
	case *standbyFrame:
		m.instances.copies.Receive(from, f.msg)
	case *confirmFrame:
		m.producer.onConfirm(from, f)
	case *callFrame:
		m.onCallFrame(from, f)
	}
}

func (m *Model) onCallFrame(from gossip.NodeID, f *callFrame) {
	switch f.op {
	case opReply:
		m.calls.endAsk(f.call, f.outcome)
	case opCancel:
		m.calls.cancelled[askOf{from, f.call}] = true
	case opFarewell:
		m.outbox.sendInOrder(from, &callFrame{typ: m.number, op: opFarewellAck})
	case opFarewellAck:
		m.onFarewellAck(from)
	case opHello:
		_ = m.outbox.sendNow(from, &callFrame{typ: m.number, op: opHelloAck})
	case opHelloAck:
		m.path.PeerUp(from)
	}
}

// perform carries out an effect of the region core.
func (m *Model) perform(e region.Effect) {
	switch e := e.(type) {
	case region.AbandonAll:
		m.instances.abandonAll()
	case region.Drained:
		if m.onDrained != nil {
			m.drainedIn = m.site.member.View().Epoch
			m.onDrained()
			m.onDrained = nil
		}
	case region.StartShard:
		m.instances.startShard(e)
	case region.StopShard:
		m.instances.stopShard(e)
	case region.DropState:
		m.mover.Drop(protocol.ShardToken{Shard: e.Shard, Token: e.Token}, e.From)
	case region.CloseRoute:
		if e.Marker == nil {
			m.path.Close(e.Shard, 0, protocol.Token{})
			return
		}
		m.path.Close(e.Shard, e.Marker.Owner, e.Marker.Token)
	case region.SendMarker:
		m.path.Mark(e.Shard, e.Owner, e.Token)
	case region.OpenRoute:
		m.path.Open(e.Shard, e.Home, e.Token)
	}
}

// look repeats frames that may be lost, and looks for connections that routes wait for.
func (m *Model) look() {
	if !m.site.on {
		return
	}
	m.looks++
	m.instances.lookAtParked()
	down := map[gossip.NodeID]bool{}
	m.path.Look(m.looks%looksPerQuestion == 0, func(home gossip.NodeID) { down[home] = true })
	if m.looks%looksPerTidy == 0 {
		m.path.Tidy()
	}
	for _, id := range sortedIDs(down) {
		_ = m.outbox.sendNow(id, &callFrame{typ: m.number, op: opHello})
	}
}

// looksPerQuestion is how many looks, of 50 ms, are between two questions about gates, as in
// production; looksPerTidy how many are between two searches for idle windows. Production
// searches every 20 s, which most runs do not last.
const (
	looksPerQuestion = 20
	looksPerTidy     = 30
)

// onPeerLost fails what is at a node whose connection broke.
func (m *Model) onPeerLost(id gossip.NodeID) {
	m.path.PeerLost(id)
	m.calls.failAt(id)
	if m.spec.Reliable {
		m.producer.lostAt(id)
	}
}
