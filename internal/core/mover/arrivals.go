package mover

import (
	"maps"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/chunks"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// arrivalKey names the states of a shard that came from its former home.
type arrivalKey struct {
	typ   string
	shard protocol.ShardID
	from  gossip.NodeID
}

// arrival has states that wait for their shard to be started here, or elsewhere.
type arrival struct {
	token    protocol.Token
	attempt  uint64
	states   map[string][]byte
	receiver chunks.Receiver
	// room is what it takes of the bound: all of its transfer while that is not complete.
	room     int
	complete bool
	// arrived is set at the old home once the new one has the states.
	arrived bool
	// partAt is when the newest chunk came.
	partAt clock.Instant
}

// arrivals has the states that wait here.
//
// Invariant: bytes is the sum of room over all.
type arrivals struct {
	cfg   Config
	all   map[arrivalKey]*arrival
	bytes int
	summer
}

// OnChunk handles a chunk at the new home. If answer is set, ack must be sent to the old home.
// complete is set when all states of the shard have come: the caller reports that to the region
// core before it sends ack, so that the core learns of the states before the old home reports
// the shard as stopped.
func (h *arrivals) OnChunk(now clock.Instant, from gossip.NodeID, m Chunk) (ack Ack, answer, complete bool) {
	ack = Ack{Allocation: m.Allocation, Attempt: m.Attempt}
	key := arrivalKey{m.Type, m.Shard, from}
	got := h.all[key]
	if got != nil && (m.Token.Less(got.token) || m.Token == got.token && m.Attempt < got.attempt) {
		return ack, false, false
	}
	if got != nil && got.token == m.Token && got.complete {
		ack.Complete = true
		return ack, true, false
	}
	if got == nil || got.token != m.Token || got.attempt != m.Attempt {
		if got = h.admitFirst(now, key, m); got == nil {
			ack.Restart = true
			return ack, true, false
		}
	}
	switch got.receiver.Accept(m.Head, sizeOf(m.States), func(before chunks.Sum) chunks.Sum { return h.sumStates(before, m.States) }) {
	case chunks.Rejected:
		h.dropArrival(key)
		ack.Restart = true
		return ack, true, false
	case chunks.Accepted:
		got.partAt = now
		for _, st := range m.States {
			got.states[st.ID] = st.Data
		}
		if got.complete = got.receiver.IsComplete(); got.complete {
			h.setRoom(got, int(got.receiver.Bytes()))
		}
	}
	ack.Next, ack.Complete = got.receiver.Next(), got.complete
	return ack, true, got.complete
}

// admitFirst makes room for a transfer whose first chunk has come. It returns nil if there is
// none, or if the chunk is not the first one. States of a newer allocation, or attempt, replace
// those of an older one.
func (h *arrivals) admitFirst(now clock.Instant, key arrivalKey, m Chunk) *arrival {
	if m.Number != 0 {
		return nil
	}
	h.dropPartial(now)
	h.dropArrival(key)
	if m.Total > uint64(h.cfg.HeldBytesMax-h.bytes) {
		return nil
	}
	got := &arrival{token: m.Token, attempt: m.Attempt, states: make(map[string][]byte, len(m.States)), partAt: now}
	h.all[key] = got
	h.setRoom(got, int(m.Total))
	return got
}

// dropPartial drops transfers that were abandoned half way. The region core drops whole ones
// (region.DropState).
func (h *arrivals) dropPartial(now clock.Instant) {
	for k, got := range h.all { // order-free: deletes
		if !got.complete && now.Sub(got.partAt) > h.cfg.PartialMax {
			h.dropArrival(k)
		}
	}
}

// Hold holds the states of a shard that was stopped here, or reports that there is no room.
// arrived is set if another node has them, too.
func (h *arrivals) Hold(a Allocation, states map[string][]byte, arrived bool) bool {
	key := arrivalKey{a.Type, a.Shard, h.cfg.Self}
	h.dropArrival(key)
	got := &arrival{token: a.Token, states: states, complete: true, arrived: arrived}
	room := 0
	for id, data := range states { // order-free: a sum
		room += costOf(id, data)
	}
	if room > h.cfg.HeldBytesMax-h.bytes {
		return false
	}
	h.all[key] = got
	h.setRoom(got, room)
	return true
}

// Held returns a copy of the states that Hold holds of an allocation, nil if there are none.
func (h *arrivals) Held(a Allocation) map[string][]byte {
	if got := h.all[arrivalKey{a.Type, a.Shard, h.cfg.Self}]; got != nil && got.token == a.Token {
		return maps.Clone(got.states)
	}
	return nil
}

// Take removes and returns the states with which a shard starts under an allocation: those with
// which it ended under the token ended at its former home, from. States of other allocations of
// that home are older, since the move that brought them was undone. Take drops them.
func (h *arrivals) Take(a Allocation, from gossip.NodeID, ended protocol.Token) map[string][]byte {
	key := arrivalKey{a.Type, a.Shard, from}
	got := h.all[key]
	h.dropArrival(key)
	if got == nil || !got.complete || got.token != ended || !ended.Less(a.Token) {
		return nil
	}
	return got.states
}

// Loss is why states are lost.
type Loss uint8

const (
	// NotLost: another node has the states, or had them.
	NotLost Loss = iota
	// NotSent: the states reached no other node, and their shard runs elsewhere.
	NotSent
	// NotNeeded: the states came here, and their shard runs without them.
	NotNeeded
)

// Drop drops the states of an allocation, from a former home: their shard runs on home, zero if
// that is not certain. It returns them if they are lost.
func (h *arrivals) Drop(a Allocation, from, home gossip.NodeID) (states map[string][]byte, why Loss) {
	key := arrivalKey{a.Type, a.Shard, from}
	got := h.all[key]
	if got == nil || got.token != a.Token {
		return nil, NotLost
	}
	h.dropArrival(key)
	switch {
	case home == 0:
		return nil, NotLost
	case from == h.cfg.Self && !got.arrived:
		return got.states, NotSent
	case from != h.cfg.Self && home != from:
		return got.states, NotNeeded
	}
	return nil, NotLost
}

// TakeUndelivered returns the states of a type that were stopped here and reached no other node,
// by shard. It marks them, so that they are counted as lost only once.
func (h *arrivals) TakeUndelivered(typ string) map[protocol.ShardID]map[string][]byte {
	out := map[protocol.ShardID]map[string][]byte{}
	for k, got := range h.all { // order-free: into a map
		if k.typ == typ && k.from == h.cfg.Self && !got.arrived {
			got.arrived = true
			out[k.shard] = got.states
		}
	}
	return out
}

func (h *arrivals) setRoom(got *arrival, room int) {
	h.bytes += room - got.room
	got.room = room
}

func (h *arrivals) dropArrival(k arrivalKey) {
	if got := h.all[k]; got != nil {
		h.bytes -= got.room
		delete(h.all, k)
	}
}
