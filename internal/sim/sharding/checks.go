package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// typeChecks holds the checkers of one entity type, and the facts that they need.
type typeChecks struct {
	run     *run.Run
	inv     *Invariants
	hosting *invariant.Hosting
	states  *invariant.States
	asks    *invariant.Asks
	// deliveries checks reliable messages; memories are those with which shards have ended.
	deliveries *invariant.Deliveries
	memories   map[protocol.ShardID]endedMemory
	// written are the allocations whose write was acknowledged.
	written map[protocol.ShardToken]bool
	// untaken are the allocations that ended because no member could take the shard:
	// all members drain. Messages to the shard then have no destination.
	untaken map[protocol.ShardToken]bool
	// unhosted is when the type last lost its last home because that one leaves.
	unhosted virtual.Instant
	copyChecks
	remembered *invariant.Remembered
	// holders are the nodes that became coordinators in a term.
	holders map[lineageTerm]gossip.NodeID
	// endings records how the newest instance of each shard ended.
	endings map[protocol.ShardID]ending
}

// lineageTerm is a term of a type's coordinators, in one cluster or lineage.
type lineageTerm struct {
	lineage uint64
	term    gossip.Epoch
}

// ending is how the newest instance of a shard ended, which may explain a lost state.
type ending struct {
	node, to gossip.NodeID
	token    protocol.Token
	// begun is when its stop was ordered.
	begun virtual.Instant
	// homeless is set if no member could take the shard then.
	homeless bool
	// stopped is set when the instance no longer runs.
	stopped bool
	how     string
}

const (
	endedInOrder = "in order"
	// noTaker: all members drain, so no member takes the shard.
	noTaker = "no member to take it"
)

func newTypeChecks(inv *Invariants) *typeChecks {
	t := &typeChecks{
		run: inv.run, inv: inv, hosting: invariant.NewHosting(inv.members), states: invariant.NewStates(), copyChecks: newCopyChecks(), remembered: invariant.NewRemembered(), asks: invariant.NewAsks(),
		deliveries: invariant.NewDeliveries(), memories: map[protocol.ShardID]endedMemory{},
		written: map[protocol.ShardToken]bool{}, untaken: map[protocol.ShardToken]bool{}, endings: map[protocol.ShardID]ending{}, holders: map[lineageTerm]gossip.NodeID{},
	}
	t.remembered.Disks = inv.run.Config.Disks
	if inv.run.Parts() {
		t.states.ExpectLineages()
	}
	return t
}

// noteWritten notes a write that reached its level.
func (t *typeChecks) noteWritten(c coordinator.Write) {
	for _, r := range c.Records {
		t.written[protocol.ShardToken{Shard: r.Shard, Token: r.Token}] = true
	}
}

// checkOrder holds S8: no HostShards leaves before its allocation is acknowledged,
// unless it only asks whether a shard that was started is still served.
func (t *typeChecks) checkOrder(label string, msg protocol.Message) {
	orders, ok := msg.(*protocol.HostShards)
	if !ok {
		return
	}
	for _, o := range orders.Shards {
		st := protocol.ShardToken{Shard: o.Shard, Token: o.Token}
		if !t.written[st] && !t.hosting.WasStarted(o.Shard, o.Token) {
			t.run.Fail("S8", "%s orders shard %d (%s) before the allocation is acknowledged", label, o.Shard, t.run.Names.Token(o.Token))
		}
	}
}

// checkTermHolder checks that a term has one holder, whichever processes declined.
func (t *typeChecks) checkTermHolder(m *base, term gossip.Epoch) {
	v := m.site.view
	if v == nil {
		return
	}
	key := lineageTerm{t.inv.members.LineageOf(v), term}
	if other, taken := t.holders[key]; taken && other != m.p.Node.ID {
		t.run.Fail("S7", "%s takes the office of %s in term %v, which %s has", m.p.Label, m.spec.Name, term, t.run.Names.Name(other))
	}
	t.holders[key] = m.p.Node.ID
}

// noteEnding notes how the newest instance of a shard ends.
func (t *typeChecks) noteEnding(node gossip.NodeID, st protocol.ShardToken, to gossip.NodeID, how string) {
	if e := t.endings[st.Shard]; e.token == st.Token && e.node == node {
		e.how, e.to = how, to
		if e.begun == 0 {
			e.begun = t.run.Now()
		}
		t.endings[st.Shard] = e
	}
}

// noteHomeless notes that no member can take the shard of the newest instance.
func (t *typeChecks) noteHomeless(st protocol.ShardToken) {
	if e := t.endings[st.Shard]; e.token == st.Token {
		e.homeless = true
		t.endings[st.Shard] = e
	}
}

// noteStopped notes that the newest instance of a shard no longer runs.
func (t *typeChecks) noteStopped(st protocol.ShardToken) {
	if e := t.endings[st.Shard]; e.token == st.Token {
		e.stopped = true
		t.endings[st.Shard] = e
	}
}

// noteNotTransferred notes that the states of an allocation have not reached the new home.
func (t *typeChecks) noteNotTransferred(st protocol.ShardToken) {
	if e := t.endings[st.Shard]; e.token == st.Token {
		e.how = "not transferred"
		t.endings[st.Shard] = e
	}
}

// checkStates checks that the entities of a shard that starts begin with the states that they
// ended with, unless something happened in between that may cost a state.
func (t *typeChecks) checkStates(m *base, st protocol.ShardToken, states map[int]uint64) {
	r, last := t.run, t.endings[st.Shard]
	for e := int(st.Shard); e < m.spec.Entities; e += m.spec.Shards {
		lost, b := t.states.Started(time.Duration(r.Now()), e, states[e])
		r.Judge(b)
		if states[e] != 0 {
			r.Hit(coverage.StateArrived)
		}
		if !lost {
			continue
		}
		if why := t.excuseLoss(m, last); why != "" {
			r.Hit(coverage.StateLost)
			m.p.Event("state lost", uint64(e), func() string { return "shard " + st.Shard.String() + " " + why })
			continue
		}
		r.Fail("G9", "%s starts shard %d of type %s (%s) without the state of entity %d, which %s ended %s",
			m.p.Label, st.Shard, m.spec.Name, r.Names.Token(st.Token), e, r.Names.Name(last.node), last.how)
	}
	t.endings[st.Shard] = ending{node: m.p.Node.ID, token: st.Token, how: "not at all"}
}

// excuseLoss returns the reason why a state may be lost, or "" if it must not be.
func (t *typeChecks) excuseLoss(m *base, e ending) string {
	switch {
	case t.run.Parts():
		return "beyond the bounds"
	case e.how != endedInOrder && !t.run.Config.Orderly:
		return e.how
	case e.how == noTaker:
		return e.how
	case t.inv.lastDeath >= e.begun:
		return "a process ended meanwhile"
	case t.inv.world.Newest().Member(e.to) == nil:
		return "its new home was removed"
	case !t.inv.handedOver(e):
		return "its home was removed before it had handed over"
	case t.joinedLast(m):
		return "all other members had drained"
	}
	return ""
}

// joinedLast reports whether all other hosts of the type had drained before this process joined.
func (t *typeChecks) joinedLast(m *base) bool {
	v := m.site.member.View()
	for _, q := range t.inv.running() {
		if q.p == m.p || v.Member(q.p.ID()) == nil || !t.run.Config.Hosts(q.p.Slot, m.spec) {
			continue
		}
		if in := q.drainedIn(m.number); in == 0 || in >= v.Member(m.p.ID()).Joined {
			return false
		}
	}
	return true
}

// handedOver reports whether the home of an instance is a member still, or has drained
// before it left.
func (v *Invariants) handedOver(e ending) bool {
	if v.world.Newest().Member(e.node) != nil {
		return e.stopped
	}
	n := v.byID[e.node]
	return n != nil && n.hasHandedOver()
}
