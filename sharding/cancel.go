package sharding

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// cancels are the asks of other nodes whose askers have given up: they wait in
// mailboxes here and need not be handled. An ask that was handled before the news
// came stays in until cancelsMax later ones have pushed it out; that costs memory,
// never an answer, since numbers of asks are not used twice. An ask that was pushed
// out too early is handled for nobody.
type cancels struct {
	// known is the fast path's look.
	known atomic.Int32
	mu    sync.Mutex
	asks  map[activation.ReplyTo]struct{}
	// ring holds the newest in the order in which they came; next is the oldest.
	ring []activation.ReplyTo
	next int
}

const cancelsMax = 4096

func (c *cancels) add(a activation.ReplyTo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == nil {
		c.asks = map[activation.ReplyTo]struct{}{}
	}
	if len(c.ring) < cancelsMax {
		c.ring = append(c.ring, a)
	} else {
		delete(c.asks, c.ring[c.next])
		c.ring[c.next] = a
		c.next = (c.next + 1) % cancelsMax
	}
	c.asks[a] = struct{}{}
	c.known.Store(int32(len(c.asks)))
}

// take reports whether an ask was called off, and forgets it.
func (c *cancels) take(a activation.ReplyTo) bool {
	if c.known.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.asks[a]
	delete(c.asks, a)
	c.known.Store(int32(len(c.asks)))
	return ok
}

// callOff tells the home of an ask that its asker has given up. A deadline needs no
// telling, it has travelled with the ask. The news may be lost: then the ask is
// handled for nobody.
func (p *path[Req, Resp]) callOff(at gossip.NodeID, call uint64, why error) {
	inc := p.now.Load()
	if inc == nil || at == 0 || at == inc.self || !errors.Is(why, context.Canceled) {
		return
	}
	_ = inc.send(at, frames.AppendCancel(nil, p.name, call))
}

// cancelled takes that news.
func (p *path[Req, Resp]) cancelled(from gossip.NodeID, call uint64) {
	p.gone.add(activation.ReplyTo{Node: from, Call: call})
}
