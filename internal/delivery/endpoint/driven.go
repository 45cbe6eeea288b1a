package endpoint

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Driven is an Endpoint, in one incarnation, as the driver of its type uses it: the
// placement.Endpoint.
type Driven struct {
	*Endpoint
	inc *delivery.Incarnation
}

// DriveIn returns the Endpoint for the driver of its type in an incarnation.
func (e *Endpoint) DriveIn(inc *Incarnation) Driven { return Driven{e, inc.Incarnation} }

// CloseRoute is Router.CloseRoute.
func (d Driven) CloseRoute(shard strategy.ShardID, owner gossip.NodeID, token protocol.Token) {
	d.Router.CloseRoute(d.inc, shard, owner, token)
}

// ResendMarker is Router.ResendMarker.
func (d Driven) ResendMarker(shard strategy.ShardID, owner gossip.NodeID, token protocol.Token) {
	d.Router.ResendMarker(d.inc, shard, owner, token)
}

// OpenRoute is Router.OpenRoute.
func (d Driven) OpenRoute(shard strategy.ShardID, home gossip.NodeID, token protocol.Token) {
	d.Router.OpenRoute(d.inc, shard, home, token)
}

// RouteOf returns the present state of the route to a shard.
func (d Driven) RouteOf(shard strategy.ShardID) (home gossip.NodeID, token protocol.Token, state string, buffered int) {
	s := d.Status(shard)
	return s.Home, s.Token, s.State, s.Buffered
}

// Buffered returns the number of messages that wait for a home.
func (d Driven) Buffered() int {
	messages, _ := d.Held()
	return messages
}
