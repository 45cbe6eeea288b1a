package endpoint

import (
	"context"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
)

// flushBarrier waits, on a node that leaves, until all frames that it has sent have reached
// the other members. Its last replies travel on the message connections, and the view without
// it on other connections. A node that adopts this view first fails its asks to the leaving
// node. So a marker without a type follows the last frame on each message connection, and its
// receiver acknowledges it. Without a connection no frame is in flight: a node of a large
// cluster has few connections, and does not dial to send a marker.
type flushBarrier struct {
	mu     sync.Mutex
	number uint64
	// waits are the nodes whose acknowledgement is awaited. Invariant: all was made with it,
	// and is closed when it is empty.
	waits map[gossip.NodeID]bool
	all   chan struct{}
}

// FlushTimeout bounds the wait: a silent member that is not removed yet must not keep a node
// from leaving in time.
const FlushTimeout = 500 * time.Millisecond

// beginWait begins to wait for nodes, and returns the number for the markers, and a channel
// that is closed at the end. It replaces an earlier wait.
func (f *flushBarrier) beginWait(nodes []gossip.NodeID) (number uint64, all <-chan struct{}) {
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

// onMarkerAcked handles the acknowledgement of a marker.
func (f *flushBarrier) onMarkerAcked(from gossip.NodeID, number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number == f.number {
		f.dropLocked(from)
	}
}

// onNodeLost ends the wait for a node that has left, or whose connection is lost.
func (f *flushBarrier) onNodeLost(node gossip.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(node)
}

func (f *flushBarrier) dropLocked(n gossip.NodeID) {
	if !f.waits[n] {
		return
	}
	if delete(f.waits, n); len(f.waits) == 0 {
		close(f.all)
	}
}

// BeginFlush begins to wait until all frames that this node has sent have reached the members.
// wait sends the markers, and returns when all have arrived, the other members have left, or
// FlushTimeout is over. A member for which OnMemberGone is called after BeginFlush is not
// awaited.
func (s *Set) BeginFlush(members []gossip.Member) (wait func(context.Context)) {
	var nodes []gossip.NodeID
	for i := range members {
		if id := members[i].ID; id != s.cfg.Self && s.cfg.Links.Open(id, transport.Message) {
			nodes = append(nodes, id)
		}
	}
	number, all := s.flushed.beginWait(nodes)
	return func(ctx context.Context) {
		for _, id := range nodes {
			s.Out.Send(id, frames.AppendMarker(nil, frames.KindMarker, "", 0, protocol.Token{Seq: number}))
		}
		timeout := time.NewTimer(FlushTimeout)
		defer timeout.Stop()
		select {
		case <-all:
		case <-timeout.C:
		case <-ctx.Done():
		case <-s.cfg.Ctx.Done():
		}
	}
}
