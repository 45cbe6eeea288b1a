// Package statetransfer moves the states of a shard's entities to its next home in a handoff:
//
//	old home: stop the entities, gather their states
//	          send state, state, ..., stateEnd(count)       class Bulk
//	new home: hold them; when all are there, send stateAck
//	old home: stateAck, or time-out -> Stopped, to the coordinator
//
// Then the handoff continues: the record is written, and HostShards starts the shard. So the
// new home has the states before it is asked to start, and never waits. Until the
// acknowledgement, all states are sent again. That is idempotent: they are held by entity id.
//
// Both homes hold the states, and their region cores track them, until the shard runs under a
// later token. So a new coordinator can continue a handoff of its predecessor. If the new home
// dies before it has the states, they go to another one. If it begins to leave, it starts the
// shard all the same, and hands it off.
//
// A state is lost when its shard runs without it. The old home counts states that never
// arrived as lost when it learns that the shard runs, or when it leaves. The new home counts
// states that it held and that its shard did not start with. It cannot learn that the old home
// has sent them elsewhere since, or started the shard itself: then it counts states that are
// not lost. That is rare: the coordinator must have passed over a silent new home.
//
// Rejected: the new home fetches the states when it starts. The shard would be down for
// longer, and the old home would hold states for a node that may never come.
package statetransfer

import (
	"cmp"
	"context"
	"errors"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// resendAfter is how long the old home waits for the acknowledgement before it sends all
// states again.
const resendAfter = 500 * time.Millisecond

// Links is the part of transport.Transport that sends states.
type Links interface {
	Send(to gossip.NodeID, c transport.Class, k transport.Kind, payload []byte) error
	WaitRoom(ctx context.Context, to gossip.NodeID, c transport.Class) error
}

// Config holds the settings of Transfers. All fields must be set.
type Config struct {
	Self  gossip.NodeID
	Links Links
	Log   *slog.Logger
	// Ctx ends all transfers.
	Ctx context.Context
	// SendAck sends an acknowledgement and does not block.
	SendAck func(to gossip.NodeID, frame []byte)
	// StateHeld is called when all states of a shard have come from its former home.
	StateHeld func(typ string, e region.StateHeld)
}

// Transfers are the transfers of one node. All methods are safe for concurrent use.
type Transfers struct {
	cfg        Config
	departures departures
	arrivals   arrivals
}

// New returns Transfers without states.
func New(cfg Config) *Transfers { return &Transfers{cfg: cfg} }

// Counters count the states of one type.
type Counters struct {
	// In counts states that a shard started with, Out those that a new home acknowledged.
	In, Out atomic.Uint64
	// Lost counts states that their shard runs without.
	Lost atomic.Uint64
}

// Type are the transfers of one entity type. All methods are safe for concurrent use.
type Type struct {
	all      *Transfers
	name     string
	counters *Counters
	// isMember reports whether a node is in the view.
	isMember func(gossip.NodeID) bool
}

// Type returns the transfers of a type.
func (t *Transfers) Type(name string, c *Counters, isMember func(gossip.NodeID) bool) *Type {
	return &Type{t, name, c, isMember}
}

// HandleFrame handles the frames of a transfer, on both sides. It keeps nothing of frame.
func (t *Transfers) HandleFrame(from gossip.NodeID, frame []byte) error {
	switch frames.KindOf(frame) {
	case frames.KindState:
		m, id, state, err := frames.ParseState(frame)
		if err != nil {
			return err
		}
		t.arrivals.addState(arrivalKey{string(m.Type), m.Shard, from}, m.Token, string(id), slices.Clone(state))
	case frames.KindStateEnd:
		m, count, err := frames.ParseStateEnd(frame)
		if err != nil {
			return err
		}
		key := arrivalKey{string(m.Type), m.Shard, from}
		if t.arrivals.completeShard(key, m.Token, count) {
			// The region core learns of the states before their former home does, and so
			// before that home reports the shard as stopped.
			t.cfg.StateHeld(key.typ, region.StateHeld{Shard: m.Shard, Token: m.Token, From: from})
			t.cfg.SendAck(from, frames.AppendMarker(nil, frames.KindStateAck, key.typ, m.Shard, m.Token))
		}
	case frames.KindStateAck:
		m, err := frames.ParseMarker(frame)
		if err != nil {
			return err
		}
		t.departures.ackReceived(departure{string(m.Type), m.Shard, m.Token})
	}
	return nil
}

// Send sends the states of a stopped shard to its new home, and returns when they have
// arrived, or cannot arrive within the time. It removes states from st that are too large.
func (t *Type) Send(to gossip.NodeID, st activation.Stopped, within time.Duration) (arrived bool) {
	if len(st.States) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(t.all.cfg.Ctx, within)
	defer cancel()
	name := departure{t.name, st.Shard, st.Token}
	acked := t.all.departures.awaitAck(name)
	defer t.all.departures.dropTransfer(name)
	for {
		err := t.sendStates(ctx, to, st)
		if len(st.States) == 0 {
			// All of them were too large.
			return true
		}
		select {
		case <-acked:
			t.counters.Out.Add(uint64(activation.Travelling(st.States)))
			return true
		case <-ctx.Done():
		case <-time.After(resendAfter):
			if t.isMember(to) {
				continue
			}
			err = transport.ErrUnknownPeer
		}
		t.all.cfg.Log.Warn("sharding: states did not reach the new home", "type", t.name,
			"shard", st.Shard, "to", to, "states", activation.Travelling(st.States), "error", errors.Join(err, ctx.Err()))
		return false
	}
}

func (t *Type) sendStates(ctx context.Context, to gossip.NodeID, st activation.Stopped) error {
	var frame []byte
	for _, id := range slices.Sorted(maps.Keys(st.States)) {
		frame = frames.AppendState(frame[:0], t.name, st.Shard, st.Token, id, st.States[id])
		err := t.sendBulk(ctx, to, frame)
		if errors.Is(err, transport.ErrFrameTooLarge) {
			t.counters.Lost.Add(1)
			t.all.cfg.Log.Error("sharding: state too large to travel", "type", t.name, "entity", id, "bytes", len(st.States[id]))
			delete(st.States, id)
			continue
		}
		if err != nil {
			return err
		}
	}
	return t.sendBulk(ctx, to, frames.AppendStateEnd(frame[:0], t.name, st.Shard, st.Token, len(st.States)))
}

// sendBulk sends a frame, and waits for room until ctx ends.
func (t *Type) sendBulk(ctx context.Context, to gossip.NodeID, frame []byte) error {
	for {
		err := t.all.cfg.Links.Send(to, transport.Bulk, transport.KindEntity, frame)
		if !errors.Is(err, transport.ErrQueueFull) {
			return err
		}
		if err := t.all.cfg.Links.WaitRoom(ctx, to, transport.Bulk); err != nil {
			return err
		}
	}
}

// Hold holds the states of a shard that was stopped here: a new coordinator may find the
// handoff half done, or give the shard another home. arrived is the result of Send.
func (t *Type) Hold(st activation.Stopped, arrived bool) {
	if len(st.States) == 0 {
		return
	}
	if t.all.arrivals.holdShard(t.ownKey(st.Shard), st.Token, st.States, arrived) {
		t.all.cfg.StateHeld(t.name, region.StateHeld{Shard: st.Shard, Token: st.Token, From: t.all.cfg.Self})
	} else if !arrived {
		t.logLoss(st.States, st.Shard, "they did not arrive, and there is no room for them here")
	}
}

// Held returns a copy of the states that Hold holds of an allocation, nil if there are none.
func (t *Type) Held(shard strategy.ShardID, token protocol.Token) map[string][]byte {
	return t.all.arrivals.copyStates(t.ownKey(shard), token)
}

func (t *Type) ownKey(shard strategy.ShardID) arrivalKey {
	return arrivalKey{t.name, shard, t.all.cfg.Self}
}

// Take removes and returns the states with which a shard starts under a token. from is its
// former home.
func (t *Type) Take(shard strategy.ShardID, token protocol.Token, from gossip.NodeID) map[string][]byte {
	states := t.all.arrivals.takeStates(arrivalKey{t.name, shard, from}, token)
	t.counters.In.Add(uint64(activation.Travelling(states)))
	return states
}

// Drop drops states whose shard runs elsewhere, or here without them.
func (t *Type) Drop(e region.DropState) {
	self := t.all.cfg.Self
	got := t.all.arrivals.discard(arrivalKey{t.name, e.Shard, e.From}, e.Token)
	switch {
	case got == nil || e.Home == 0:
	case e.From == self && !got.arrived:
		t.logLoss(got.states, e.Shard, "they reached no other node, and the shard runs on "+e.Home.String())
	case e.From != self && e.Home != e.From:
		t.logLoss(got.states, e.Shard, "they were not needed here, and the shard runs on "+e.Home.String())
	}
}

// CountUndelivered counts the states as lost that only this node holds: it leaves.
func (t *Type) CountUndelivered() {
	lost := t.all.arrivals.takeUndelivered(t.name, t.all.cfg.Self)
	for _, k := range slices.SortedFunc(maps.Keys(lost), func(a, b arrivalKey) int { return cmp.Compare(a.shard, b.shard) }) {
		t.logLoss(lost[k], k.shard, "they reached no other node, and this one leaves")
	}
}

// logLoss counts states that their shard runs without, and logs the reason.
func (t *Type) logLoss(states map[string][]byte, shard strategy.ShardID, why string) {
	n := activation.Travelling(states)
	t.counters.Lost.Add(uint64(n))
	if n > 0 {
		t.all.cfg.Log.Error("sharding: states are lost: "+why, "type", t.name, "shard", shard, "states", n)
	}
}
