package activation

import (
	"log/slog"
	"time"
)

// endInstance ends the instance in an orderly way: it calls Snapshot if the state is
// transferred, then OnStop, if the entity has them. The next message meets a new
// instance. Called with a lease.
func (r *runner[C, Req, Resp]) endInstance(travels bool) {
	ent := r.in.ent
	// First, so that an OnStop that ends its goroutine is not called again.
	r.in.ent, r.in.retire = nil, false
	defer r.unloadInstance()
	if ent == nil {
		return
	}
	if r.alone {
		r.shard.host.cfg.Counters.Passivated.Add(1)
		r.reportLife(false)
	}
	stopper, stops := ent.(Stopper[C])
	keeper, keeps := ent.(Snapshotter[C])
	if !stops && !(keeps && travels) {
		return
	}
	r.handleFlags(r.in.flags.Load() & flagWatched)
	r.bindContext(nil, "", nil, r.endBy())
	r.ctx.ends = true
	defer r.releaseContext()
	if keeps && travels {
		r.takeSnapshot(keeper)
	}
	if stops {
		r.onStop(stopper)
	}
}

// onStop calls the entity and contains its panic.
func (r *runner[C, Req, Resp]) onStop(ent Stopper[C]) {
	done := false
	defer func() {
		if done {
			return
		}
		r.shard.host.cfg.Counters.Panicked.Add(1)
		r.shard.host.failures.logPanic(r.logger(), "sharding: OnStop panicked", whatPanicked(recover()))
	}()
	ent.OnStop(r.user)
	done = true
}

// reportLife reports to Config.Lived that the instance has begun or ended.
func (r *runner[C, Req, Resp]) reportLife(lives bool) {
	if lives {
		r.shard.host.cfg.Counters.Activated.Add(1)
	}
	if f := r.shard.host.cfg.Lived; f != nil {
		f(r.shard.info.number, r.in.id, lives)
	}
}

// endBy returns the time by which an instance that ends by itself must have ended; zero
// if the end of its shard bounds it.
func (r *runner[C, Req, Resp]) endBy() time.Time {
	if !r.alone || r.shard.host.cfg.StopTimeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(r.shard.host.cfg.StopTimeout)
}

// unloadInstance ends the timers and the stash of the instance that has ended.
func (r *runner[C, Req, Resp]) unloadInstance() {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	r.in.flags.And(^flagBegun)
	r.stopEndTimer()
	r.shard.unloadInstance(r.in) // does nothing if the instance was detached or abandoned
}

// sweepsPerTimeout bounds the delay after which an idle instance ends: a quarter of the
// time-out.
const sweepsPerTimeout = 4

// sweepEvery ends idle instances until the Host is closed.
func (h *Host[C, Req, Resp]) sweepEvery() {
	h.callEvery(max(h.cfg.IdleTimeout/sweepsPerTimeout, time.Millisecond), func() bool {
		now := h.sweeps.Add(1)
		for i := range h.shards {
			if s := h.shards[i].Load(); s != nil {
				s.endIdle(now)
			}
		}
		return true
	})
}

// endIdle ends the instances that have been at rest for the whole time-out.
func (s *Shard[C, Req, Resp]) endIdle(now uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping != nil || !s.host.cfg.Alive() {
		return
	}
	for in := range s.entities.All() {
		if in.state != resting || uint16(now)-in.used <= sweepsPerTimeout {
			continue
		}
		if _, ok := in.ent.(Stopper[C]); ok || in.stashed() {
			in.retire = true
			s.startInstance(in)
			continue
		}
		s.host.cfg.Counters.Passivated.Add(1)
		s.endResting(in)
	}
}

// A passivated instance has StopTimeout to end. If it takes longer it is detached: its
// Context ends, the messages of its id meet a new instance, and the old one cannot reach
// the mailbox. Its OnStop, if it ignores its Context, runs beside the new instance: a
// library cannot stop it. Waiting for it without a bound would make an id unreachable
// because of a bug in OnStop.

// startEndTimer bounds the end of an instance that ends by itself; called with the mutex.
// The function that it returns stops the timer, with the mutex too.
func (s *Shard[C, Req, Resp]) startEndTimer(in *instance[C, Req, Resp]) (ended func()) {
	_, stops := in.ent.(Stopper[C])
	if !stops || s.host.cfg.StopTimeout <= 0 || s.stopping != nil {
		return func() {}
	}
	done := false
	timer := time.AfterFunc(s.host.cfg.StopTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !done && !s.gone.Load() {
			s.detachInstance(in)
		}
	})
	return func() { done = true; timer.Stop() }
}

// detachInstance replaces an instance that does not end by a new one; called with the
// mutex.
func (s *Shard[C, Req, Resp]) detachInstance(in *instance[C, Req, Resp]) {
	s.host.cfg.Counters.CutLoose.Add(1)
	s.host.failures.Log(s.host.cfg.Logger, slog.LevelWarn, "instance", "sharding: instance did not end in time, another may take its place",
		"type", s.info.typ, "shard", s.info.number, "entity", in.id)
	s.unloadInstance(in)
	s.order.dropInstance(in)
	s.admitWaiters(in)
	in.state = detached
	s.busy--
	if in.mailbox == nil {
		s.removeInstance(in)
		s.host.cfg.Counters.Entities.Add(-1)
		s.finishIfStopped()
		return
	}
	next := &instance[C, Req, Resp]{id: in.id, mailbox: in.mailbox}
	in.mailbox = nil
	s.removeInstance(in)
	s.entities.Add(next)
	s.waiters.moveQueue(in, next)
	s.touch(next)
	s.startInstance(next)
}
