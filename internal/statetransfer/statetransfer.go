// Package statetransfer is the shell of the core internal/core/mover: it sends the states of a
// shard's entities to its next home in a handoff, and holds those that come from former homes.
//
// A Send runs on the goroutine of its caller. It sends the chunks that the core returns, waits
// for room in the connection, for acknowledgements and for the deadlines of the core.
package statetransfer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Links is the part of transport.Transport that sends states.
type Links interface {
	Send(to gossip.NodeID, c transport.Class, k transport.Kind, payload []byte) error
	WaitRoom(ctx context.Context, to gossip.NodeID, c transport.Class) error
}

// Config holds the settings of Transfers. All fields must be set.
type Config struct {
	Self  gossip.NodeID
	Clock clock.Clock
	Links Links
	Log   *slog.Logger
	// Ctx ends all transfers.
	Ctx context.Context
	// SendAck sends an acknowledgement and does not block.
	SendAck func(to gossip.NodeID, frame []byte)
	// StateHeld is called when all states of a shard have come from its former home, when those
	// of a shard that was stopped here are held here, and when the next home has them alone.
	StateHeld func(typ string, e region.StateHeld)
}

// Transfers are the transfers of one node. All methods are safe for concurrent use.
type Transfers struct {
	cfg Config

	// mu guards the core and its departures.
	mu   sync.Mutex
	core *mover.Core
	// wakes wake the goroutines of the transfers that are sent here.
	wakes map[*mover.Departure]signal.Wake
}

// New returns Transfers without states.
func New(cfg Config) *Transfers {
	return &Transfers{cfg: cfg, core: mover.New(mover.Config{Self: cfg.Self}), wakes: map[*mover.Departure]signal.Wake{}}
}

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
		c, err := mover.DecodeChunk(frame[1:])
		if err != nil {
			return err
		}
		t.mu.Lock()
		ack, answer, complete := t.core.OnChunk(t.cfg.Clock.Now(), from, c)
		t.mu.Unlock()
		if complete {
			t.cfg.StateHeld(c.Type, region.StateHeld{Shard: c.Shard, Token: c.Token, From: from, Term: c.Term})
		}
		if answer {
			t.cfg.SendAck(from, mover.AppendAck([]byte{byte(frames.KindStateAck)}, ack))
		}
	case frames.KindStateAck:
		ack, err := mover.DecodeAck(frame[1:])
		if err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if d := t.core.OnAck(t.cfg.Clock.Now(), from, ack); d != nil {
			t.wakes[d].Set()
		}
	}
	return nil
}

// beginTransfer begins a transfer, and returns the Wake that is set when it advances.
func (t *Transfers) beginTransfer(a mover.Allocation, o mover.Order, states map[string][]byte) (*mover.Departure, signal.Wake) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.core.Begin(t.cfg.Clock.Now(), a, o, states)
	wake := signal.NewWake()
	t.wakes[d] = wake
	return d, wake
}

// nextChunk returns the next chunk of a transfer, or how long to wait for one.
func (t *Transfers) nextChunk(d *mover.Departure, isMember bool) (c mover.Chunk, ok bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.cfg.Clock.Now()
	if c, ok = d.Next(now, isMember); ok {
		return c, true, 0
	}
	return c, false, clock.Ahead(d.Deadline().Sub(now))
}

func (t *Transfers) takeBack(d *mover.Departure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.TakeBack()
}

// endTransfer returns the result of a transfer that has ended, with the number of its entities'
// states. A transfer ends when the node does.
func (t *Transfers) endTransfer(d *mover.Departure) (res mover.Result, n int, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cfg.Ctx.Err() != nil {
		d.Cancel()
	}
	if res, ended = d.Result(); ended {
		delete(t.wakes, d)
	}
	return res, activation.Travelling(res.States), ended
}

// Send sends the states of a shard that was stopped by order to its new home, and returns when
// they have arrived, or cannot arrive within the order's time. Afterwards the states are held
// here, too. States that are too large for any connection are lost.
func (t *Type) Send(order region.StopShard, st activation.Stopped) {
	if len(st.States) == 0 {
		return
	}
	to := order.To
	d, wake := t.all.beginTransfer(t.allocation(st.Shard, st.Token), mover.Order{To: to, Term: order.Term, Within: order.Within}, st.States)
	timer := time.AfterFunc(order.Within, wake.Set)
	defer timer.Stop()
	var frame []byte
	var failed error
	for {
		c, ok, wait := t.all.nextChunk(d, t.isMember(to))
		if !ok {
			if res, n, ended := t.all.endTransfer(d); ended {
				t.noteResult(order, st, res, n, failed)
				return
			}
			timer.Reset(wait)
			select {
			case <-wake:
			case <-t.all.cfg.Ctx.Done():
			}
			continue
		}
		frame = mover.AppendChunk(append(frame[:0], byte(frames.KindState)), c)
		switch err := t.all.cfg.Links.Send(to, transport.Bulk, transport.KindEntity, frame); {
		case errors.Is(err, transport.ErrQueueFull):
			t.all.takeBack(d)
			failed = t.waitRoom(to, order.Within)
		case errors.Is(err, transport.ErrFrameTooLarge):
			t.onTooLarge(d)
		default:
			// The core retransmits what was not sent.
			failed = err
		}
	}
}

// waitRoom waits for room in the connection.
func (t *Type) waitRoom(to gossip.NodeID, within time.Duration) error {
	ctx, cancel := context.WithTimeout(t.all.cfg.Ctx, within)
	defer cancel()
	return t.all.cfg.Links.WaitRoom(ctx, to, transport.Bulk)
}

func (t *Type) onTooLarge(d *mover.Departure) {
	t.all.mu.Lock()
	removed, ok := d.OnTooLarge()
	t.all.mu.Unlock()
	if ok {
		t.counters.Lost.Add(1)
		t.all.cfg.Log.Error("sharding: state too large to travel; the entity begins without it; make the snapshot smaller", "type", t.name, "entity", removed.ID, "bytes", len(removed.Data))
	}
}

// noteResult counts and reports the states of a transfer that has ended.
func (t *Type) noteResult(order region.StopShard, st activation.Stopped, res mover.Result, n int, err error) {
	if res.Arrived {
		t.counters.Out.Add(uint64(n))
	} else {
		t.all.cfg.Log.Warn("sharding: states did not reach the new home", "type", t.name,
			"shard", st.Shard, "to", order.To, "states", n, "error", err)
	}
	at := gossip.NodeID(0)
	if res.Arrived && !res.Held {
		at = order.To
	}
	t.noteHeld(region.StateHeld{Shard: st.Shard, Token: st.Token, From: t.all.cfg.Self, Term: order.Term, At: at}, res.Held, res.States)
}

// noteHeld reports states that are held here or at another node, or counts them as lost.
func (t *Type) noteHeld(e region.StateHeld, held bool, states map[string][]byte) {
	if !held && e.At == 0 {
		t.logLoss(states, e.Shard, "they did not arrive, and there is no room for them here")
		return
	}
	t.all.cfg.StateHeld(t.name, e)
}

// Hold holds the states of a shard that was stopped here in a term, and that starts here again,
// or nowhere yet.
func (t *Type) Hold(term gossip.Epoch, st activation.Stopped) {
	if len(st.States) == 0 {
		return
	}
	t.all.mu.Lock()
	held := t.all.core.Hold(t.allocation(st.Shard, st.Token), st.States, false)
	t.all.mu.Unlock()
	t.noteHeld(region.StateHeld{Shard: st.Shard, Token: st.Token, From: t.all.cfg.Self, Term: term}, held, st.States)
}

// Held returns a copy of the states of an allocation that was stopped here, nil if there are
// none.
func (t *Type) Held(shard strategy.ShardID, token protocol.Token) map[string][]byte {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return t.all.core.Held(t.allocation(shard, token))
}

func (t *Type) allocation(shard strategy.ShardID, token protocol.Token) mover.Allocation {
	return mover.Allocation{Type: t.name, Shard: shard, Token: token}
}

// Take removes and returns the states with which a shard starts by order.
func (t *Type) Take(order region.StartShard) map[string][]byte {
	t.all.mu.Lock()
	states := t.all.core.Take(t.allocation(order.Shard, order.Token), order.From, order.Ended)
	t.all.mu.Unlock()
	t.counters.In.Add(uint64(activation.Travelling(states)))
	return states
}

// Drop drops states whose shard runs elsewhere, or here without them.
func (t *Type) Drop(e region.DropState) {
	t.all.mu.Lock()
	states, why := t.all.core.Drop(t.allocation(e.Shard, e.Token), e.From, e.Home)
	t.all.mu.Unlock()
	switch why {
	case mover.NotSent:
		t.logLoss(states, e.Shard, "they reached no other node, and the shard runs on "+e.Home.String())
	case mover.NotNeeded:
		t.logLoss(states, e.Shard, "they were not needed here, and the shard runs on "+e.Home.String())
	}
}

// CountUndelivered counts the states as lost that only this node holds: it leaves.
func (t *Type) CountUndelivered() {
	t.all.mu.Lock()
	lost := t.all.core.TakeUndelivered(t.name)
	t.all.mu.Unlock()
	for _, shard := range slices.SortedFunc(maps.Keys(lost), cmp.Compare) {
		t.logLoss(lost[shard], shard, "they reached no other node, and this one leaves")
	}
}

// logLoss counts states that their shard runs without, and logs the reason.
func (t *Type) logLoss(states map[string][]byte, shard strategy.ShardID, why string) {
	n := activation.Travelling(states)
	t.counters.Lost.Add(uint64(n))
	if n > 0 {
		t.all.cfg.Log.Error("sharding: states are lost; their entities begin without them; keep the logs of both homes", "why", why, "type", t.name, "shard", shard, "states", n)
	}
}
