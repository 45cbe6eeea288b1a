package mover

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/chunks"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
)

// Allocation is one under which a shard ran: its token orders it among those of the shard.
type Allocation struct {
	Type  string
	Shard protocol.ShardID
	Token protocol.Token
}

// Order is the order to stop a shard that its states leave by.
type Order struct {
	// To is the new home.
	To gossip.NodeID
	// Term is the newest term that the old home had obeyed by then (protocol.Held). It travels
	// with the states.
	Term gossip.Epoch
	// Within is how long the transfer may take.
	Within time.Duration
}

// State is the state of one entity. Data is shared and never changed.
type State struct {
	ID   string
	Data []byte
}

// stateCost is what a state takes beyond its id and data.
const stateCost = 64

func costOf(id string, data []byte) int { return stateCost + len(id) + len(data) }

func sizeOf(states []State) (size int) {
	for _, st := range states {
		size += costOf(st.ID, st.Data)
	}
	return size
}

// summer computes the Sums of states, with memory of its own.
type summer struct{ scratch []byte }

// sumStates returns the Sum of states behind other content.
func (s *summer) sumStates(sum chunks.Sum, states []State) chunks.Sum {
	for _, st := range states {
		s.scratch = wire.AppendUvarint(wire.AppendString(s.scratch[:0], st.ID), uint64(len(st.Data)))
		sum = sum.Extend(s.scratch).Extend(st.Data)
	}
	return sum
}

// Chunk has some of the states of an allocation.
type Chunk struct {
	Allocation
	// Term is Order.Term.
	Term gossip.Epoch
	// Attempt counts how often the transfer has begun again.
	Attempt uint64
	chunks.Head
	States []State
}

// Ack acknowledges the chunks of an attempt below Next.
type Ack struct {
	Allocation
	Attempt uint64
	Next    uint64
	// Complete: all states are held, whichever attempt brought them.
	Complete bool
	// Restart: nothing of the transfer is held, and the sender must begin again. There was no
	// room, or the chunks before are missing.
	Restart bool
}

// Config holds the settings of a Core. Zero numbers take the default named at the field.
type Config struct {
	Self gossip.NodeID
	// ChunkBytes is the size of a chunk; one state may exceed it. Default: 256 KiB.
	ChunkBytes int
	// Window is the largest number of chunks of one transfer in flight. Default: 8.
	Window int
	// Resend is the first wait before unacknowledged chunks are sent again, which doubles up to
	// eight times that, and how often a transfer to a node that is no member ends. Default:
	// 500 ms.
	Resend time.Duration
	// HeldBytesMax bounds the held states of all types. Default: 1 GiB.
	HeldBytesMax int
	// PartialMax is how long a part of a shard's states waits for the next one. Default: 1 min.
	PartialMax time.Duration
}
