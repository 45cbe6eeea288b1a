package activation

import (
	"runtime/debug"
	"time"
)

// end finishes the instance in an orderly way: Snapshot if its state is to travel,
// OnStop, if it has them. The next message meets a new instance. Called by the
// runner, with a lease.
func (r *runner[C, Req, Resp]) end(travels bool) {
	ent := r.in.ent
	// First, so that an OnStop that ends its goroutine is not called again.
	r.in.ent, r.in.retire = nil, false
	defer r.unload()
	if ent == nil {
		return
	}
	if r.alone {
		r.shard.host.cfg.Counters.Passivated.Add(1)
		r.lived(false)
	}
	stopper, stops := ent.(Stopper[C])
	keeper, keeps := ent.(Snapshotter[C])
	if !stops && !(keeps && travels) {
		return
	}
	r.heed(r.in.flags.Load() & flagWatched)
	r.about(nil, nil, r.endBy())
	r.ctx.ends = true
	defer r.over()
	if keeps && travels {
		r.snapshot(keeper)
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
		r.logger().Error("sharding: OnStop panicked", "panic", whatPanicked(recover()), "stack", string(debug.Stack()))
	}()
	ent.OnStop(r.user)
	done = true
}

// lived tells whoever remembers instances.
func (r *runner[C, Req, Resp]) lived(lives bool) {
	if lives {
		r.shard.host.cfg.Counters.Activated.Add(1)
	}
	if f := r.shard.host.cfg.Lived; f != nil {
		f(r.shard.info.number, r.in.id, lives)
	}
}

// endBy returns when an instance that ends by itself must have ended; zero if the
// end of its shard bounds it.
func (r *runner[C, Req, Resp]) endBy() time.Time {
	if !r.alone || r.shard.host.cfg.StopTimeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(r.shard.host.cfg.StopTimeout)
}

// unload ends the timers and the stash of the instance that has ended.
func (r *runner[C, Req, Resp]) unload() {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	r.in.flags.And(^flagBegun)
	r.bound()
	r.shard.unload(r.in) // of one that was cut loose, or abandoned, nothing is left
}

// sweepsPerTimeout sets how late an idle instance may end: a quarter of the
// time-out.
const sweepsPerTimeout = 4

// sweep ends idle instances until the Host is closed.
func (h *Host[C, Req, Resp]) sweep() {
	h.callEvery(max(h.cfg.IdleTimeout/sweepsPerTimeout, time.Millisecond), func() bool {
		now := h.sweeps.Add(1)
		for i := range h.shards {
			if s := h.shards[i].Load(); s != nil {
				s.sweep(now)
			}
		}
		return true
	})
}

// sweep ends the instances that have been at rest for the whole time-out.
func (s *Shard[C, Req, Resp]) sweep(now uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping != nil || !s.host.cfg.Alive() {
		return
	}
	for _, in := range s.entities {
		if in.state != resting || uint16(now)-in.used <= sweepsPerTimeout {
			continue
		}
		if _, ok := in.ent.(Stopper[C]); ok || in.stashed() {
			in.retire = true
			s.begin(in)
			continue
		}
		s.host.cfg.Counters.Passivated.Add(1)
		s.remove(in)
	}
}
