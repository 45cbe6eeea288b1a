package coordinator

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// chooser builds the strategy's input from members and shards, and asks it. It changes no
// shard.
type chooser struct {
	*env
	members *members
	// shards are those of the table.
	shards []shard
	// settled: the minimum number of members was reached once.
	settled bool
	// counts are the shards that count at each node, nil if unknown.
	// Invariant: if not nil, no shard moves or has moved lately, and they are countByHome. So
	// they are dropped with each change of a shard but the start of one that never had a home,
	// which a placement notes itself.
	counts map[gossip.NodeID][]protocol.ShardID
}

// enoughMembers reports whether the minimum numbers of members are here, or were once. Then
// they may have left, and no region may be eligible.
func (ch *chooser) enoughMembers(st *strategy.State) bool {
	ch.settled = ch.settled || eligible(st) >= ch.cfg.MinMembers && ch.membersUp() >= ch.cfg.MinMembersAll
	return ch.settled
}

// eligible counts the regions that may be given shards.
func eligible(st *strategy.State) (n int) {
	for i := range st.Regions {
		if st.Regions[i].Eligible() {
			n++
		}
	}
	return n
}

// membersUp counts the members of the view that are up, of any role.
func (ch *chooser) membersUp() (n int) {
	for i := range ch.view.Members {
		if ch.view.Members[i].Status == gossip.Up {
			n++
		}
	}
	return n
}

// askStrategy has the strategy name a region, and validates the answer. It returns zero, and
// calls no code of the application, if no region is eligible.
func (ch *chooser) askStrategy(st *strategy.State, id protocol.ShardID) gossip.NodeID {
	if eligible(st) == 0 {
		return 0
	}
	var requester gossip.NodeID
	if w := ch.shards[id].waitOf().waiters; len(w) > 0 {
		requester = w[0]
	}
	home := ch.cfg.Strategy.Allocate(st, id, requester)
	if r := st.Region(home); r == nil || !r.Eligible() {
		return strategy.MostSuitable(st)
	}
	return home
}

// state builds what the strategy sees.
func (ch *chooser) state() *strategy.State {
	st := ch.places()
	ch.countShards(st)
	return st
}

// places returns the candidate regions. A shard that moves to a home chosen before it
// stopped needs no counts. A drain places hundreds of such shards one by one, and
// counting all shards for each was half of its cost.
func (ch *chooser) places() *strategy.State {
	st := &strategy.State{Shards: len(ch.shards), Unsettled: ch.members.unsettled(), Wanted: ch.wanted}
	for _, m := range ch.view.WithRole(ch.cfg.Role) {
		p := ch.members.peers[m.ID]
		if p == nil || !p.registered || !p.hosts {
			continue
		}
		st.Regions = append(st.Regions, strategy.Region{
			Node: m.ID, Name: m.Name, Zone: m.Zone, Joined: m.Joined, AppVersion: m.AppVersion,
			Leaving: ch.members.memberLeaves(&m), Silent: ch.members.isSilent(m.ID),
			Capacity: max(p.settings.Capacity, 1),
		})
	}
	return st
}

// countShards adds where the shards are, and returns the shards that count at each node.
func (ch *chooser) countShards(st *strategy.State) (at map[gossip.NodeID][]protocol.ShardID) {
	st.Moving, st.Moved = 0, map[protocol.ShardID]strategy.Moved{}
	for i := range ch.shards {
		s := &ch.shards[i]
		if s.phase.moves() || s.known && (s.phase == writing || s.phase == starting) {
			st.Moving++
		}
		if m := s.movedLately(ch.now, ch.cfg.Calm); m.Times > 0 {
			st.Moved[protocol.ShardID(i)] = m
		}
	}
	at = ch.countByHome()
	for i := range st.Regions {
		st.Regions[i].Shards = at[st.Regions[i].Node]
	}
	return at
}

// countByHome returns the shards that count at each node, the lowest token first.
func (ch *chooser) countByHome() map[gossip.NodeID][]protocol.ShardID {
	at := map[gossip.NodeID][]protocol.ShardID{}
	for i := range ch.shards {
		if n := ch.shards[i].countedAt(); n != 0 {
			at[n] = append(at[n], protocol.ShardID(i))
		}
	}
	for _, list := range at { // order-free: each list for itself
		slices.SortFunc(list, func(a, b protocol.ShardID) int {
			return cmp.Or(ch.shards[a].token.Compare(ch.shards[b].token), cmp.Compare(a, b))
		})
	}
	return at
}

// recallCounts is countShards, from the counts of the last placement if they are still valid.
func (ch *chooser) recallCounts(st *strategy.State) {
	if ch.counts == nil {
		if at := ch.countShards(st); st.Moving == 0 && len(st.Moved) == 0 {
			ch.counts = at
		}
		return
	}
	st.Moved = map[protocol.ShardID]strategy.Moved{}
	for i := range st.Regions {
		st.Regions[i].Shards = ch.counts[st.Regions[i].Node]
	}
}

// keepCounts keeps the counts of st, in which a placement has noted its shards.
func (ch *chooser) keepCounts(st *strategy.State) {
	if ch.counts == nil {
		return
	}
	for i := range st.Regions {
		ch.counts[st.Regions[i].Node] = st.Regions[i].Shards
	}
}

// snapshot is the strategy's input while a batch of shards is placed. It is built on
// first use, and the placing code updates it; otherwise each shard of a batch would cost a
// pass over all shards. The zero snapshot is ready, and valid for one step.
type snapshot struct{ st *strategy.State }

func (v *snapshot) of(ch *chooser) *strategy.State {
	if v.st == nil {
		v.st = ch.state()
	}
	return v.st
}

// placed notes where a shard counted, and where it counts from now on.
func (v *snapshot) placed(id protocol.ShardID, was, at gossip.NodeID) {
	if r := v.st.Region(was); r != nil {
		r.Shards = slices.DeleteFunc(r.Shards, func(x protocol.ShardID) bool { return x == id })
	}
	if r := v.st.Region(at); r != nil {
		r.Shards = append(r.Shards, id)
	}
}
