package coordinator

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// heldAt is a state that, according to a node's report, waits at node.
type heldAt struct {
	node gossip.NodeID
	protocol.Held
}

// atHome reports whether the former home kept it.
func (h *heldAt) atHome() int {
	if h.node == h.From {
		return 1
	}
	return 0
}

// wasFor reports whether the allocation of a record was to take this state. From may have hosted
// the shard several times: a state of an earlier allocation of From's is older.
func (h *heldAt) wasFor(r protocol.Record) bool {
	return r.From == h.From && r.Ended == h.Token && h.Token.Less(r.Token)
}

// resumeMoves carries on the moves that a predecessor left unfinished: a shard that
// runs nowhere is placed where its state waits. A state may be taken only if it
// is the newest there can be, or a stale one would be restored:
//
//   - The newest allocation ever written left the state. Or that allocation was to take
//     it: then its home can tell whether it did, gets the shard, and takes a state that
//     still waits there. (The home's report may be older than the state's
//     arrival, and a state held elsewhere may be older than what ran at that home.)
//   - No other node has promised not to run the shard under a later token: that node
//     may have run it.
//   - Its shard stopped in this generation (protocol.Held.Term). In a former one, a later
//     allocation may have left no record: a takeover needs no majority (newestState).
//   - The read includes all records that the predecessor wrote. It may not if a majority of
//     the members to which it wrote has left without a report, the receiver of the state
//     among them, or if the replicator says so, since many have left before (passedOn).
func (cn *census) resumeMoves() {
	cn.holdRecorded()
	held := slices.DeleteFunc(cn.held, func(h heldAt) bool { return !cn.newestState(&h) || cn.passedOn(&h) })
	slices.SortStableFunc(held, func(a, b heldAt) int {
		if a.Token != b.Token {
			return b.Token.Compare(a.Token)
		}
		// Of two, prefer the state at the new home: the old home was to be relieved.
		return a.atHome() - b.atHome()
	})
	var snap snapshot
	for _, h := range held {
		s := &cn.table.shards[h.Shard]
		if s.phase != free || s.waitOf().from != 0 || cn.view.Member(h.node) == nil {
			continue
		}
		if cn.members.leaving(h.node) && h.node == h.From && cn.sendOn(&snap, &h) {
			continue
		}
		s.needWait().prefer, s.known = h.node, true
		s.moveFrom(h.From, h.Token)
		cn.traceShard(TraceResumed, h.Shard, h.node, h.Token, "its state waits there")
	}
}

// holdRecorded assigns the states that allocations on record were to take to their homes, also
// those that no report names. The new home may have reported before the state came, and the
// former one may have left, or have released the state, before it reported. The new home takes
// that state only if it waits there; else the shard starts there as anywhere.
func (cn *census) holdRecorded() {
	named := make(map[protocol.ShardID]bool)
	for i := range cn.held {
		h := &cn.held[i]
		if r := cn.stored[h.Shard]; h.wasFor(r) {
			h.node, named[h.Shard] = r.Home, true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(cn.stored)) {
		r := cn.stored[id]
		if r.From == 0 || named[id] || cn.table.shards[id].phase != free {
			continue
		}
		cn.held = append(cn.held, heldAt{r.Home, protocol.Held{Shard: id, Token: r.Ended, From: r.From, To: r.Home, Term: r.Token.Term}})
	}
}

// noteVoters notes the members to which the predecessor wrote: old is the view before
// this term.
func (cn *census) noteVoters(old *gossip.View) {
	for _, m := range old.WithRole(cn.cfg.Role) {
		cn.voters++
		cn.unheard = append(cn.unheard, m.ID)
	}
}

// passedOn reports whether a state that its former home has kept may have been superseded
// unseen. That is so if the home to which it was sent has left without a report, and
// the members that left with it may include a majority of those to which the predecessor
// wrote, or the records since the shard had stopped may be gone from all members: allocations
// may have been written in views before the one of noteVoters, of which this node may know nothing.
func (cn *census) passedOn(h *heldAt) bool {
	left := func(n gossip.NodeID) bool { return cn.view.Member(n) == nil }
	switch {
	case h.node != h.From || !left(h.To) || slices.Contains(cn.heard, h.To):
		return false
	case cn.lost > h.Term:
		return true
	case !slices.Contains(cn.unheard, h.To):
		return false
	}
	gone := 0
	for _, n := range cn.unheard {
		if left(n) {
			gone++
		}
	}
	return gone > cn.voters/2
}

// sendOn has a former home that takes no shards send the state it kept to another home:
// it orders the HandOff again. It returns false if it cannot. Then the shard starts where
// its state is, and moves on from there or ends with the node. Were the
// state left behind, the node could end, and a member that joins meanwhile start cold.
func (cn *census) sendOn(snap *snapshot, h *heldAt) bool {
	s := &cn.table.shards[h.Shard]
	target := cn.table.chooser.askStrategy(snap.of(&cn.table.chooser), h.Shard)
	if target == 0 || target == h.node || h.Token.Less(s.token) {
		return false
	}
	s.home, s.token, s.known = h.node, h.Token, true
	s.move = &shardMove{stamp: cn.nextToken(), target: target}
	snap.placed(h.Shard, 0, target)
	cn.traceShard(TraceResumed, h.Shard, target, h.Token, "its state is sent there again")
	cn.table.redirectState(h.Shard)
	return true
}

// holdStopped notes where the states are of shards that were stopping when their node
// reported, and have stopped since or have ended with their node. The receiver may have reported
// before the state came. resumeMoves ignores the states of shards that are still stopping.
func (cn *census) holdStopped() {
	for _, cl := range cn.claims {
		if cl.to == 0 {
			continue
		}
		at := cl.to
		if cn.view.Member(at) == nil {
			at = cl.node
		}
		cn.held = append(cn.held, heldAt{at, protocol.Held{Shard: cl.shard, Token: cl.token, From: cl.node, To: cl.to, Term: cn.term}})
	}
}

// newestState reports whether the shard has had no later allocation than the one that left
// the state, except one that was to take it.
//
// Records show all later allocations of this generation: a majority had each record before the
// shard could start, and views of one generation share majorities. A later allocation of a
// former generation may have left no record. It is ruled out by h.Term, and not by h.Token:
// shards keep their tokens when the generation rises. Before the shard had stopped, From had
// obeyed h.Term, and so held a view of that generation. No coordinator allocates the shard anew
// before From has reported that it does not run there, or has left the view. The report names
// From's view, and a coordinator reads it only in that view or a later one. A view without From
// is later, too. In a view of another generation a coordinator takes office anew
// (Core.settleOffice). So all later allocations have terms of h.Term's generation or above.
//
// A leader may open a generation in order, and die before all members have that view. Then a
// takeover opens the same generation, and the leader's records may be lost. The state may have
// come here from a member that died with that leader. openedAlike distinguishes the two.
//
// Rejected: to write the records of adopted claims again, with the present term. A coordinator
// that leaves office before a majority has them would still leave a state without a proof.
func (cn *census) newestState(h *heldAt) bool {
	r := cn.stored[h.Shard]
	switch {
	case !openedAlike(h.Term, cn.term):
		return false
	case h.Token.Less(r.Token) && !h.wasFor(r):
		return false
	}
	return !slices.ContainsFunc(cn.stops, func(st claim) bool {
		return st.shard == h.Shard && st.node != h.From && h.Token.Less(st.token)
	})
}

// openedAlike reports whether two terms are of one generation, and on the same side of the epoch
// at which a takeover opens it. A generation that was opened in order reaches that epoch after
// 65,535 views. There openedAlike returns false, and a state that could be kept is dropped.
func openedAlike(a, b gossip.Epoch) bool {
	takeover := gossip.TakeoverEpoch(b.Generation())
	return a.Generation() == b.Generation() && (a < takeover) == (b < takeover)
}
