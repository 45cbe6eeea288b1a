package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/sim/datapath"
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
func (e pathEnv) Hosted(shard protocol.ShardID) protocol.Token {
	if i := e.instances.shards[shard]; i != nil && !i.stopping {
		return i.token
	}
	return protocol.Token{}
}

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
