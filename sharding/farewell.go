package sharding

import (
	"context"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
)

// farewells wait, on a node that leaves, until all that it has sent has reached the
// others: its last answers travel on the message connections, the view without it on
// others, and whoever sees that view first fails the asks that were at this node. So a
// marker of no type goes down each message connection behind everything else, and is
// answered by whatever node gets it. Where there is no connection nothing can be under
// way: a node of a large cluster talks to few, and does not dial all others to say so.
type farewells struct {
	mu     sync.Mutex
	number uint64
	// waits are those whose answer is awaited. Invariant: all was made with it, and is
	// closed when it is empty.
	waits map[gossip.NodeID]bool
	all   chan struct{}
}

// farewellPatience bounds the wait: a member that is silent, and not removed yet, must
// not keep a node from leaving in time.
const farewellPatience = 500 * time.Millisecond

// expect begins to wait for nodes, and returns what the markers carry, and what is closed
// at the end. It replaces an earlier wait.
func (f *farewells) expect(nodes []gossip.NodeID) (number uint64, all <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	f.waits, f.all = make(map[gossip.NodeID]bool, len(nodes)), make(chan struct{})
	for _, n := range nodes {
		f.waits[n] = true
	}
	if len(nodes) == 0 {
		close(f.all)
	}
	return f.number, f.all
}

// answered takes an answer.
func (f *farewells) answered(from gossip.NodeID, number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number == f.number {
		f.dropLocked(from)
	}
}

// lost ends the wait for a node that is gone, or whose connection is.
func (f *farewells) lost(node gossip.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(node)
}

func (f *farewells) dropLocked(n gossip.NodeID) {
	if !f.waits[n] {
		return
	}
	if delete(f.waits, n); len(f.waits) == 0 {
		close(f.all)
	}
}

// sayFarewell waits until what this node has sent has reached the other members, they
// are gone, or patience is.
func (s *service) sayFarewell(ctx context.Context) {
	s.mu.Lock()
	var nodes []gossip.NodeID
	if s.view != nil {
		for i := range s.view.Members {
			if id := s.view.Members[i].ID; id != s.cfg.Self.ID && s.cfg.Links.Open(id, transport.Message) {
				nodes = append(nodes, id)
			}
		}
	}
	// With the mutex: who leaves the view from here on ends the wait.
	number, all := s.farewells.expect(nodes)
	s.mu.Unlock()
	for _, id := range nodes {
		s.out.send(id, frames.AppendMarker(nil, frames.KindMarker, "", 0, Token{Seq: number}))
	}
	patience := time.NewTimer(farewellPatience)
	defer patience.Stop()
	select {
	case <-all:
	case <-patience.C:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
}
