package region

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// A shard that moves with its state is, between its stop at the old home and its
// start at the new one, nothing but that state. Both homes hold the state. The coordinator
// that began the move has recorded where; if it dies, its successor learns it from the
// census: each node reports the states it holds until the shard lives under a later token.

// stateHeld notes a state that waits here; of two, it keeps that of the newer allocation.
func (c *Core) stateHeld(s protocol.Held) {
	if int(s.Shard) >= len(c.hosts) {
		return
	}
	old, ok := c.kept[s.Shard]
	if ok && s.Token.Less(old.Token) {
		s, old = old, s
	}
	if ok && s != old {
		c.do(DropState{Shard: old.Shard, Token: old.Token, From: old.From})
	}
	if c.kept == nil {
		c.kept = map[protocol.ShardID]protocol.Held{}
	}
	c.kept[s.Shard] = s
}

// dropState drops a state that is older than the allocation under which the shard lives.
func (c *Core) dropState(s protocol.ShardID, home gossip.NodeID, t protocol.Token) {
	if k, ok := c.kept[s]; ok && k.Token.Less(t) {
		delete(c.kept, s)
		delete(c.sent, s)
		c.do(DropState{Shard: s, Token: k.Token, From: k.From, Home: home})
	}
}

// noteSent notes where the state of a shard went that has stopped here.
func (c *Core) noteSent(s protocol.ShardID, to gossip.NodeID) {
	delete(c.sent, s)
	if _, keeps := c.kept[s]; !keeps {
		return
	}
	if c.sent == nil {
		c.sent = map[protocol.ShardID]gossip.NodeID{}
	}
	c.sent[s] = to
}

// resend stops once more a shard that stopped here with its state, so that the
// state goes to another home: its receiver has died, or takes no shards.
func (c *Core) resend(o protocol.HandOffOrder, order turning) bool {
	k, ok := c.kept[o.Shard]
	if !ok || k.From != c.cfg.Self || k.Token != o.Token || o.To == c.cfg.Self || c.view.Member(o.To) == nil {
		return false
	}
	if c.sent[o.Shard] == o.To {
		// A late duplicate of the same order: the state has been sent there.
		return false
	}
	c.hosts[o.Shard].token = o.Token
	c.hosting++
	c.floors.started(o.Shard, o.Token)
	c.stop(StopShard{Shard: o.Shard, Token: o.Token, To: o.To, Within: order.within}, order.seq)
	return true
}

// heldStates lists the states that wait here, for the census. The list is bounded: a new
// coordinator does not learn of states beyond the bound.
func (c *Core) heldStates() []protocol.Held {
	var out []protocol.Held
	for _, s := range slices.Sorted(maps.Keys(c.kept)) {
		if len(out) < protocol.HeldMax {
			h := c.kept[s]
			if h.From == c.cfg.Self {
				h.To = c.sent[s]
			}
			out = append(out, h)
		}
	}
	return out
}
