package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/statemove"
	"github.com/peerage-go/peerage/internal/transport"
)

// stateEnv is the statemove.Env of a type: it connects the Mover with its process.
type stateEnv struct {
	m         *base
	cores     *cores
	instances *instances
	outbox    *outbox
}

// SendState queues a frame on the bulk connection.
func (e stateEnv) SendState(to gossip.NodeID, f *statemove.Frame) error {
	return e.m.p.Net.Send(to, transport.Bulk, network.Frame{Kind: transport.KindEntity, Msg: &stateFrame{e.m.number, f}})
}

// AckStates acknowledges the states of a shard.
func (e stateEnv) AckStates(to gossip.NodeID, st protocol.ShardToken) {
	e.outbox.sendInOrder(to, &callFrame{typ: e.m.number, op: opStateAck, shard: st.Shard, token: st.Token})
}

// Later calls do after d.
func (e stateEnv) Later(d time.Duration, do func()) {
	e.m.p.Later(d, func() {
		if e.m.site.on {
			do()
		}
	})
}

// Present reports whether a node is in the view.
func (e stateEnv) Present(id gossip.NodeID) bool { return e.m.site.view.Member(id) != nil }

// StatesHeld reports to the region core that the states of a shard wait here.
func (e stateEnv) StatesHeld(st protocol.ShardToken, from gossip.NodeID) {
	e.cores.putRegion(region.StateHeld{Shard: st.Shard, Token: st.Token, From: from})
}

// StatesSent reports a shard as stopped.
func (e stateEnv) StatesSent(st protocol.ShardToken, arrived bool) {
	if !arrived {
		e.m.checks.noteNotTransferred(st)
	}
	e.instances.reportStopped(st)
}
