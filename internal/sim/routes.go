package sim

import (
	"time"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/transport"
)

// This file connects the data path of a type with its process: upper is the datapath.Env.

// message is one tell or ask of a modelled caller.
type message = datapath.Message

// pathFrame is a frame of a type's data path.
type pathFrame struct {
	typ int
	*datapath.Frame
}

func (f *pathFrame) ofType() int { return f.typ }

// newPath returns the data path of a type.
func (u *upper) newPath() *datapath.Path {
	s := &u.p.w.swarm
	return datapath.New(datapath.Config{
		Self: u.p.node.ID, Shards: u.spec.shards, Buffer: s.bufferMax, Windows: s.windowBytes, Parked: s.parkedBytes, Mutant: u.p.w.cfg.Mutant,
	}, u)
}

// Send queues a frame of the data path.
func (u *upper) Send(to nodeID, f *datapath.Frame) error {
	return u.p.send(to, transport.Message, frame{transport.KindEntity, &pathFrame{u.number, f}})
}

// Answer sends a frame of the data path, or queues it until there is room.
func (u *upper) Answer(to nodeID, f *datapath.Frame) { u.answer(to, &pathFrame{u.number, f}) }

// AwaitRoom calls then when the connection to a peer has room, as Transport.WaitRoom returns:
// with Down if the peer is unknown.
func (u *upper) AwaitRoom(to nodeID, then func(route.Outcome)) {
	room := func(known bool) {
		how := route.Sent
		if !known {
			how = route.Down
		}
		u.Later(func() { then(how) })
	}
	known := u.p.w.byID[to] != nil && !u.p.forgotten[to]
	if c := u.p.out[peerClass{to, transport.Message}]; known && c != nil && len(c.pending) > u.p.w.swarm.queueFramesMax/2 {
		c.room = append(c.room, room)
		return
	}
	room(known)
}

// Later calls do on another goroutine.
func (u *upper) Later(do func()) {
	u.p.later(u.p.w.routeRand.Duration(0, 2*time.Millisecond), func() {
		if u.on {
			do()
		}
	})
}

// NeedHome has the region core ask for the home of a shard.
func (u *upper) NeedHome(shard protocol.ShardID) {
	u.put(func() { u.stepRegion(region.NeedHome{Shards: []protocol.ShardID{shard}}) })
}

// Misrouted reports a home that refuses messages.
func (u *upper) Misrouted(shard protocol.ShardID, token protocol.Token) {
	u.put(func() { u.stepRegion(region.Misrouted{Shard: shard, Token: token}) })
}

// MarkerAcked reports that a home has acknowledged the marker of a coordinator.
func (u *upper) MarkerAcked(from nodeID, shard protocol.ShardID, token protocol.Token) {
	u.put(func() {
		u.stepRegion(region.MarkerAcked{From: from, Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
	})
}

// Hosted returns the token under which a shard takes messages here, zero if it takes none.
func (u *upper) Hosted(shard protocol.ShardID) protocol.Token {
	if h := u.hosts[shard]; h != nil && !h.stopping {
		return h.token
	}
	return protocol.Token{}
}

// Move notes which node has the request of an ask of this process.
func (u *upper) Move(m *message, to nodeID) (left time.Duration, waits bool) {
	if m.Call == 0 {
		return 0, true
	}
	c := u.calls[m.Call]
	if c == nil {
		return 0, false
	}
	c.at = to
	return max(c.deadline.Sub(u.p.now()), 1), true
}

// Lost ends a message that was refused, and cannot be sent again. Planned moves must lose none.
func (u *upper) Lost(m *message, token protocol.Token) {
	w := u.p.w
	if !w.types[u.number].untaken[protocol.ShardToken{Shard: m.Shard, Token: token}] {
		w.misplaced++
	}
	w.event(u.p, "message lost", m.Seq, func() string {
		home, state, _ := u.path.Describe(m.Shard)
		return "sent under " + w.tokenText(token) + " to shard " + m.Shard.String() + ", home is " + w.name(home) + ", route " + state
	})
	u.giveUp(m)
}

// pathMarks are the marks of rare events of the data path.
var pathMarks = map[datapath.Event]mark{
	datapath.NoRoom: markBufferFull, datapath.HeldUp: markHeldUp, datapath.GateClosed: markGateClosed, datapath.MessageRefused: markMisrouted,
	datapath.SentAgain: markSentAgain, datapath.WindowShrunk: markWindowShrunk, datapath.MessageParked: markParked,
}

// Count sets the mark of a rare event.
func (u *upper) Count(e datapath.Event) { u.p.w.hit(pathMarks[e]) }

// Fail ends the run: an invariant of a route does not hold.
func (u *upper) Fail(err error) { u.p.w.fail("core", "%s: %v", u.p.label, err) }

type entityOp uint8

const (
	opHello entityOp = iota
	opHelloAck
	opReply
	opCancel
	opStateAck
	opFarewell
	opFarewellAck
)

// entityFrame travels on message connections, beside the frames of the data path.
type entityFrame struct {
	typ   int
	op    entityOp
	shard protocol.ShardID
	token protocol.Token
	// call and outcome are those of a reply, or of an ask that is called off.
	call    uint64
	outcome outcomeOf
}

func (f *entityFrame) ofType() int { return f.typ }

func (u *upper) frame(to nodeID, f *entityFrame) error {
	f.typ = u.number
	return u.p.send(to, transport.Message, frame{transport.KindEntity, f})
}

// entityFrame takes a frame that came over a message or bulk connection.
func (u *upper) entityFrame(from nodeID, m typed) {
	switch f := m.(type) {
	case *pathFrame:
		u.path.Handle(from, f.Frame)
	case *stateFrame:
		u.mover.Handle(from, f.Frame)
	case *entityFrame:
		u.takeFrame(from, f)
	}
}

func (u *upper) takeFrame(from nodeID, f *entityFrame) {
	switch f.op {
	case opReply:
		u.over(f.call, f.outcome)
	case opCancel:
		u.gone[callOf{from, f.call}] = true
	case opStateAck:
		if u.mover.OnAck(protocol.ShardToken{Shard: f.shard, Token: f.token}) {
			u.p.w.hit(markStateSent)
		}
	case opFarewell:
		u.answer(from, &entityFrame{typ: u.number, op: opFarewellAck})
	case opFarewellAck:
		u.p.layers.farewellAcked(from)
	case opHello:
		_ = u.frame(from, &entityFrame{op: opHelloAck})
	case opHelloAck:
		u.path.PeerUp(from)
	}
}

// lookOnce repeats frames that may be lost, and looks for connections that routes wait for.
func (u *upper) lookOnce() {
	if !u.on {
		return
	}
	u.looks++
	down := map[nodeID]bool{}
	u.path.Look(u.looks%looksPerQuestion == 0, func(home nodeID) { down[home] = true })
	if u.looks%looksPerTidy == 0 {
		u.path.Tidy()
	}
	for _, id := range sortedIDs(down) {
		_ = u.frame(id, &entityFrame{op: opHello})
	}
}

// looksPerQuestion is how many looks, of 50 ms, are between two questions about gates, as in
// production; looksPerTidy how many are between two searches for idle windows. Production
// searches every 20 s, which most runs do not last.
const (
	looksPerQuestion = 20
	looksPerTidy     = 30
)

// callers are the modelled callers of a process for each entity, by the class of their
// messages; percent is how many of the messages each of them sends.
var callers = [...]struct {
	class   flow.Class
	percent int
}{{flow.Ordinary, 70}, {flow.Ordinary, 10}, {flow.Handler, 12}, {flow.Control, 8}}

// tell has a caller of this process send a message, unless its last call has not returned.
func (u *upper) tell(entity int, probe bool) {
	w := u.p.w
	caller := 0
	if !probe {
		for draw := w.routeRand.IntN(100); draw >= callers[caller].percent; caller++ {
			draw -= callers[caller].percent
		}
	}
	if u.path.Busy(entity, caller) {
		return
	}
	u.seqs[entity]++
	w.told++
	m := &message{
		Sender: u.p.node.ID, Entity: entity, Caller: caller, Seq: u.seqs[entity], Probe: probe, Class: callers[caller].class,
		Bytes: u.drawBytes(), Shard: protocol.ShardID(entity % u.spec.shards),
	}
	if !probe && w.swarm.askPercent > 0 && w.setRand.Chance(w.swarm.askPercent) {
		u.beginAsk(m)
	}
	if !u.path.Post(m) || m.Call != 0 && m.Class != flow.Handler {
		return // an ask waits until its deadline
	}
	u.p.later(u.drawPatience(m), func() {
		if u.on && u.path.Withdraw(m) {
			w.hit(markWithdrawn)
			u.drop(m)
		}
	})
}

// drawBytes draws the size of a message: most are small.
func (u *upper) drawBytes() int {
	r := u.p.w.routeRand
	if r.IntN(16) == 0 {
		return r.Between(1<<10, 32<<10)
	}
	return r.Between(16, 200)
}

// handlerWait is how long a full mailbox delays a handler, as in package sharding.
const handlerWait = 5 * time.Second

// drawPatience draws how long the caller of a message waits for room.
func (u *upper) drawPatience(m *message) time.Duration {
	if m.Class == flow.Handler {
		return handlerWait
	}
	return u.p.w.routeRand.Duration(50*time.Millisecond, 3*time.Second)
}
