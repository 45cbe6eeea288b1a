package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// env is what the machines of a region share: its settings, floors, the step, and the timer of
// retransmissions.
type env struct {
	cfg    Config
	floors *Floors
	now    clock.Instant
	out    *Effects

	view  *gossip.View
	lease bool

	nextResend clock.Instant
	// machines are those of the core.
	machines waiter
}

// waiter is a Core as its machines see it: a core without functions in its fields can be copied,
// and explored.
type waiter interface{ isWaiting() bool }

// awaitsAnswers reports whether any message must be retransmitted until it is answered.
func (v *env) awaitsAnswers() bool { return v.machines.isWaiting() }

// arm starts the resend timer when the first message begins to wait.
func (v *env) arm() {
	if !v.awaitsAnswers() {
		v.nextResend = v.now.Add(v.cfg.Resend)
	}
}

// inRange refuses shard numbers beyond the type's.
func (v *env) inRange(from gossip.NodeID, s protocol.ShardID) bool {
	if int(s) < v.cfg.Shards {
		return true
	}
	v.traceEvent(TraceUnknownShard, from, protocol.Token{}, s.String())
	return false
}

func (v *env) traceEvent(kind string, n gossip.NodeID, t protocol.Token, detail string) {
	v.out.Trace = append(v.out.Trace, TraceEvent{Kind: kind, Node: n, Token: t, Detail: detail})
}

func (v *env) traceShard(kind string, id protocol.ShardID, n gossip.NodeID, t protocol.Token, detail string) {
	v.out.Trace = append(v.out.Trace, TraceEvent{Kind: kind, Shard: id, HasShard: true, Node: n, Token: t, Detail: detail})
}

func (v *env) do(e Effect) { v.out.Do = append(v.out.Do, e) }

// head is that of a message that answers none.
func (v *env) head() protocol.Head {
	return protocol.Head{Type: v.cfg.Type, Term: v.floors.term, View: v.epoch()}
}

// answerHead is the head of an answer to an order.
func (v *env) answerHead(order *protocol.Head) protocol.Head {
	h := v.head()
	if order.Term == h.Term {
		h.Seq = order.Seq
	}
	return h
}

func (v *env) epoch() gossip.Epoch {
	if v.view == nil {
		return 0
	}
	return v.view.Epoch
}
