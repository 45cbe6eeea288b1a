package statemove

import (
	"maps"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/transport"
)

// home is the Env of one of two processes, whose timers fire when the test says so.
type home struct {
	mover, peer *Mover
	full, gone  bool
	// lose frames from the first on.
	lose   int
	timers map[time.Duration][]func()
	held   []protocol.ShardToken
	sent   []bool
}

func (h *home) SendState(_ gossip.NodeID, f *Frame) error {
	switch {
	case h.full:
		return transport.ErrQueueFull
	case h.lose > 0:
		h.lose--
	default:
		h.peer.Handle(h.mover.self, f)
	}
	return nil
}

func (h *home) AckStates(_ gossip.NodeID, st protocol.ShardToken) { h.peer.OnAck(st) }
func (h *home) Present(gossip.NodeID) bool                        { return !h.gone }
func (h *home) Later(d time.Duration, do func())                  { h.timers[d] = append(h.timers[d], do) }

func (h *home) StatesHeld(st protocol.ShardToken, _ gossip.NodeID) { h.held = append(h.held, st) }
func (h *home) StatesSent(_ protocol.ShardToken, arrived bool)     { h.sent = append(h.sent, arrived) }

// fire calls the timers of a duration.
func (h *home) fire(d time.Duration) {
	due := h.timers[d]
	h.timers[d] = nil
	for _, do := range due {
		do()
	}
}

func newHomes() (from, to *home) {
	from, to = &home{timers: map[time.Duration][]func(){}}, &home{timers: map[time.Duration][]func(){}}
	from.mover, to.mover = New(1, from), New(2, to)
	from.peer, to.peer = to.mover, from.mover
	return from, to
}

func allocation(n uint64) protocol.ShardToken {
	return protocol.ShardToken{Shard: 3, Token: protocol.Token{Term: 1, Seq: n}}
}

const within = time.Minute

func TestStatesArriveOnce(t *testing.T) {
	from, to := newHomes()
	states := map[int]uint64{1: 11, 4: 44}
	from.mover.Send(allocation(1), 2, states, within)
	if len(from.sent) != 1 || !from.sent[0] || len(to.held) != 1 || len(from.held) != 1 {
		t.Fatalf("sent %v, held there %v, here %v", from.sent, to.held, from.held)
	}
	if got := from.mover.Kept(allocation(1)); !maps.Equal(got, states) {
		t.Errorf("the old home keeps %v", got)
	}
	if got := to.mover.Take(allocation(2), 1); !maps.Equal(got, states) {
		t.Errorf("the shard starts with %v", got)
	}
	if got := to.mover.Take(allocation(3), 1); got != nil {
		t.Errorf("it starts again with %v", got)
	}
	from.mover.Drop(allocation(1), 1)
	if got := from.mover.Kept(allocation(1)); got != nil {
		t.Errorf("the old home keeps %v after Drop", got)
	}
}

// Two frames are lost, then the connection is full: all states are sent again.
func TestStatesAreSentUntilAcknowledged(t *testing.T) {
	from, to := newHomes()
	from.lose = 2
	from.mover.Send(allocation(1), 2, map[int]uint64{1: 11, 4: 44}, within)
	if len(from.sent) > 0 || to.mover.Take(allocation(2), 1) != nil {
		t.Fatal("half of the states have arrived")
	}
	from.full = true
	from.fire(resendEvery)
	from.full = false
	from.fire(retryEvery)
	if len(from.sent) != 1 || !from.sent[0] || len(to.mover.Take(allocation(2), 1)) != 2 {
		t.Errorf("sent %v", from.sent)
	}
}

func TestATransferEndsWithoutItsNewHome(t *testing.T) {
	for name, end := range map[string]func(*home){
		"the new home has left": func(h *home) { h.gone = true; h.fire(resendEvery) },
		"no time is left":       func(h *home) { h.fire(within) },
	} {
		t.Run(name, func(t *testing.T) {
			from, _ := newHomes()
			from.lose = 100
			from.mover.Send(allocation(1), 2, map[int]uint64{1: 11}, within)
			end(from)
			if len(from.sent) != 1 || from.sent[0] || from.mover.Kept(allocation(1)) == nil {
				t.Errorf("sent %v, kept %v", from.sent, from.mover.Kept(allocation(1)))
			}
		})
	}
}

// An older state does not replace a newer one.
func TestStatesOfALaterTokenStay(t *testing.T) {
	if got := takeOlderState(); got != nil {
		t.Errorf("the shard starts with %v", got)
	}
}

// takeOlderState takes the states of a later allocation than the one that arrived.
func takeOlderState() map[int]uint64 {
	from, to := newHomes()
	from.mover.Send(allocation(5), 2, map[int]uint64{1: 55}, within)
	to.mover.Handle(1, &Frame{Shard: 3, Token: allocation(4).Token, Entity: 1, Version: 44})
	return to.mover.Take(allocation(5), 1)
}
