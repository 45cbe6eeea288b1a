package statemove

import (
	"maps"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/transport"
)

// home is the Env of one of two processes, whose timers fire when the test says so.
type home struct {
	mover, peer *Mover
	now         clock.Instant
	full, gone  bool
	// lose frames from the first on.
	lose   int
	timers []timer
	held   []region.StateHeld
	sent   []bool
}

type timer struct {
	at clock.Instant
	do func()
}

func (h *home) Now() clock.Instant { return h.now }

func (h *home) SendChunk(_ gossip.NodeID, c mover.Chunk) error {
	switch {
	case h.full:
		return transport.ErrQueueFull
	case h.lose > 0:
		h.lose--
	default:
		h.peer.Handle(h.mover.self, c)
	}
	return nil
}

func (h *home) SendAck(_ gossip.NodeID, ack mover.Ack) { h.peer.OnAck(h.mover.self, ack) }
func (h *home) Present(gossip.NodeID) bool             { return !h.gone }
func (h *home) Later(d time.Duration, do func()) {
	h.timers = append(h.timers, timer{h.now.Add(d), do})
}

func (h *home) StatesHeld(ev region.StateHeld)                 { h.held = append(h.held, ev) }
func (h *home) StatesSent(_ protocol.ShardToken, arrived bool) { h.sent = append(h.sent, arrived) }

// pass lets time pass, and fires the timers that are due.
func (h *home) pass(d time.Duration) {
	h.now = h.now.Add(d)
	due := h.timers
	h.timers = nil
	for _, t := range due {
		if h.now.Before(t.at) {
			h.timers = append(h.timers, t)
		} else {
			t.do()
		}
	}
}

func newHomes() (from, to *home) {
	from, to = &home{now: 1}, &home{now: 1}
	from.mover, to.mover = New(1, from, Room{}), New(2, to, Room{})
	from.peer, to.peer = to.mover, from.mover
	return from, to
}

func allocated(n uint64) protocol.ShardToken {
	return protocol.ShardToken{Shard: 3, Token: protocol.Token{Term: 1, Seq: n}}
}

const (
	within = time.Minute
	resend = 500 * time.Millisecond
)

// stopOrder orders node 1 to stop an allocation and to send its states to node 2.
func stopOrder(n uint64) region.StopShard {
	st := allocated(n)
	return region.StopShard{Shard: st.Shard, Token: st.Token, To: 2, Term: 7, Within: within}
}

// startOrder orders node 2 to start an allocation with the states of the first one at node 1.
func startOrder(n uint64) region.StartShard {
	st := allocated(n)
	return region.StartShard{Shard: st.Shard, Token: st.Token, From: 1, Ended: allocated(1).Token}
}

// states take several chunks.
var states = map[int]uint64{1: 11, 4: 44, 7: 77, 10: 10, 13: 13}

var cargo = Cargo{States: states, Memory: []byte("memory")}

func TestStatesArriveOnce(t *testing.T) {
	from, to := newHomes()
	from.mover.Send(stopOrder(1), cargo)
	if len(from.sent) != 1 || !from.sent[0] || len(to.held) != 1 || len(from.held) != 1 {
		t.Fatalf("sent %v, held there %v, here %v", from.sent, to.held, from.held)
	}
	if to.held[0].Term != 7 || to.held[0].From != 1 || from.held[0].Term != 7 {
		t.Errorf("held there %+v, here %+v", to.held[0], from.held[0])
	}
	if got := from.mover.Kept(allocated(1)); !maps.Equal(got.States, states) || string(got.Memory) != "memory" {
		t.Errorf("the old home keeps %v", got)
	}
	if got := to.mover.Take(startOrder(2)); !maps.Equal(got.States, states) || string(got.Memory) != "memory" {
		t.Errorf("the shard starts with %v", got)
	}
	if got := to.mover.Take(startOrder(3)); got.States != nil {
		t.Errorf("it starts again with %v", got)
	}
	from.mover.Drop(allocated(1), 1)
	if got := from.mover.Kept(allocated(1)); got.States != nil {
		t.Errorf("the old home keeps %v after Drop", got)
	}
}

// Two frames are lost, then the connection is full: they are sent again.
func TestStatesAreSentUntilAcknowledged(t *testing.T) {
	from, to := newHomes()
	from.lose = 2
	from.mover.Send(stopOrder(1), cargo)
	if len(from.sent) > 0 || to.mover.Take(startOrder(2)).States != nil {
		t.Fatal("half of the states have arrived")
	}
	from.full = true
	from.pass(resend)
	from.full = false
	from.pass(retryEvery)
	if len(from.sent) != 1 || !from.sent[0] || !maps.Equal(to.mover.Take(startOrder(2)).States, states) {
		t.Errorf("sent %v", from.sent)
	}
}

func TestATransferEndsWithoutItsNewHome(t *testing.T) {
	for name, end := range map[string]func(*home){
		"the new home has left": func(h *home) { h.gone = true; h.pass(resend) },
		"no time is left":       func(h *home) { h.pass(within) },
	} {
		t.Run(name, func(t *testing.T) {
			from, _ := newHomes()
			from.lose = 100
			from.mover.Send(stopOrder(1), cargo)
			end(from)
			if len(from.sent) != 1 || from.sent[0] || from.mover.Kept(allocated(1)).States == nil {
				t.Errorf("sent %v, kept %v", from.sent, from.mover.Kept(allocated(1)))
			}
		})
	}
}
