package endpoint

import (
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// senderCache holds the Senders of nodes, so that messages from outside entities share one per
// node.
type senderCache [64]atomic.Pointer[activation.Sender]

// senderOf returns the sender of q.
func (c *senderCache) senderOf(from gossip.NodeID, q *frames.Request) *activation.Sender {
	if q.FromType != nil {
		return &activation.Sender{Node: from, Type: string(q.FromType), ID: string(q.FromID)}
	}
	// Two nodes may share a place: then a message makes a Sender now and then.
	place := &c[uint64(from)%uint64(len(c))]
	last := place.Load()
	if last == nil || last.Node != from {
		last = &activation.Sender{Node: from}
		place.Store(last)
	}
	return last
}
