package sharding

import (
	"errors"
	"maps"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
)

// lookAtWaiters is how often held replies are looked at for their deadlines.
const lookAtWaiters = 20 * time.Millisecond

func (k *stateKeeper) run() {
	defer k.close()
	timer := time.NewTimer(clock.Ahead(0))
	defer timer.Stop()
	var batch []any
	for {
		select {
		case <-k.s.ctx.Done():
			return
		case <-k.in.Ready():
		case <-timer.C:
		}
		batch = k.in.Take(batch)
		for i, ev := range batch {
			k.handle(ev)
			batch[i] = nil
		}
		k.changes()
		if now := k.s.cfg.Clock.Now(); !now.Before(k.core.Deadline()) {
			k.step(standby.Tick{})
		}
		k.expire(time.Now())
		k.held.Store(int64(k.core.Bytes()))
		k.standing.Store(int64(k.core.Standby()))
		timer.Reset(k.untilNext())
	}
}

func (k *stateKeeper) untilNext() time.Duration {
	wait := time.Hour
	if next := k.core.Deadline(); next != clock.Never {
		wait = clock.Ahead(next.Sub(k.s.cfg.Clock.Now()))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) > 0 || k.anyLeaving() {
		wait = min(wait, lookAtWaiters)
	}
	return wait
}

func (k *stateKeeper) handle(ev any) {
	switch ev := ev.(type) {
	case viewChanged:
		k.view.Store(ev.view)
		k.step(standby.ViewChanged{View: ev.view})
		for _, f := range k.early.of(ev.view) {
			k.step(standby.Received{From: f.from, Msg: f.msg})
		}
	case standby.EndAll:
		k.step(ev)
		k.clear()
	case standby.Event:
		k.step(ev)
	case standbyFrame:
		// Who is outside the view is not told: its incarnation is over, or our view is
		// late.
		if k.view.Load().Member(ev.from) == nil {
			k.s.overrun.Add(k.early.add(ev))
			return
		}
		k.step(standby.Received{From: ev.from, Msg: ev.msg})
	}
}

// standbyFrame is a message of another node's core.
type standbyFrame struct {
	from  gossip.NodeID
	msg   standby.Message
	bytes int
}

// changes tells the core of the entities that have changed.
func (k *stateKeeper) changes() {
	k.mu.Lock()
	all := k.dirty
	k.dirty = nil
	events := make(standby.Changes, len(all))
	for i, d := range all {
		d.ent.known = false
		events[i] = standby.Change{Shard: d.shard.number, Token: d.shard.token, ID: d.ent.id, Version: d.ent.version, State: d.ent.state}
	}
	k.mu.Unlock()
	if len(events) > 0 {
		k.step(events)
	}
}

// step gives the core an event, and what it says to itself.
func (k *stateKeeper) step(ev standby.Event) {
	k.stepOnce(ev)
	for len(k.own) > 0 {
		m := k.own[0]
		k.own = k.own[1:]
		k.stepOnce(standby.Received{From: k.s.cfg.Self.ID, Msg: m})
	}
	k.own = nil
}

func (k *stateKeeper) stepOnce(ev standby.Event) {
	k.core.Step(k.s.cfg.Clock.Now(), ev, &k.out)
	for _, e := range k.out.Do {
		switch e := e.(type) {
		case standby.Send:
			k.send(e.To, e.Msg)
		case standby.Ready:
			k.ready(e)
		case standby.Kept:
			k.kept(e)
		case standby.Deposed:
			k.deposed(e)
		case standby.Refusal:
			k.counters().stale.Add(1)
		}
	}
	k.out.Reset()
}

func (k *stateKeeper) send(to gossip.NodeID, m standby.Message) {
	if to == k.s.cfg.Self.ID {
		k.own = append(k.own, m)
		return
	}
	frame := frames.AppendStandby(nil, k.typ)
	frame = standby.Append(frame, m)
	err := k.s.cfg.Links.Send(to, transport.Bulk, transport.KindEntity, frame)
	switch {
	case err == nil:
		k.counters().stateBytesOut.Add(uint64(len(frame)))
	case errors.Is(err, transport.ErrFrameTooLarge):
		k.s.log.Error("sharding: state too large to be replicated", "type", k.typ, "bytes", len(frame), "error", err)
	}
	// What was not queued is as good as lost: the core repeats it.
}

// replicate gives a shell its type's keeper, if it asks for one; called with the
// mutex.
func (s *service) replicate(sh *shell) {
	if !sh.info.state.on() || !s.hosts(&sh.info) {
		return
	}
	sh.keeper = s.keeper(sh.info.name, sh.info.state, sh.info.role)
	sh.keeper.shell.Store(sh)
	sh.inc.keeper = sh.keeper
	sh.recovering = map[ShardID]recovery{}
}

// handleStandby takes a frame of another node's keeper.
func (s *service) handleStandby(from gossip.NodeID, frame []byte) error {
	typ, rest, err := frames.ParseStandby(frame)
	if err != nil {
		return err
	}
	m, err := standby.Decode(rest)
	if err != nil {
		return err
	}
	k := s.keeperFor(string(typ), from)
	if k == nil {
		return nil
	}
	k.counters().stateBytesIn.Add(uint64(len(frame)))
	if !k.in.PutFrame(standbyFrame{from, m, len(frame)}) {
		s.overrun.Add(1)
	}
	return nil
}

// keeper makes the keeper of a type, or tells the one that is there what it did not
// know; called with the mutex.
func (s *service) keeper(typ string, set Replicated, role string) *stateKeeper {
	all := *s.keepers.Load()
	k := all[typ]
	if k == nil {
		k = newStateKeeper(s, typ, set)
		k.core = standby.New(standby.Config{Self: s.cfg.Self.ID, Type: typ})
		if s.view != nil {
			k.in.Put(viewChanged{s.view})
		}
		all = maps.Clone(all)
		all[typ] = k
		s.keepers.Store(&all)
		s.work.Go(k.run)
	}
	if set.on() {
		k.set = set.withDefaults()
		k.in.Put(standby.Configured{Role: role, Mode: standby.Mode(k.set.Mode), Replicas: k.set.Replicas, BytesMax: k.set.NodeBytes})
	}
	return k
}

// keeperFor returns the keeper of a type. A node holds states of types that it
// does not run, too: the owner asks every member of the role.
func (s *service) keeperFor(typ string, from gossip.NodeID) *stateKeeper {
	if k := (*s.keepers.Load())[typ]; k != nil {
		return k
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.view.Member(from) == nil || len(*s.keepers.Load()) >= typesMax {
		return nil
	}
	return s.keeper(typ, Replicated{}, "")
}

// finish lets a shard go once all of its changes are kept, or when the time is up.
func (k *stateKeeper) finish(shard ShardID, token Token, within time.Duration, gone func()) {
	end := func() {
		k.in.Put(standby.End{Shard: shard, Token: token})
		gone()
	}
	k.mu.Lock()
	sh := k.shards[shard]
	if sh == nil || sh.token != token {
		k.mu.Unlock()
		end()
		return
	}
	sh.leaving, sh.leaveAt = end, time.Now().Add(within)
	k.mu.Unlock()
	k.in.Wake()
}

// close ends the waiting of everything.
func (k *stateKeeper) close() {
	k.in.Close()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.endAll()
}

// endAll fails all that waits, and forgets the shards that live here. What the core
// says of them later is forgotten when it has heard of it.
func (k *stateKeeper) endAll() {
	k.in.Put(standby.EndAll{})
	k.clear()
}

func (k *stateKeeper) clear() {
	k.mu.Lock()
	var failed []waiter
	for _, sh := range k.shards {
		failed = append(failed, k.drop(sh)...)
	}
	k.mu.Unlock()
	fail(failed, ErrAbandoned)
}

// drop takes a shard out of the table; called with the mutex.
func (k *stateKeeper) drop(sh *keptShard) (failed []waiter) {
	delete(k.shards, sh.number)
	for _, e := range sh.entities {
		failed = append(failed, e.waiters...)
		e.waiters = nil
		delete(k.waiting, e)
	}
	k.room.Broadcast()
	return failed
}

func fail(waiters []waiter, err error) {
	for _, w := range waiters {
		w.done(err)
	}
}
