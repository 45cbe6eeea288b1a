// Package statemove moves the states of entities from one simulated process to another, as
// internal/statetransfer does.
//
// The old home sends the states of a stopped shard, and retransmits all of them until the new
// home acknowledges them. Only then does it report the shard as stopped. Both homes keep the
// states until the shard runs under a later token. A state is a version: the hash of the
// messages that its entity has handled.
package statemove

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
)

// Frame is one state, or the end of a shard's states with their count.
type Frame struct {
	Shard   protocol.ShardID
	Token   protocol.Token
	Entity  int
	Version uint64
	End     bool
	Count   int
}

// Env is the process around a Mover. Later calls do after d, unless the process has ended.
type Env interface {
	SendState(to gossip.NodeID, f *Frame) error
	AckStates(to gossip.NodeID, st protocol.ShardToken)
	Later(d time.Duration, do func())
	// Present reports whether a node is in the view.
	Present(gossip.NodeID) bool
	// StatesHeld reports that the states of a shard wait here, StatesSent that a transfer has
	// ended: the new home has all states, or never will.
	StatesHeld(st protocol.ShardToken, from gossip.NodeID)
	StatesSent(st protocol.ShardToken, arrived bool)
}

// Mover has the states of one entity type that a process sends and receives.
type Mover struct {
	self       gossip.NodeID
	env        Env
	arrivals   map[arrivalKey]*arrival
	departures map[protocol.ShardToken]*departure
}

type arrivalKey struct {
	shard protocol.ShardID
	from  gossip.NodeID
}

// arrival are the states of a shard that wait for it to be started here.
type arrival struct {
	token    protocol.Token
	states   map[int]uint64
	complete bool
}

// departure is a transfer on the side of the old home.
type departure struct {
	to     gossip.NodeID
	st     protocol.ShardToken
	states map[int]uint64
}

// The intervals of retransmissions, and of attempts to send when a connection is full.
const (
	resendEvery = 500 * time.Millisecond
	retryEvery  = 5 * time.Millisecond
)

// New returns a Mover.
func New(self gossip.NodeID, env Env) *Mover {
	return &Mover{self: self, env: env, arrivals: map[arrivalKey]*arrival{}, departures: map[protocol.ShardToken]*departure{}}
}

// Send sends the states of a stopped shard to its new home within a time, and keeps a copy.
// It calls StatesSent when that has ended.
func (m *Mover) Send(st protocol.ShardToken, to gossip.NodeID, states map[int]uint64, within time.Duration) {
	if len(states) == 0 {
		m.keepCopy(st, states, true)
		return
	}
	d := &departure{to, st, states}
	m.departures[st] = d
	m.env.Later(within, func() { m.finishSend(d, false) })
	m.sendAll(d)
}

func (m *Mover) keepCopy(st protocol.ShardToken, states map[int]uint64, arrived bool) {
	if len(states) > 0 {
		m.arrivals[arrivalKey{st.Shard, m.self}] = &arrival{st.Token, states, true}
		m.env.StatesHeld(st, m.self)
	}
	m.env.StatesSent(st, arrived)
}

func (m *Mover) finishSend(d *departure, arrived bool) {
	if m.departures[d.st] == d {
		delete(m.departures, d.st)
		m.keepCopy(d.st, d.states, arrived)
	}
}

// sendAll sends all states of a transfer, and again while nothing is acknowledged.
func (m *Mover) sendAll(d *departure) {
	m.env.Later(resendEvery, func() {
		switch {
		case m.departures[d.st] != d:
		case !m.env.Present(d.to):
			m.finishSend(d, false)
		default:
			m.sendAll(d)
		}
	})
	frames := make([]*Frame, 0, len(d.states)+1)
	for _, e := range slices.Sorted(maps.Keys(d.states)) {
		frames = append(frames, &Frame{Shard: d.st.Shard, Token: d.st.Token, Entity: e, Version: d.states[e]})
	}
	m.sendFrames(d, append(frames, &Frame{Shard: d.st.Shard, Token: d.st.Token, End: true, Count: len(d.states)}))
}

// sendFrames waits for room where there is none.
func (m *Mover) sendFrames(d *departure, frames []*Frame) {
	for i, f := range frames {
		err := m.env.SendState(d.to, f)
		if errors.Is(err, transport.ErrQueueFull) {
			m.env.Later(retryEvery, func() {
				if m.departures[d.st] == d {
					m.sendFrames(d, frames[i:])
				}
			})
			return
		}
		if err != nil {
			return
		}
	}
}

// OnAck takes the acknowledgement of a transfer, and reports whether it was under way.
func (m *Mover) OnAck(st protocol.ShardToken) bool {
	d := m.departures[st]
	if d != nil {
		m.finishSend(d, true)
	}
	return d != nil
}

// Handle takes a part of a transfer at the new home.
func (m *Mover) Handle(from gossip.NodeID, f *Frame) {
	key := arrivalKey{f.Shard, from}
	got := m.arrivals[key]
	if !f.End {
		if got == nil || got.token.Less(f.Token) {
			got = &arrival{token: f.Token, states: map[int]uint64{}}
			m.arrivals[key] = got
		}
		if got.token == f.Token {
			got.states[f.Entity] = f.Version
		}
		return
	}
	if got == nil || got.token != f.Token || len(got.states) != f.Count {
		return
	}
	got.complete = true
	st := protocol.ShardToken{Shard: f.Shard, Token: f.Token}
	m.env.StatesHeld(st, from)
	m.env.AckStates(from, st)
}

// Drop drops the states of a shard that came from a node under a token.
func (m *Mover) Drop(st protocol.ShardToken, from gossip.NodeID) {
	key := arrivalKey{st.Shard, from}
	if got := m.arrivals[key]; got != nil && got.token == st.Token {
		delete(m.arrivals, key)
	}
}

// Kept returns the states that this process kept of an allocation of its own.
func (m *Mover) Kept(st protocol.ShardToken) map[int]uint64 {
	if got := m.arrivals[arrivalKey{st.Shard, m.self}]; got != nil && got.token == st.Token {
		return got.states
	}
	return nil
}

// Take returns the states that a node has sent for a shard which starts here under a token, nil
// if there are none.
func (m *Mover) Take(st protocol.ShardToken, from gossip.NodeID) map[int]uint64 {
	key := arrivalKey{st.Shard, from}
	got := m.arrivals[key]
	delete(m.arrivals, key)
	if got == nil || !got.complete || !got.token.Less(st.Token) {
		return nil
	}
	return maps.Clone(got.states)
}
