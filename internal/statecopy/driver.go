package statecopy

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/driver"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/loglimit"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// framesMax bounds the frames of other nodes that wait for the core of a type.
const framesMax = 4096

// expireEvery is how often the deadlines of held replies are checked.
const expireEvery = 20 * time.Millisecond

// Replicator replicates the states of one type's entities. It implements activation.Keeper.
type Replicator struct {
	cfg   *Config
	typ   string
	queue *driver.Driver[any]
	table *table
	// host is nil while this node does not host the type: then it only holds copies.
	host atomic.Pointer[Host]
	// noHost takes the counts meanwhile.
	noHost Counters

	// These belong to the goroutine.
	core *standby.Core
	out  standby.Effects
	// loopback are messages of the core to itself.
	loopback driver.Loopback[standby.Message]
	early    earlyFrames
	view     *gossip.View

	stateBytes, standbyShards atomic.Int64
	reusedLines               loglimit.Folder
}

func newReplicator(cfg *Config, typ string, set Settings) *Replicator {
	r := &Replicator{
		cfg: cfg, typ: typ, queue: driver.New(driver.Config[any]{Clock: cfg.Clock, Frames: framesMax}),
		core: standby.New(standby.Config{Self: cfg.Self, Type: typ}),
	}
	r.table = newTable(set, cfg.HashAll, r.queue.Wake)
	return r
}

// StateBytes returns the size of all copies on this node.
func (r *Replicator) StateBytes() int { return int(r.stateBytes.Load()) }

// StandbyShards returns the number of shards of which this node holds copies for another home.
func (r *Replicator) StandbyShards() int { return int(r.standbyShards.Load()) }

// Load returns the newest state of an entity. It implements activation.Keeper.
func (r *Replicator) Load(shard strategy.ShardID, token protocol.Token, id string) ([]byte, bool) {
	state, hosted := r.table.loadState(shard, token, id)
	if !hosted {
		return nil, false
	}
	if state == nil {
		r.counters().Cold.Add(1)
		return nil, false
	}
	r.counters().Recovered.Add(1)
	return state, true
}

// StateSize returns the size of an entity's newest state, 0 if there is none.
func (r *Replicator) StateSize(shard strategy.ShardID, token protocol.Token, id string) int {
	state, _ := r.table.loadState(shard, token, id)
	return len(state)
}

// Keep takes an entity's state after a message. It implements activation.Keeper.
func (r *Replicator) Keep(shard strategy.ShardID, token protocol.Token, id string, state []byte, until time.Time, done func(error)) error {
	if done == nil {
		done = func(error) {}
	}
	res, err := r.table.putState(shard, token, id, state, heldReply{until: until, done: done})
	if res.reused {
		r.reportReuse(shard, id, res.firstReuse)
	}
	switch {
	case err != nil:
		return err
	case !res.hosted:
		done(failure.Abandoned)
	case !res.held:
		done(nil)
	}
	return nil
}

// reportReuse counts that an entity changed a slice that its Snapshot had returned, and logs
// the first time.
func (r *Replicator) reportReuse(shard strategy.ShardID, id string, first bool) {
	r.counters().Reused.Add(1)
	if !first {
		return
	}
	r.reusedLines.Log(r.cfg.Log, slog.LevelError, "reused", "sharding: entity goes on changing the slice that its Snapshot returned; its state is copied from now on, an earlier change may not have been replicated; return a copy from Snapshot, and keep none of Restore's",
		"type", r.typ, "entity", id, "shard", shard)
}

// Begin collects the states of a shard. Host.Recovered follows, unless Finish, AbandonAll or a
// newer allocation comes first.
func (r *Replicator) Begin(shard strategy.ShardID, token protocol.Token) {
	r.queue.Put(standby.Begin{Shard: shard, Token: token})
}

// Finish calls gone once all changes of a shard are replicated, at the latest after within.
func (r *Replicator) Finish(shard strategy.ShardID, token protocol.Token, within time.Duration, gone func()) {
	leave := func() {
		r.queue.Put(standby.End{Shard: shard, Token: token})
		gone()
	}
	if !r.table.leaveShard(shard, token, within, leave) {
		leave()
		return
	}
	r.queue.Wake()
}

// AbandonAll fails all held replies and removes the shards that live here.
func (r *Replicator) AbandonAll() {
	// The core may still report on these shards until it processes EndAll: the table then
	// ignores the report.
	r.queue.Put(standby.EndAll{})
	r.table.endShards().finishAll(failure.Abandoned)
}

func (r *Replicator) counters() *Counters {
	if h := r.host.Load(); h != nil {
		return h.Counters
	}
	return &r.noHost
}

func (r *Replicator) runLoop() {
	defer r.stopLoop()
	r.queue.Run(r.cfg.Ctx.Done(), r.stepBatch)
}

// stepBatch handles a batch of events and what is due, and returns the next deadline.
func (r *Replicator) stepBatch(batch []any) clock.Instant {
	for _, ev := range batch {
		r.handleEvent(ev)
	}
	if changes := r.table.takeChanges(); len(changes) > 0 {
		r.stepCore(changes)
	}
	if now := r.cfg.Clock.Now(); !now.Before(r.core.Deadline()) {
		r.stepCore(standby.Tick{})
	}
	r.failExpired(time.Now())
	r.table.setHeldBytes(r.core.Bytes())
	r.stateBytes.Store(int64(r.core.Bytes()))
	r.standbyShards.Store(int64(r.core.Standby()))
	if r.table.needsExpire() {
		return clock.Min(r.core.Deadline(), r.cfg.Clock.Now().Add(expireEvery))
	}
	return r.core.Deadline()
}

func (r *Replicator) stopLoop() {
	r.queue.Close()
	r.table.rejectAll()
	r.table.endShards().finishAll(failure.Abandoned)
}

func (r *Replicator) handleEvent(ev any) {
	switch ev := ev.(type) {
	case standby.ViewChanged:
		r.view = ev.View
		r.stepCore(ev)
		for _, f := range r.early.takeMembers(ev.View) {
			r.stepCore(standby.Received{From: f.from, Msg: f.msg})
		}
	case standby.EndAll:
		r.stepCore(ev)
		r.table.endShards().finishAll(failure.Abandoned)
	case standby.Event:
		r.stepCore(ev)
	case frame:
		// Don't reply to non-members: the sender was removed, or our view is stale.
		if r.view.Member(ev.from) == nil {
			r.cfg.FramesDropped(r.early.holdFrame(ev))
			return
		}
		r.stepCore(standby.Received{From: ev.from, Msg: ev.msg})
	}
}

// stepCore passes an event to the core, and then the core's messages to itself.
func (r *Replicator) stepCore(ev standby.Event) {
	r.stepOnce(ev)
	r.loopback.Deliver(func(m standby.Message) { r.stepOnce(standby.Received{From: r.cfg.Self, Msg: m}) })
}

func (r *Replicator) stepOnce(ev standby.Event) {
	r.core.Step(r.cfg.Clock.Now(), ev, &r.out)
	for _, e := range r.out.Do {
		r.performEffect(e)
	}
	r.out.Reset()
}

func (r *Replicator) performEffect(e standby.Effect) {
	switch e := e.(type) {
	case standby.Send:
		r.sendMessage(e.To, e.Msg)
	case standby.Ready:
		r.onReady(e)
	case standby.Kept:
		released, lag, ok := r.table.setReplicated(e)
		if released.finishAll(nil); ok {
			r.cfg.Replicated(r.typ, lag)
		}
	case standby.Deposed:
		r.onDeposed(e)
	case standby.Refusal:
		r.counters().Stale.Add(1)
	}
}

func (r *Replicator) sendMessage(to gossip.NodeID, m standby.Message) {
	if to == r.cfg.Self {
		r.loopback.Add(m)
		return
	}
	f := standby.Append(frames.AppendStandby(nil, r.typ), m)
	// Ignore other errors: the core retransmits until acknowledged.
	switch err := r.cfg.Send(to, f); {
	case err == nil:
		r.counters().BytesOut.Add(uint64(len(f)))
	case errors.Is(err, transport.ErrFrameTooLarge):
		r.cfg.Log.Error("sharding: state too large to be replicated; its replies fail with ErrNotKept; make the snapshot smaller", "type", r.typ, "bytes", len(f), "error", err)
	}
}

// onReady adds a shard whose states the core has collected.
func (r *Replicator) onReady(e standby.Ready) {
	if e.Short {
		r.counters().Losses.Add(1)
		r.cfg.Log.Error("sharding: so many standbys were lost that acknowledged states may be missing; restore the shard's entities if they are",
			"type", r.typ, "shard", e.Shard, "token", e.Token, "entities", len(e.Copies))
	}
	r.table.beginShard(e).finishAll(failure.Abandoned)
	if h := r.host.Load(); h != nil {
		h.Recovered(e.Shard, e.Token)
	}
}

// onDeposed removes a shard that has a newer allocation.
func (r *Replicator) onDeposed(e standby.Deposed) {
	failed, leave := r.table.endShard(e.Shard, e.Token)
	failed.finishAll(failure.Abandoned)
	if h := r.host.Load(); h != nil {
		h.Superseded(e.Shard, e.Token)
	}
	if leave != nil {
		leave()
	}
}

// failExpired fails the replies whose time is over, and lets stopped shards go.
func (r *Replicator) failExpired(now time.Time) {
	late, left := r.table.takeExpired(now)
	r.counters().NotKept.Add(uint64(len(late)))
	late.finishAll(failure.NotKept)
	for _, sh := range left {
		if sh.behind > 0 {
			r.cfg.Log.Error("sharding: shard leaves before all of its states were replicated; their latest changes may be lost; check the links to the standbys",
				"type", r.typ, "shard", sh.number, "entities", sh.behind)
			r.counters().Lost.Add(uint64(sh.behind))
		}
		sh.leave()
	}
}
