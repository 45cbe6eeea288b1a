package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// Links is the part of a transport that routes use.
type Links interface {
	Send(to gossip.NodeID, c transport.Class, k transport.Kind, payload []byte) error
	WaitRoom(ctx context.Context, to gossip.NodeID, c transport.Class) error
}

// Outbox sends answers: replies, refusals, acknowledgements of markers. Their producers, the
// readers of connections and handlers, must not wait for a slow peer. So frames without room on
// the connection wait here, bounded, and keep their order.
type Outbox struct {
	Links Links
	Ctx   context.Context
	Work  *sync.WaitGroup
	// Lost is called with the number of answers that found no room here either.
	Lost func(n int)

	// waiting is the number of peers with frames here, read without the mutex.
	waiting atomic.Int32
	mu      sync.Mutex
	peers   map[gossip.NodeID]*backlog
}

type backlog struct {
	frames [][]byte
	bytes  int
}

// backlogBytesMax bounds the frames that wait for one peer.
const backlogBytesMax = 16 << 20

func (o *Outbox) sendNow(to gossip.NodeID, frame []byte) error {
	return o.Links.Send(to, transport.Message, transport.KindEntity, frame)
}

// Send sends a frame, keeps a copy of it, or counts it as lost.
func (o *Outbox) Send(to gossip.NodeID, frame []byte) {
	if o.waiting.Load() == 0 {
		err := o.sendNow(to, frame)
		if err == nil {
			return
		}
		if !errors.Is(err, transport.ErrQueueFull) {
			o.Lost(1)
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.peers[to]
	if b == nil {
		if err := o.sendNow(to, frame); err == nil {
			return
		} else if !errors.Is(err, transport.ErrQueueFull) {
			o.Lost(1)
			return
		}
		b = &backlog{}
		if o.peers == nil {
			o.peers = map[gossip.NodeID]*backlog{}
		}
		o.peers[to] = b
		o.waiting.Add(1)
		o.Work.Go(func() { o.drainBacklog(to, b) })
	}
	if b.bytes+len(frame) > backlogBytesMax {
		o.Lost(1)
		return
	}
	b.bytes += len(frame)
	b.frames = append(b.frames, slices.Clone(frame))
}

// drainBacklog sends a backlog as room comes, until it is empty or the peer is gone.
func (o *Outbox) drainBacklog(to gossip.NodeID, b *backlog) {
	for {
		err := o.Links.WaitRoom(o.Ctx, to, transport.Message)
		o.mu.Lock()
		for err == nil && len(b.frames) > 0 {
			if err = o.sendNow(to, b.frames[0]); err == nil {
				b.bytes -= len(b.frames[0])
				b.frames = b.frames[1:]
			}
		}
		if len(b.frames) == 0 || !errors.Is(err, transport.ErrQueueFull) {
			o.Lost(len(b.frames))
			delete(o.peers, to)
			o.waiting.Add(-1)
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
	}
}
