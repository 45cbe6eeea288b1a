package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/transport"
)

// pathEnv is the datapath.Env of a type: it connects the data path with its process.
type pathEnv struct {
	m         *base
	cores     *cores
	calls     *calls
	instances *instances
	outbox    *outbox
	path      func() *datapath.Path
}

// Send queues a frame of the data path.
func (e pathEnv) Send(to gossip.NodeID, f *datapath.Frame) error {
	return e.outbox.sendNow(to, &pathFrame{e.m.number, f})
}

// Answer sends a frame of the data path, or queues it until there is room.
func (e pathEnv) Answer(to gossip.NodeID, f *datapath.Frame) {
	e.outbox.sendInOrder(to, &pathFrame{e.m.number, f})
}

// AwaitRoom calls then when the connection to a peer has room, as Transport.WaitRoom returns:
// with Down if the peer is unknown.
func (e pathEnv) AwaitRoom(to gossip.NodeID, then func(route.Outcome)) {
	e.m.p.Net.AwaitRoom(to, transport.Message, func(reachable bool) {
		how := route.Sent
		if !reachable {
			how = route.Down
		}
		e.Later(func() { then(how) })
	})
}

// Later calls do on another goroutine.
func (e pathEnv) Later(do func()) {
	e.m.p.Later(e.m.run.Rand.Route.Duration(0, 2*time.Millisecond), func() {
		if e.m.site.on {
			do()
		}
	})
}

// NeedHome has the region core ask for the home of a shard.
func (e pathEnv) NeedHome(shard protocol.ShardID) {
	e.cores.putRegion(region.NeedHome{Shards: []protocol.ShardID{shard}})
}

// Misrouted reports a home that refuses messages.
func (e pathEnv) Misrouted(shard protocol.ShardID, token protocol.Token) {
	e.cores.putRegion(region.Misrouted{Shard: shard, Token: token})
}

// MarkerAcked reports that a home has acknowledged the marker of a coordinator.
func (e pathEnv) MarkerAcked(from gossip.NodeID, shard protocol.ShardID, token protocol.Token) {
	e.cores.putRegion(region.MarkerAcked{From: from, Shards: []protocol.ShardToken{{Shard: shard, Token: token}}})
}

// Hosted returns the token under which a shard takes messages here, zero if it takes none.
func (e pathEnv) Hosted(shard protocol.ShardID) protocol.Token { return e.instances.openToken(shard) }

// Deliver puts a message into the mailbox of its entity, or lets it wait for room.
func (e pathEnv) Deliver(msg *datapath.Message, left time.Duration, p *datapath.Place) {
	e.instances.deliverMessage(msg, left, p)
}

// Move notes which node has the request of an ask of this process.
func (e pathEnv) Move(msg *datapath.Message, to gossip.NodeID) (left time.Duration, waits bool) {
	return e.calls.moveTo(msg, to)
}

// Lost ends a message that was refused, and cannot be sent again. Planned moves must lose none.
func (e pathEnv) Lost(msg *datapath.Message, token protocol.Token) {
	m := e.m
	if !m.checks.untaken[protocol.ShardToken{Shard: msg.Shard, Token: token}] {
		m.site.inv.misplaced++
	}
	m.p.Event("message lost", msg.Seq, func() string {
		names := &m.run.Names
		home, state, _ := e.path().Describe(msg.Shard)
		return "sent under " + names.Token(token) + " to shard " + msg.Shard.String() + ", home is " + names.Name(home) + ", route " + state
	})
	e.calls.refuseAsk(msg)
}

// Count sets the mark of a rare event.
func (e pathEnv) Count(ev datapath.Event) { e.m.countEvent(ev) }

// Fail ends the run: an invariant of a route does not hold.
func (e pathEnv) Fail(err error) { e.m.run.Fail("core", "%s: %v", e.m.p.Label, err) }

// stateEnv is the statemove.Env of a type: it connects the Mover with its process.
type stateEnv struct {
	m         *base
	cores     *cores
	instances *instances
	outbox    *outbox
}

// Now returns what the clock of the process shows.
func (e stateEnv) Now() clock.Instant { return e.m.p.Now() }

// SendChunk queues a frame on the bulk connection.
func (e stateEnv) SendChunk(to gossip.NodeID, c mover.Chunk) error {
	// A chunk of one state always finds room: what is too large for each connection is lost.
	if most := e.m.run.Config.BulkBytes; most > 0 && len(c.States) > 1 && sizeOfStates(c) > most {
		e.m.run.Hit(coverage.ChunkTooLarge)
		return transport.ErrFrameTooLarge
	}
	return e.m.p.Net.Send(to, transport.Bulk, network.Frame{Kind: transport.KindEntity, Msg: &stateFrame{e.m.number, c}})
}

// severalStates is a size of chunks of several states, which may be too large for a connection.
const severalStates = 300

// sizeOfStates returns the bytes of the states in a chunk, with their names.
func sizeOfStates(c mover.Chunk) (size int) {
	for i := range c.States {
		size += len(c.States[i].ID) + len(c.States[i].Data)
	}
	return size
}

// SendAck acknowledges chunks.
func (e stateEnv) SendAck(to gossip.NodeID, ack mover.Ack) {
	e.outbox.sendInOrder(to, &stateAckFrame{e.m.number, ack})
}

// Later calls do after d.
func (e stateEnv) Later(d time.Duration, do func()) { e.m.later(d, do) }

// Present reports whether a node is in the view.
func (e stateEnv) Present(id gossip.NodeID) bool { return e.m.site.view.Member(id) != nil }

// StatesHeld reports to the region core that the states of a shard wait here.
func (e stateEnv) StatesHeld(ev region.StateHeld) { e.cores.putRegion(ev) }

// StatesSent reports a shard as stopped.
func (e stateEnv) StatesSent(st protocol.ShardToken, arrived bool) {
	if !arrived {
		e.m.checks.noteNotTransferred(st)
	}
	e.instances.reportStopped(st)
}
