package region

import (
	"cmp"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// A shard that moves with its state is, between its stop at the old home and its
// start at the new one, nothing but that state. Both homes hold the state, unless the old one
// has no room. The coordinator that began the move has recorded where; if it dies, its successor
// learns it from the census: each node reports the states it holds, and those that it has sent
// and could not keep, until the shard lives under a later token.

// stateTable has the states that wait here, by shard.
type stateTable struct {
	*env
	kept map[protocol.ShardID]protocol.Held
	// away has the states that an allocation of this node left, that its next home has, and for
	// which there was no room here. The next home may have answered a census before the state
	// came, so its coordinator may have heard of the state from no other node.
	away map[protocol.ShardID]protocol.Held
	// sent has the receiver of each state that an allocation of this node left
	// and that is also kept here. Invariant: a part of kept.
	sent map[protocol.ShardID]gossip.NodeID
}

// stateHeld notes a state that waits here; of two, it keeps that of the newer allocation.
func (ss *stateTable) stateHeld(s protocol.Held) {
	if int(s.Shard) >= ss.cfg.Shards {
		return
	}
	if s.Away {
		ss.noteAway(s)
		return
	}
	old, ok := ss.kept[s.Shard]
	if s.Token == old.Token && s.From == old.From {
		// It was sent again.
		s.Term = max(s.Term, old.Term)
		old = s
	}
	if s.Token.Less(old.Token) {
		s, old = old, s
	}
	if ok && s != old {
		ss.do(DropState{Shard: old.Shard, Token: old.Token, From: old.From})
	}
	if ss.kept == nil {
		ss.kept = map[protocol.ShardID]protocol.Held{}
	}
	ss.kept[s.Shard] = s
	if ss.away[s.Shard].Token.Less(s.Token) {
		delete(ss.away, s.Shard)
	}
}

// noteAway notes a state that waits at its next home, and not here.
func (ss *stateTable) noteAway(s protocol.Held) {
	if ss.away == nil {
		ss.away = map[protocol.ShardID]protocol.Held{}
	}
	ss.away[s.Shard] = s
}

// dropState drops a state that is older than the allocation under which the shard lives.
func (ss *stateTable) dropState(s protocol.ShardID, home gossip.NodeID, t protocol.Token) {
	if a, ok := ss.away[s]; ok && a.Token.Less(t) {
		delete(ss.away, s)
	}
	if k, ok := ss.kept[s]; ok && k.Token.Less(t) {
		delete(ss.kept, s)
		delete(ss.sent, s)
		ss.do(DropState{Shard: s, Token: k.Token, From: k.From, Home: home})
	}
}

// noteSent notes where the state went of a shard that has stopped here just now. This node may
// have obeyed a newer term while the shard was stopping: then that is the term of the stop.
func (ss *stateTable) noteSent(st protocol.ShardToken, to gossip.NodeID) {
	if a := ss.away[st.Shard]; a.Away && a.Token == st.Token {
		a.Term = ss.floors.term
		ss.away[st.Shard] = a
	}
	k, keeps := ss.kept[st.Shard]
	if !keeps {
		return
	}
	if k.From == ss.cfg.Self && k.Token == st.Token {
		k.Term = ss.floors.term
		ss.kept[st.Shard] = k
	}
	if ss.sent == nil {
		ss.sent = map[protocol.ShardID]gossip.NodeID{}
	}
	ss.sent[st.Shard] = to
}

// heldStates lists the states that wait here, and those that wait elsewhere and were sent from
// here, for the census. The list is bounded: a new coordinator does not learn of states beyond
// the bound. If last is set, this node starts no shard any longer (hostTable.takes), so
// it omits the states of other nodes, which may have them, too.
func (ss *stateTable) heldStates(last bool) []protocol.Held {
	out := slices.Collect(maps.Values(ss.away))
	for s, h := range ss.kept { // order-free: sorted below
		switch {
		case h.From == ss.cfg.Self:
			h.To = ss.sent[s]
		case last:
			continue
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b protocol.Held) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), b.Token.Compare(a.Token))
	})
	return out[:min(len(out), protocol.HeldMax)]
}
