package activation

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/reliable"
)

// Stopped says that a shard has ended here.
type Stopped struct {
	Shard ShardID
	Token Token
	// States are those of the instances, and those that were never restored here, if
	// they were to be kept. They belong to the receiver.
	States map[string][]byte
	// Forced is set when its instances did not end in time and were abandoned.
	Forced bool
}

// stopping is an orderly stop under way. It belongs to the shard's mutex.
type stopping[C, Req, Resp any] struct {
	done func(Stopped)
	// keep: instances that have a state are asked for it, and it gathers in states.
	keep   bool
	states map[string][]byte
	timer  *time.Timer
	// waiting are resting instances whose OnStop has not been called.
	waiting []*instance[C, Req, Resp]
}

// stopsAtOnce bounds how many OnStop hooks of one shard run side by side.
const stopsAtOnce = 64

// StopShard ends a shard in an orderly way: from now on it takes no message, what
// stands in its mailboxes is handled, then every instance's OnStop is called.
// done is called once, from another goroutine: when all is over, when timeout has
// passed and the rest was abandoned, or at once if the shard does not run here
// under the token. It is not called if the shard is abandoned meanwhile.
//
// With keep, instances that are Snapshotters are asked for their state, and done
// gets it.
//
// Without a lease the stop waits: neither messages nor OnStop are run.
func (h *Host[C, Req, Resp]) StopShard(number ShardID, token Token, timeout time.Duration, keep bool, done func(Stopped)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.Shard(number)
	if s == nil || s.info.token != token {
		if !h.closed {
			h.work.Go(func() { done(Stopped{Shard: number, Token: token}) })
		}
		return
	}
	s.stop(timeout, keep, done)
}

// stop begins the orderly stop; a second one changes nothing.
func (s *Shard[C, Req, Resp]) stop(timeout time.Duration, keep bool, done func(Stopped)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() || s.stopping != nil {
		return
	}
	st := &stopping[C, Req, Resp]{done: done, keep: keep}
	if keep {
		st.states, s.carry = s.carry, nil
	} else {
		s.host.cfg.Counters.StatesLost.Add(len(s.carry))
	}
	s.stopping = st
	s.releaseWaiters()
	st.timer = time.AfterFunc(clock.Ahead(timeout), func() { s.force(st) })
	for _, in := range s.entities {
		in.stopTimers()
		s.release(in)
		if in.state != resting {
			continue
		}
		if needsEnd[C](in.ent, keep && s.host.cfg.Keeper == nil) {
			st.waiting = append(st.waiting, in)
		} else {
			s.remove(in)
		}
	}
	for range stopsAtOnce {
		s.stopNext()
	}
	if s.busy == 0 {
		s.stoppedMaybe()
	}
}

// stopNext lets one more resting instance end; called with the mutex.
func (s *Shard[C, Req, Resp]) stopNext() {
	st := s.stopping
	if n := len(st.waiting); n > 0 {
		in := st.waiting[n-1]
		st.waiting = st.waiting[:n-1]
		s.begin(in)
	}
}

// stoppedMaybe finishes an orderly stop when nothing is left to wait for; called
// with the mutex.
func (s *Shard[C, Req, Resp]) stoppedMaybe() {
	st := s.stopping
	if st == nil || s.gone.Load() {
		return
	}
	if len(st.waiting) > 0 {
		s.stopNext()
		return
	}
	if s.busy == 0 {
		s.finish(false)
	}
}

// force abandons what has not ended in time.
func (s *Shard[C, Req, Resp]) force(st *stopping[C, Req, Resp]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return
	}
	s.host.cfg.Counters.Forced.Add(1)
	s.host.cfg.Logger.Warn("sharding: shard did not stop in time, instances abandoned",
		"type", s.info.typ, "shard", s.info.number, "busy", s.busy)
	s.finish(true)
}

// finish ends the shard and tells whoever ordered it; called with the mutex.
func (s *Shard[C, Req, Resp]) finish(forced bool) {
	st := s.stopping
	if forced && st.keep && s.host.cfg.Keeper == nil {
		s.host.cfg.Counters.StatesLost.Add(s.unsaved(st))
	}
	s.handDown(st)
	s.dispose()
	s.host.work.Go(func() {
		st.done(Stopped{Shard: s.info.number, Token: s.info.token, Forced: forced, States: st.states})
	})
}

// unsaved counts the instances whose states should travel and do not; called with the
// mutex. Whether one that runs has state is its runner's to know, so those that live
// are taken for it in a type that has any.
func (s *Shard[C, Req, Resp]) unsaved(st *stopping[C, Req, Resp]) (n int) {
	if !s.host.keeps.Load() {
		return 0
	}
	for id := range s.entities { // order-free: a count
		if _, travels := st.states[id]; !travels {
			n++
		}
	}
	return n
}

// abandon drops all instances without running user code.
func (s *Shard[C, Req, Resp]) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone.Load() {
		s.dispose()
	}
}

// dispose empties the shard for good; called with the mutex. What the runners
// hold they drop themselves, before their next dispatch.
func (s *Shard[C, Req, Resp]) dispose() {
	s.gone.Store(true)
	s.cancel()
	s.releaseWaiters()
	if s.stopping != nil {
		s.stopping.timer.Stop()
	}
	var lost []Message[Req]
	for _, in := range s.entities {
		lost = append(lost, in.bare()...)
		if in.box != nil {
			lost = append(lost, in.box.msgs...)
			in.box = nil
		}
		if in.state == holding {
			in.extra.hold.Stop()
		}
	}
	s.host.cfg.Counters.Abandoned.Add(len(s.entities))
	s.host.cfg.Counters.Entities.Add(-len(s.entities))
	s.recent = [recentMost]*instance[C, Req, Resp]{}
	s.entities, s.parked, s.spare, s.carry, s.order = nil, nil, nil, nil, nil
	s.memory = reliable.Memory{}
	s.host.forget(s)
	if len(lost) > 0 {
		s.host.work.Go(func() { s.fail(lost, ErrAbandoned) })
	}
}

// fail answers messages that will not be handled.
func (s *Shard[C, Req, Resp]) fail(msgs []Message[Req], err error) {
	tells := 0
	for _, m := range msgs {
		if m.reliableMark() != nil {
			s.refuse(&m)
			continue
		}
		if m.Reply.Call == 0 {
			if m.timer() == nil {
				tells++
			}
			continue
		}
		var none Resp
		s.host.cfg.Replies.Reply(m.Reply, none, err)
	}
	s.host.cfg.Counters.AbandonedTells.Add(tells)
}
