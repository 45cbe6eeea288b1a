package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// staleClaim is a shard that a node claims although another node has it under a higher
// token. The coordinator repeats its order to stop until the node has confirmed it.
type staleClaim struct {
	node  gossip.NodeID
	shard protocol.ShardID
	token protocol.Token
}

// strays are the orders to stop strays that have not been confirmed.
type strays struct {
	*env
	list []staleClaim
}

// confirmStopped drops the strays that a node has confirmed as stopped.
func (ss *strays) confirmStopped(from gossip.NodeID, st protocol.ShardToken) {
	ss.list = slices.DeleteFunc(ss.list, func(x staleClaim) bool {
		return x.node == from && x.shard == st.Shard && !st.Token.Less(x.token)
	})
}

// dropGone drops the strays of members that have left the view.
func (ss *strays) dropGone() {
	ss.list = slices.DeleteFunc(ss.list, func(x staleClaim) bool { return ss.view.Member(x.node) == nil })
}

// repeatOrders repeats all orders.
func (ss *strays) repeatOrders() {
	for _, st := range ss.list {
		m := &protocol.HandOff{Head: ss.head(), Within: ss.cfg.StopTimeout, Shards: []protocol.HandOffOrder{
			{Shard: st.shard, Token: st.token, Move: protocol.Token{Term: ss.term, Seq: ss.seq}},
		}}
		m.Probe = true
		ss.sendMessage(st.node, m)
	}
}
