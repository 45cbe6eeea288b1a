package region

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// outbox collects the answers of a step, so that those about a thousand shards
// leave in one message. They leave after all other effects of the step: a
// route is closed before its closing is acknowledged.
type outbox struct {
	*env
	link *link

	hosted, stopped, begun answers
	needs                  []protocol.ShardID
}

// answers are entries of one kind of message, with their receivers.
type answers struct {
	list []answer
}

type answer struct {
	to gossip.NodeID
	// seq is echoed from the order, zero if it answers none.
	seq uint64
	st  protocol.ShardToken
}

// addAnswer notes an answer, to an order if there is one. A zero receiver drops it: owed
// answers are sent once there is a coordinator.
func (a *answers) addAnswer(to gossip.NodeID, order *protocol.Head, st protocol.ShardToken) {
	if to == 0 {
		return
	}
	e := answer{to: to, st: st}
	if order != nil {
		e.seq = order.Seq
	}
	if !slices.Contains(a.list[max(0, len(a.list)-1):], e) {
		a.list = append(a.list, e)
	}
}

// batchMax bounds the shards in one message.
const batchMax = 1024

// drainAnswers hands the entries out by receiver and order.
func (a *answers) drainAnswers(send func(to gossip.NodeID, seq uint64, list []protocol.ShardToken)) {
	slices.SortStableFunc(a.list, func(x, y answer) int {
		return cmp.Or(cmp.Compare(x.to, y.to), cmp.Compare(x.seq, y.seq))
	})
	for i := 0; i < len(a.list); {
		first := a.list[i]
		var list []protocol.ShardToken
		for ; i < len(a.list) && len(list) < batchMax && a.list[i].to == first.to && a.list[i].seq == first.seq; i++ {
			list = append(list, a.list[i].st)
		}
		send(first.to, first.seq, list)
	}
	a.list = a.list[:0]
}

func (o *outbox) flushAnswers() {
	o.begun.drainAnswers(func(to gossip.NodeID, _ uint64, list []protocol.ShardToken) {
		o.do(Send{To: to, Msg: &protocol.BeginAck{Head: o.head(), Shards: list}})
	})
	o.stopped.drainAnswers(func(to gossip.NodeID, seq uint64, list []protocol.ShardToken) {
		h := o.head()
		h.Seq = seq
		o.do(Send{To: to, Msg: &protocol.Stopped{Head: h, Shards: list}})
	})
	o.hosted.drainAnswers(func(to gossip.NodeID, seq uint64, list []protocol.ShardToken) {
		h := o.head()
		h.Seq = seq
		o.do(Send{To: to, Msg: &protocol.ShardsHosted{Head: h, Shards: list}})
	})
	for list := range slices.Chunk(o.needs, batchMax) {
		o.do(Send{To: o.link.node, Msg: &protocol.GetHome{Head: o.head(), Hosts: o.cfg.Hosts, Settings: o.link.settings(), Shards: slices.Clone(list)}})
	}
	o.needs = o.needs[:0]
}
