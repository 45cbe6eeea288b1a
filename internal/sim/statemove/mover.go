// Package statemove moves the states of entities from one simulated process to another. It is
// the shell of the core internal/core/mover in the simulator, as internal/statetransfer is in
// production. A state is a version: the hash of the messages that its entity has handled.
package statemove

import (
	"cmp"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/transport"
)

// Env is the process around a Mover. Later calls do after d, unless the process has ended.
type Env interface {
	Now() clock.Instant
	SendChunk(to gossip.NodeID, c mover.Chunk) error
	SendAck(to gossip.NodeID, ack mover.Ack)
	Later(d time.Duration, do func())
	// Present reports whether a node is in the view.
	Present(gossip.NodeID) bool
	// StatesHeld reports that the states of a shard wait here, or only at the new home.
	// StatesSent reports that a transfer has ended: the new home has all states, or never will.
	StatesHeld(region.StateHeld)
	StatesSent(st protocol.ShardToken, arrived bool)
}

// Mover has the states of one entity type that a process sends and receives.
type Mover struct {
	self      gossip.NodeID
	env       Env
	core      *mover.Core
	transfers map[*mover.Departure]*transfer
}

// transfer is one that is sent here.
type transfer struct {
	*mover.Departure
	order region.StopShard
	// wakeAt is when the transfer is advanced next, Never if no call is scheduled.
	wakeAt clock.Instant
}

const (
	// retryEvery is the interval of attempts to send when a connection is full.
	retryEvery = 5 * time.Millisecond
	// chunkBytes is below the cost of one state, so each takes a chunk of its own.
	chunkBytes = 60
	window     = 2
)

// Room is what a Mover has room for, 0 for the bounds of production, and for chunks of one state.
type Room struct {
	HeldBytes, ChunkBytes int
	PartialMax            time.Duration
}

// New returns a Mover.
func New(self gossip.NodeID, env Env, room Room) *Mover {
	core := mover.New(mover.Config{Self: self, ChunkBytes: cmp.Or(room.ChunkBytes, chunkBytes), Window: window, HeldBytesMax: room.HeldBytes, PartialMax: room.PartialMax})
	return &Mover{self: self, env: env, core: core, transfers: map[*mover.Departure]*transfer{}}
}

// Send sends the states of a shard that was stopped by order to its new home, within the
// order's time, and keeps a copy. It calls StatesSent when that has ended.
func (m *Mover) Send(order region.StopShard, cargo Cargo) {
	st := protocol.ShardToken{Shard: order.Shard, Token: order.Token}
	if len(cargo.States) == 0 && len(cargo.Memory) == 0 {
		m.env.StatesSent(st, true)
		return
	}
	d := m.core.Begin(m.env.Now(), allocation(st), mover.Order{To: order.To, Term: order.Term, Within: order.Within}, encodeCargo(cargo))
	t := &transfer{Departure: d, order: order, wakeAt: clock.Never}
	m.transfers[d] = t
	m.advance(t)
}

// advance sends what a transfer can send now, and notes when it has ended.
func (m *Mover) advance(t *transfer) {
	if m.transfers[t.Departure] == nil {
		return
	}
	for {
		c, ok := t.Next(m.env.Now(), m.env.Present(t.order.To))
		if !ok {
			break
		}
		err := m.env.SendChunk(t.order.To, c)
		if errors.Is(err, transport.ErrFrameTooLarge) {
			t.OnTooLarge()
			continue
		}
		if errors.Is(err, transport.ErrQueueFull) {
			t.TakeBack()
			m.env.Later(retryEvery, func() { m.advance(t) })
			break
		}
	}
	if m.transfers[t.Departure] == nil {
		return
	}
	if res, ended := t.Result(); ended {
		delete(m.transfers, t.Departure)
		o := t.order
		held := region.StateHeld{Shard: o.Shard, Token: o.Token, From: m.self, Term: o.Term}
		if res.Arrived && !res.Held {
			held.At = o.To
		}
		if res.Held || res.Arrived {
			m.env.StatesHeld(held)
		}
		m.env.StatesSent(protocol.ShardToken{Shard: o.Shard, Token: o.Token}, res.Arrived)
		return
	}
	m.wakeTransfer(t)
}

// wakeTransfer schedules the next advance.
func (m *Mover) wakeTransfer(t *transfer) {
	at := t.Deadline()
	if !at.Before(t.wakeAt) {
		return
	}
	t.wakeAt = at
	m.env.Later(clock.Ahead(at.Sub(m.env.Now())), func() {
		if t.wakeAt == at {
			t.wakeAt = clock.Never
			m.advance(t)
		}
	})
}

// OnAck takes an acknowledgement, and reports whether it ended a transfer in order.
func (m *Mover) OnAck(from gossip.NodeID, ack mover.Ack) bool {
	d := m.core.OnAck(m.env.Now(), from, ack)
	t := m.transfers[d]
	if t == nil {
		return false
	}
	m.advance(t)
	res, ended := d.Result()
	return ended && res.Arrived
}

// Handle takes a part of a transfer at the new home.
func (m *Mover) Handle(from gossip.NodeID, c mover.Chunk) {
	ack, answer, complete := m.core.OnChunk(m.env.Now(), from, c)
	if complete {
		m.env.StatesHeld(region.StateHeld{Shard: c.Shard, Token: c.Token, From: from, Term: c.Term})
	}
	if answer {
		m.env.SendAck(from, ack)
	}
}

// Drop drops the states of a shard that came from a node under a token.
func (m *Mover) Drop(st protocol.ShardToken, from gossip.NodeID) {
	m.core.Drop(allocation(st), from, 0)
}

// Kept returns the states that this process kept of an allocation of its own.
func (m *Mover) Kept(st protocol.ShardToken) Cargo {
	return decodeCargo(m.core.Held(allocation(st)))
}

// Take returns the states that a node has sent for a shard which starts here by order; they are nil
// if there are none.
func (m *Mover) Take(order region.StartShard) Cargo {
	st := protocol.ShardToken{Shard: order.Shard, Token: order.Token}
	return decodeCargo(m.core.Take(allocation(st), order.From, order.Ended))
}

// TakeUndelivered returns how many shards' states only this process holds: it leaves.
func (m *Mover) TakeUndelivered() int { return len(m.core.TakeUndelivered("")) }

func allocation(st protocol.ShardToken) mover.Allocation {
	return mover.Allocation{Shard: st.Shard, Token: st.Token}
}

// Cargo is what moves with a shard.
type Cargo struct {
	// States are those of its entities, nil if there are none.
	States map[int]uint64
	// Memory is what the shard remembers of reliable producers.
	Memory []byte
}

// memoryKey is the key of the memory among the states: no entity has an empty name.
const memoryKey = ""

func encodeCargo(c Cargo) map[string][]byte {
	out := map[string][]byte{}
	for e, version := range c.States { // order-free: into a map
		out[strconv.Itoa(e)] = binary.BigEndian.AppendUint64(nil, version)
	}
	if len(c.Memory) > 0 {
		out[memoryKey] = c.Memory
	}
	return out
}

func decodeCargo(states map[string][]byte) (c Cargo) {
	if states == nil {
		return c
	}
	c.States = map[int]uint64{}
	for id, data := range states { // order-free: into a map
		if id == memoryKey {
			c.Memory = data
			continue
		}
		e, _ := strconv.Atoi(id) // encodeCargo wrote it
		c.States[e] = binary.BigEndian.Uint64(data)
	}
	return c
}
