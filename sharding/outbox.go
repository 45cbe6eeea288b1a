package sharding

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/transport"
)

// outbox sends answers: replies, refusals, answers to markers. Those who produce
// them, connection readers and handlers, must not wait for a slow peer; so what
// finds no room on the connection waits here, bounded, and keeps its order.
type outbox struct {
	links placement.Links
	ctx   context.Context
	work  *sync.WaitGroup
	// lost is told of answers that found no room here either.
	lost func(n int)

	// waiting is the number of peers with something here: the fast path's look.
	waiting atomic.Int32
	mu      sync.Mutex
	peers   map[gossip.NodeID]*backlog
}

type backlog struct {
	frames [][]byte
	bytes  int
}

// backlogBytesMax bounds what waits for one peer.
const backlogBytesMax = 16 << 20

func (o *outbox) transmit(to gossip.NodeID, frame []byte) error {
	return o.links.Send(to, transport.Message, transport.KindEntity, frame)
}

// send sends or keeps a copy of frame, or counts it as lost.
func (o *outbox) send(to gossip.NodeID, frame []byte) {
	if o.waiting.Load() == 0 {
		err := o.transmit(to, frame)
		if err == nil {
			return
		}
		if !errors.Is(err, transport.ErrQueueFull) {
			o.lost(1)
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.peers[to]
	if b == nil {
		if err := o.transmit(to, frame); err == nil {
			return
		} else if !errors.Is(err, transport.ErrQueueFull) {
			o.lost(1)
			return
		}
		b = &backlog{}
		if o.peers == nil {
			o.peers = map[gossip.NodeID]*backlog{}
		}
		o.peers[to] = b
		o.waiting.Add(1)
		o.work.Go(func() { o.drain(to, b) })
	}
	if b.bytes+len(frame) > backlogBytesMax {
		o.lost(1)
		return
	}
	b.bytes += len(frame)
	b.frames = append(b.frames, slices.Clone(frame))
}

// drain sends a backlog as room comes, until it is empty or the peer is gone.
func (o *outbox) drain(to gossip.NodeID, b *backlog) {
	for {
		err := o.links.WaitRoom(o.ctx, to, transport.Message)
		o.mu.Lock()
		for err == nil && len(b.frames) > 0 {
			if err = o.transmit(to, b.frames[0]); err == nil {
				b.bytes -= len(b.frames[0])
				b.frames = b.frames[1:]
			}
		}
		if len(b.frames) == 0 || !errors.Is(err, transport.ErrQueueFull) {
			o.lost(len(b.frames))
			delete(o.peers, to)
			o.waiting.Add(-1)
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
	}
}
