package sharding

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/statecopy"
	"github.com/peerage-go/peerage/internal/sim/trace"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// standbys are the shards of a type with replicated states that wait for them before they start,
// as in internal/placement. Such a shard stops only once its last states are replicated.
type standbys struct {
	copies  *statecopy.Copies
	waiting map[protocol.ShardID]region.StartShard
}

// copiesEnv is the statecopy.Env of a type.
type copiesEnv struct {
	m         *base
	cores     *cores
	calls     *calls
	instances *instances
	inbox     *inbox
}

// startStandbys has a process hold and, if it hosts the type, replicate states.
func (x *instances) startStandbys() {
	m := x.m
	if m.spec.Replicas == 0 {
		return
	}
	x.waiting = map[protocol.ShardID]region.StartShard{}
	x.copies = statecopy.New(m.p.Node.ID, m.spec.Name, copiesEnv{m, x.cores, x.calls, x, &inbox{m: m}}, m.run.Config.PageBytes)
	x.hostStandbys()
}

// hostStandbys has a process that hosts the type replicate its states.
func (x *instances) hostStandbys() {
	m, s := x.m, &x.m.run.Config
	if m.spec.Replicas > 0 && !x.cores.foreign && s.Hosts(m.p.Slot, m.spec) {
		x.copies.Configure(statecopy.Hosted{Role: s.Roles[m.spec.Role], Replicas: m.spec.Replicas})
	}
}

// awaitStates has a shard with replicated states wait for them, and reports whether it does.
func (x *instances) awaitStates(e region.StartShard) bool {
	if x.copies == nil {
		return false
	}
	x.waiting[e.Shard] = e
	x.copies.Begin(protocol.ShardToken{Shard: e.Shard, Token: e.Token})
	return true
}

// takeWaiting removes a shard that waits for its states, and reports whether it did.
func (x *instances) takeWaiting(st protocol.ShardToken) (region.StartShard, bool) {
	e, waits := x.waiting[st.Shard]
	if !waits || e.Token != st.Token {
		return e, false
	}
	delete(x.waiting, st.Shard)
	return e, true
}

// reportGone reports a shard as stopped, once its last states are replicated.
func (x *instances) reportGone(st protocol.ShardToken, within time.Duration) {
	if x.copies == nil {
		x.reportStopped(st)
		return
	}
	x.copies.Finish(st, cmp.Or(within, stopTimeout), func() { x.reportStopped(st) })
}

// keepState hands the state of an entity to its copies after a message. The reply follows when they
// have it.
func (x *instances) keepState(i *instance, msg *datapath.Message) {
	x.copies.Keep(i.key(), msg.Entity, i.states[msg.Entity], msg)
}

// checkKept checks that a shard begins with all acknowledged states. short says that its owner
// cannot rule out that some are missing.
func (t *typeChecks) checkKept(m *base, st protocol.ShardToken, states map[int]uint64, short bool) {
	r := t.run
	if st.Token.Less(t.begun[st.Shard].Token) {
		return // the shard has a newer allocation, and this process no lease
	}
	excuse, known := t.excuseCopies(m, st)
	t.begun[st.Shard] = begun{st.Token, short || excuse != ""}
	for e := int(st.Shard); e < m.spec.Entities; e += m.spec.Shards {
		lost, b := t.kept.Started(time.Duration(r.Now()), e, states[e])
		if r.Parts() {
			continue
		}
		r.Judge(b)
		if states[e] != 0 {
			r.Hit(coverage.CopyFound)
		}
		if !lost {
			continue
		}
		r.Hit(coverage.CopiesLost)
		m.p.Event("acknowledged state lost", uint64(e), func() string {
			return fmt.Sprintf("shard %v, short %v, %s", st.Shard, short, excuse)
		})
		if excuse == "" || known && !short || r.Config.Orderly && t.excuseDrains(m, st.Shard) == "" {
			r.Fail("Replicated state", "%s starts shard %d of type %s (%s) without an acknowledged state of entity %d: reported %v, excuse %q",
				m.p.Label, st.Shard, m.spec.Name, r.Names.Token(st.Token), e, short, excuse)
		}
	}
	t.endings[st.Shard] = ending{node: m.p.Node.ID, token: st.Token, how: "not at all"}
	t.layouts[st.Shard] = slices.DeleteFunc(t.layouts[st.Shard], func(l announced) bool { return l.Token.Less(st.Token) })
}

// copyChecks holds the checker of one type's replicated states, and the facts that it needs.
type copyChecks struct {
	kept *invariant.Kept
	// layouts are the holders of each shard's states: for each allocation the newest that are
	// active, and those that were announced since.
	layouts map[protocol.ShardID][]announced
	// begun are the newest allocations that have begun with replicated states.
	begun map[protocol.ShardID]begun
	// notKept are the asks whose changes had not enough copies in time.
	notKept map[uint64]bool
}

func newCopyChecks() copyChecks {
	return copyChecks{kept: invariant.NewKept(), layouts: map[protocol.ShardID][]announced{}, begun: map[protocol.ShardID]begun{}, notKept: map[uint64]bool{}}
}

// begun is an allocation that has begun with replicated states. lossy: so many holders were gone
// that it may lack acknowledged ones, also such that a former home acknowledges later.
type begun struct {
	protocol.Token
	lossy bool
}

// excuseDrains returns the reason why a run in which only planned things happen may lose the states
// of a shard, or "".
func (t *typeChecks) excuseDrains(m *base, shard protocol.ShardID) string {
	if last := t.endings[shard]; last.homeless || t.unhosted >= last.begun {
		return "all homes leave at the same time"
	}
	return t.excuseLoss(m, t.endings[shard])
}

// announced is a layout, with the processes that have recorded it.
type announced struct {
	standby.Layout
	recorded []gossip.NodeID
}

// excuseCopies returns which holders of former allocations are gone, if they are so many that
// acknowledged states may be lost with them, else "". known reports whether a member has
// recorded them.
func (t *typeChecks) excuseCopies(m *base, st protocol.ShardToken) (excuse string, known bool) {
	for _, l := range t.layouts[st.Shard] {
		if !l.Token.Less(st.Token) {
			continue
		}
		known = known || t.countGone(m, l.recorded) < len(l.recorded)
		for _, set := range append([][]gossip.NodeID{l.Members}, l.Before...) {
			if gone := t.countGone(m, set); gone > (len(set)-1)/2 {
				excuse = fmt.Sprintf("%d of %d holders are gone", gone, len(set))
			}
		}
	}
	return excuse, known
}

// countGone counts the nodes that do not run, or are no members for a process.
func (t *typeChecks) countGone(m *base, nodes []gossip.NodeID) (gone int) {
	for _, id := range nodes {
		if !t.inv.lives(id) || m.site.view.Member(id) == nil {
			gone++
		}
	}
	return gone
}

// lives reports whether a process runs.
func (v *Invariants) lives(id gossip.NodeID) bool {
	n := v.byID[id]
	return n != nil && v.nodes[n.p.Slot] == n
}

func (e copiesEnv) Now() clock.Instant { return e.m.p.Now() }

func (e copiesEnv) Put(do func())                       { e.inbox.putWork(do) }
func (e copiesEnv) Later(d time.Duration, do func())    { e.m.later(d, do) }
func (e copiesEnv) NewTimer(fire func()) *virtual.Timer { return e.m.p.NewTimer(fire) }

// Send queues a frame on the bulk connection. The core sends again what is lost.
func (e copiesEnv) Send(to gossip.NodeID, m standby.Message) {
	e.m.p.Event("copies", uint64(to), func() string { return fmt.Sprintf("%s %T%v", e.m.run.Names.Name(to), m, m) })
	_ = e.m.p.Net.Send(to, transport.Bulk, network.Frame{Kind: transport.KindEntity, Msg: &standbyFrame{e.m.number, m}})
}

// Ready starts a shard that has waited for its states.
func (e copiesEnv) Ready(st protocol.ShardToken, states map[int]uint64, short bool) {
	if short {
		e.m.run.Hit(coverage.CopiesShort)
	}
	e.m.p.Event("states ready", uint64(st.Shard), func() string {
		return fmt.Sprintf("shard %v %s short %v", st.Shard, e.m.run.Names.Token(st.Token), short)
	})
	e.cores.put(func() {
		if order, ok := e.instances.takeWaiting(st); ok {
			e.m.checks.checkKept(e.m, st, states, short)
			e.instances.startNow(order, states)
		}
	})
}

// Superseded ends a shard that has a newer allocation.
func (e copiesEnv) Superseded(st protocol.ShardToken) {
	e.cores.put(func() { e.instances.supersede(st) })
}

// Kept notes an acknowledged state. A former home may acknowledge what the newest one lacks if most
// of its holders were gone when the newest began, or are no members now.
func (e copiesEnv) Kept(st protocol.ShardToken, entity int, state uint64) {
	r, t := e.m.run, e.m.checks
	if newest := t.begun[st.Shard]; r.Parts() || st.Token.Less(newest.Token) && (newest.lossy || t.holdersLeft(st)) {
		return
	}
	r.Judge(t.kept.Acknowledged(time.Duration(r.Now()), entity, state))
}

// holdersLeft reports whether most of the holders of an allocation are no members of the newest view.
func (t *typeChecks) holdersLeft(st protocol.ShardToken) bool {
	v := t.inv.world.Newest()
	return slices.ContainsFunc(t.layouts[st.Shard], func(l announced) bool {
		left := slices.DeleteFunc(slices.Clone(l.Members), func(id gossip.NodeID) bool { return v.Member(id) != nil })
		return l.Token == st.Token && len(left) > (len(l.Members)-1)/2
	})
}

// Announced notes the holders of a shard. Active ones take the place of all former ones of their
// allocation.
func (e copiesEnv) Announced(shard protocol.ShardID, l standby.Layout) {
	t := e.m.checks
	if l.Active {
		t.layouts[shard] = slices.DeleteFunc(t.layouts[shard], func(old announced) bool { return old.Token == l.Token })
	}
	t.layouts[shard] = append(t.layouts[shard], announced{Layout: l})
}

// Recorded notes that this process has recorded the holders of a shard.
func (e copiesEnv) Recorded(m standby.Announced) {
	all := e.m.checks.layouts[m.Shard]
	for i := range all {
		if l := &all[i]; l.Token == m.Token && l.Seq == m.Seq {
			l.recorded = append(l.recorded, e.m.p.ID())
		}
	}
}

// Reply answers a message. Without enough copies the outcome is unknown, also if nothing unplanned
// happens: short queues may drop the acknowledgements for as long as a reply waits.
func (e copiesEnv) Reply(msg *datapath.Message, kept bool) {
	how := invariant.Answered
	if !kept {
		how = invariant.Unknown
		e.m.checks.notKept[msg.Call] = true
		e.m.run.Hit(coverage.NotKept)
	}
	e.calls.reply(msg, how)
}

// standbyFrame is a message between the standby cores of a type.
type standbyFrame struct {
	typ int
	msg standby.Message
}

func (f *standbyFrame) ofType() int { return f.typ }

// Recode returns the frame as its receiver decodes it.
func (f *standbyFrame) Recode() (any, int, error) {
	encoded := standby.Append(nil, f.msg)
	msg, err := standby.Decode(encoded)
	return &standbyFrame{f.typ, msg}, len(encoded), err
}

// Describe describes the frame in a recording.
func (f *standbyFrame) Describe(*trace.Names) (record.Class, string) {
	return record.State, fmt.Sprintf("copies: %T", f.msg)
}
