package sharding

import (
	"cmp"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/entities"
	"github.com/peerage-go/peerage/internal/sim/statemove"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// instances are the shards of a type that run at a process.
type instances struct {
	m      *base
	cores  *cores
	calls  *calls
	mover  *statemove.Mover
	shards []*instance
	standbys
	// parked is set if a handler could not begin without a lease.
	parked bool
	// entities are those that need no message. onStarted and onGone are called when a shard runs, or
	// has ended.
	entities  *entities.Table
	onStarted func()
	onGone    func(protocol.ShardID)
	// onConfirm and onFreed inform the producer of this process.
	onConfirm func(from gossip.NodeID, c *confirmFrame)
	onFreed   func(reliable.Freed)
}

// instance is a shard that runs at a process: one queue, one handler at a time. The
// lease is checked at every dispatch.
type instance struct {
	shard protocol.ShardID
	token protocol.Token
	boxes datapath.Mailboxes
	// stop is the order to stop the shard, once stopping is set.
	stop     region.StopShard
	stopping bool
	gone     bool
	// states are those of its entities, of a type that has them.
	states map[int]uint64
	// memory is what the shard remembers of reliable producers, aside the copies that were put
	// aside, and resumes the one of them whose turn has come.
	memory  reliable.Memory
	aside   []*datapath.Message
	resumes *datapath.Message
	// busySince is when the running handler began, never if none runs.
	busySince virtual.Instant
}

// key returns the allocation under which the shard runs.
func (i *instance) key() protocol.ShardToken {
	return protocol.ShardToken{Shard: i.shard, Token: i.token}
}

// openToken returns the token under which a shard takes messages here, zero if it takes none.
func (x *instances) openToken(shard protocol.ShardID) protocol.Token {
	if i := x.shards[shard]; i != nil && !i.stopping {
		return i.token
	}
	return protocol.Token{}
}

// startShard starts a shard, or has it wait for its replicated states.
func (x *instances) startShard(e region.StartShard) {
	if !x.awaitStates(e) {
		x.startNow(e, map[int]uint64{})
	}
}

// startNow starts a shard with replicated states.
func (x *instances) startNow(e region.StartShard, states map[int]uint64) {
	m, p, r := x.m, x.m.p, x.m.run
	if x.shards[e.Shard] != nil {
		r.Fail("S11", "%s is ordered to start shard %d (%s), which runs there (%s)", p.Label, e.Shard, r.Names.Token(e.Token), r.Names.Token(x.shards[e.Shard].token))
	}
	i := &instance{shard: e.Shard, token: e.Token, busySince: virtual.Never, states: states, boxes: datapath.Mailboxes{Most: r.Config.MailboxMax}}
	x.recordStart(i)
	r.Judge(m.checks.hosting.Started(time.Duration(r.Now()), p.Node.ID, e.Shard, e.Token, x.cores.regionView))
	x.shards[e.Shard] = i
	x.takeCargo(i, e)
	x.cores.putRegion(region.ShardStarted{Shards: []protocol.ShardToken{i.key()}})
	x.onStarted()
}

// takeCargo takes what the former home of a shard has sent.
func (x *instances) takeCargo(i *instance, e region.StartShard) {
	m := x.m
	if !m.spec.State && !m.spec.Reliable {
		return
	}
	cargo := x.mover.Take(e)
	if cargo.States != nil {
		i.states = cargo.States
	}
	if !m.site.inv.members.Member(m.p.Node.ID) {
		return
	}
	if m.spec.Reliable {
		x.takeMemory(i, cargo.Memory)
	}
	m.checks.checkStates(m, i.key(), i.states)
}

// stopShard begins to stop a shard.
func (x *instances) stopShard(e region.StopShard) {
	m, p := x.m, x.m.p
	i := x.shards[e.Shard]
	st := protocol.ShardToken{Shard: e.Shard, Token: e.Token}
	delete(x.waiting, e.Shard)
	if i == nil || i.token != e.Token {
		if e.To == 0 || e.To == p.Node.ID || x.copies != nil {
			x.reportGone(st, e.Within)
			return
		}
		// Stopped before, and sent to a home that has died since.
		x.mover.Send(e, x.mover.Kept(st))
		return
	}
	if i.stopping {
		return
	}
	i.stopping, i.stop = true, e
	i.boxes.Release()
	how := endedInOrder
	if e.To == 0 {
		how = "without a new home"
	}
	if e.To == 0 && e.Within == 0 {
		how = noTaker
		m.checks.untaken[st] = true
	}
	m.checks.noteEnding(p.Node.ID, i.key(), e.To, how)
	if !m.hasHome() {
		m.checks.noteHomeless(i.key())
	}
	m.p.Later(cmp.Or(e.Within, stopTimeout), func() {
		if m.site.on && !i.gone {
			m.run.Hit(coverage.Forced)
			m.checks.noteEnding(p.Node.ID, i.key(), e.To, "forced")
			x.finishStop(i)
		}
	})
	x.stopIfIdle(i)
}

func (x *instances) reportStopped(st protocol.ShardToken) {
	x.cores.putRegion(region.ShardStopped{Shards: []protocol.ShardToken{st}})
}

// stopIfIdle ends a stop when the queue is empty. Without a lease it waits: the
// stop handler does not run.
func (x *instances) stopIfIdle(i *instance) {
	if !i.stopping || i.gone || i.boxes.Len() > 0 || i.busySince != virtual.Never {
		return
	}
	m, r := x.m, x.m.run
	if !m.site.member.LeaseValid() {
		return
	}
	// The stop handler is code of the entity as well.
	r.Judge(m.checks.hosting.Acts(time.Duration(r.Now()), m.p.Node.ID, i.shard, i.token))
	x.finishStop(i)
}

func (x *instances) finishStop(i *instance) {
	m := x.m
	i.gone = true
	x.recordEnd(i, "stopped")
	x.dropWaiting(i)
	cargo := x.cargo(i)
	x.shards[i.shard] = nil
	x.onGone(i.shard)
	m.checks.hosting.Stopped(m.p.Node.ID, i.shard)
	m.checks.noteStopped(i.key())
	if i.stop.To != 0 && i.stop.To != m.p.Node.ID && x.copies == nil {
		x.mover.Send(i.stop, cargo)
		return
	}
	x.reportGone(i.key(), i.stop.Within)
}

// dropWaiting drops what waits in the mailboxes of a shard that has ended.
func (x *instances) dropWaiting(i *instance) {
	for _, msg := range i.boxes.Clear() {
		if msg.Copy != nil {
			i.aside = append(i.aside, msg.Message)
			continue
		}
		x.calls.reply(msg.Message, invariant.Unknown)
	}
	x.refuseCopies(i)
}

// abandonAll drops everything that runs here; no user code runs.
func (x *instances) abandonAll() {
	clear(x.waiting)
	if x.copies != nil {
		x.copies.AbandonAll()
	}
	for _, i := range x.shards {
		if i != nil {
			x.abandon(i)
		}
	}
	x.m.checks.hosting.Abandoned(x.m.p.Node.ID)
}

// abandon drops a shard; no user code runs.
func (x *instances) abandon(i *instance) {
	i.gone = true
	x.recordEnd(i, "dropped")
	x.m.checks.noteEnding(x.m.p.Node.ID, i.key(), i.stop.To, "abandoned")
	x.dropWaiting(i)
	x.shards[i.shard] = nil
	x.onGone(i.shard)
}

// supersede ends an allocation immediately, whether its shard runs or waits for its states.
func (x *instances) supersede(st protocol.ShardToken) {
	_, waited := x.takeWaiting(st)
	i := x.shards[st.Shard]
	runs := i != nil && i.token == st.Token
	if runs {
		x.abandon(i)
		x.m.checks.hosting.Stopped(x.m.p.Node.ID, st.Shard)
	}
	if runs || waited {
		x.reportStopped(st)
	}
}
