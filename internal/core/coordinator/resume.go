package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// heldAt is a state that, according to a node's report, waits at that node.
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
//   - The state is of this generation: records that departed members wrote may be lost.
//   - The read includes all records that the predecessor wrote. It may not if a majority of
//     the members to which it wrote has left without a report, the receiver of the state
//     among them (passedOn).
func (cn *census) resumeMoves() {
	for i := range cn.held {
		h := &cn.held[i]
		if r := cn.stored[h.Shard]; r.From == h.From && h.Token.Less(r.Token) {
			h.node = r.Home
		}
	}
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
		if s.phase != free || s.from != 0 || cn.view.Member(h.node) == nil {
			continue
		}
		if cn.members.leaving(h.node) && h.node == h.From && cn.sendOn(&snap, &h) {
			continue
		}
		s.prefer, s.from, s.known = h.node, h.From, true
		cn.traceShard(TraceResumed, h.Shard, h.node, h.Token, "its state waits there")
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
// wrote.
func (cn *census) passedOn(h *heldAt) bool {
	left := func(n gossip.NodeID) bool { return cn.view.Member(n) == nil }
	if h.node != h.From || !left(h.To) || !slices.Contains(cn.unheard, h.To) {
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
	s.move, s.target = cn.nextToken(), target
	snap.placed(h.Shard, 0, target)
	cn.traceShard(TraceResumed, h.Shard, target, h.Token, "its state is sent there again")
	cn.table.redirectState(h.Shard)
	return true
}

// holdStopped notes where the states are of shards that were stopping when their
// node reported and have stopped since. The receiver may have reported before that.
func (cn *census) holdStopped() {
	for _, cl := range cn.claims {
		if cl.to == 0 || !cn.stoppedSince(cl) {
			continue
		}
		at := cl.to
		if cn.view.Member(at) == nil {
			at = cl.node
		}
		cn.held = append(cn.held, heldAt{at, protocol.Held{Shard: cl.shard, Token: cl.token, From: cl.node, To: cl.to}})
	}
}

func (cn *census) newestState(h *heldAt) bool {
	r := cn.stored[h.Shard]
	switch {
	case h.Token.Term.Generation() != cn.term.Generation():
		return false
	case h.Token.Less(r.Token) && r.From != h.From:
		return false
	}
	return !slices.ContainsFunc(cn.stops, func(st claim) bool {
		return st.shard == h.Shard && st.node != h.From && h.Token.Less(st.token)
	})
}
