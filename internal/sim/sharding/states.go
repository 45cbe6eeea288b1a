package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/transport"
)

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
