package entity

import (
	"fmt"
	"runtime/debug"
	"time"
)

// end finishes the instance in an orderly way: OnStop, if it has one. The next
// message meets a new instance. Called by the runner, with a lease.
func (r *runner[Req, Resp]) end() {
	ent := r.in.ent
	// First, so that an OnStop that ends its goroutine is not called again.
	r.in.ent, r.in.retire = nil, false
	if ent == nil {
		return
	}
	r.shard.host.cfg.Counters.Passivated.Add(1)
	stopper, ok := ent.(Stopper)
	if !ok {
		return
	}
	r.ctx.from, r.ctx.expires = nil, time.Time{}
	defer func() {
		if r.ctx.inner.used.Load() {
			r.ctx.inner.end()
		}
		r.ctx.leave = false
		if v := recover(); v != nil {
			r.shard.host.cfg.Counters.Panicked.Add(1)
			r.ctx.Logger().Error("sharding: OnStop panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	stopper.OnStop(r.ctx)
}

// sweepsPerTimeout sets how late an idle instance may end: a quarter of the
// time-out.
const sweepsPerTimeout = 4

// sweep ends idle instances until the Host is closed.
func (h *Host[Req, Resp]) sweep() {
	tick := time.NewTicker(max(h.cfg.IdleTimeout/sweepsPerTimeout, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		now := h.sweeps.Add(1)
		for i := range h.shards {
			if s := h.shards[i].Load(); s != nil {
				s.sweep(now)
			}
		}
	}
}

// sweep ends the instances that have been at rest for the whole time-out.
func (s *Shard[Req, Resp]) sweep(now uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping != nil || !s.host.cfg.Alive() {
		return
	}
	for _, in := range s.entities {
		if in.state != resting || now-in.used <= sweepsPerTimeout {
			continue
		}
		if _, ok := in.ent.(Stopper); ok {
			in.retire = true
			s.begin(in)
			continue
		}
		s.host.cfg.Counters.Passivated.Add(1)
		s.remove(in)
	}
}
