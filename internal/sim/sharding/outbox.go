package sharding

import (
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/transport"
)

// outbox holds answers, by destination, until the connections have room for them.
type outbox struct {
	m       *base
	answers map[gossip.NodeID][]Frame
}

// sendNow queues a frame on the message connection.
func (o *outbox) sendNow(to gossip.NodeID, f Frame) error {
	return o.m.p.Net.Send(to, transport.Message, network.Frame{Kind: transport.KindEntity, Msg: f})
}

// sendInOrder sends a frame, or holds it until the connection has room.
func (o *outbox) sendInOrder(to gossip.NodeID, f Frame) {
	o.answers[to] = append(o.answers[to], f)
	if len(o.answers[to]) == 1 {
		o.flushTo(to)
	}
}

// flushTo sends what waits for a destination, as far as there is room.
func (o *outbox) flushTo(to gossip.NodeID) {
	for o.m.site.on && len(o.answers[to]) > 0 {
		if errors.Is(o.sendNow(to, o.answers[to][0]), transport.ErrQueueFull) {
			o.m.p.Later(5*time.Millisecond, func() { o.flushTo(to) })
			return
		}
		o.answers[to] = o.answers[to][1:]
	}
}
