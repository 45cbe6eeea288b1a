package activation

import (
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/failure"
)

// Stopped reports that a shard has ended here.
type Stopped struct {
	Shard ShardID
	Token Token
	// States are the states of the instances, and those that were never restored here, if
	// keep was set. They belong to the receiver.
	States map[string][]byte
	// Forced is set when its instances did not end in time and were abandoned.
	Forced bool
}

// stopping is an orderly stop in progress. It belongs to the shard's mutex.
type stopping[C, Req, Resp any] struct {
	done func(Stopped)
	// keep is set if Snapshot is called on instances that have it; Shard.states collects
	// the results.
	keep  bool
	timer *time.Timer
	// waiting are resting instances whose OnStop has not been called.
	waiting []*instance[C, Req, Resp]
}

// parallelStops bounds how many OnStop hooks of one shard run side by side.
const parallelStops = 64

// StopShard ends a shard in an orderly way: from now on it accepts no message, the
// messages in its mailboxes are handled, then every instance's OnStop is called. done is
// called once, from another goroutine: when all instances have ended, when timeout has
// passed and the rest was abandoned, or immediately if the shard does not run here under
// the token. It is not called if the shard is abandoned meanwhile.
//
// With keep, the states of instances that are Snapshotters are passed to done.
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
	s.beginStop(timeout, keep, done)
}

// stop begins the orderly stop; a second one changes nothing.
func (s *Shard[C, Req, Resp]) beginStop(timeout time.Duration, keep bool, done func(Stopped)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() || s.stopping != nil {
		return
	}
	st := &stopping[C, Req, Resp]{done: done, keep: keep}
	if keep {
		if s.states == nil {
			s.states = &stateTable{}
		}
		s.states.startLeaving()
	} else if s.states != nil {
		s.host.cfg.Counters.StatesLost.Add(len(s.states.arrived))
	}
	s.stopping = st
	s.waiters.releaseAll()
	st.timer = time.AfterFunc(clock.Ahead(timeout), func() { s.forceStop(st) })
	for in := range s.entities.All() {
		in.stopTimers()
		s.endPause(in)
		if in.state != resting {
			continue
		}
		if needsEnd[C](in.ent, keep && s.host.cfg.Keeper == nil) {
			st.waiting = append(st.waiting, in)
		} else {
			s.endResting(in)
		}
	}
	for range parallelStops {
		st.endNext(s)
	}
	if s.busy == 0 {
		s.finishIfStopped()
	}
}

// endNext starts the end of one further resting instance; called with the mutex.
func (st *stopping[C, Req, Resp]) endNext(s *Shard[C, Req, Resp]) {
	if n := len(st.waiting); n > 0 {
		in := st.waiting[n-1]
		st.waiting = st.waiting[:n-1]
		s.startInstance(in)
	}
}

// finishIfStopped finishes an orderly stop if all instances have ended; called with the
// mutex.
func (s *Shard[C, Req, Resp]) finishIfStopped() {
	st := s.stopping
	if st == nil {
		return
	}
	if len(st.waiting) > 0 {
		st.endNext(s)
		return
	}
	if s.busy == 0 {
		s.finishStop(false)
	}
}

// forceStop abandons the instances that have not ended in time.
func (s *Shard[C, Req, Resp]) forceStop(st *stopping[C, Req, Resp]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return
	}
	s.host.cfg.Counters.Forced.Add(1)
	s.host.failures.Log(s.host.cfg.Logger, slog.LevelWarn, "shard", "sharding: shard did not stop in time, instances abandoned",
		"type", s.info.typ, "shard", s.info.number, "busy", s.busy)
	s.finishStop(true)
}

// finishStop ends the shard and calls stopping.done; called with the mutex.
func (s *Shard[C, Req, Resp]) finishStop(forced bool) {
	st := s.stopping
	if forced && st.keep && s.host.cfg.Keeper == nil && s.host.keeps.Load() {
		// Only its runner can see whether a running instance has state. So every instance
		// counts, if any instance of the type was a Snapshotter.
		s.host.cfg.Counters.StatesLost.Add(s.states.countMissing(idsOf(s.entities)))
	}
	if st.keep {
		if d := s.dedup.Load(); d != nil {
			if b := d.encodeMemory(); len(b) > 0 {
				s.states.addLeaving(memoryKey, b)
			}
		}
	}
	states := s.states.leavingStates()
	s.emptyShard()
	s.host.work.Go(func() {
		st.done(Stopped{Shard: s.info.number, Token: s.info.token, Forced: forced, States: states})
	})
}

// abandonAll drops all instances without running user code.
func (s *Shard[C, Req, Resp]) abandonAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone.Load() {
		s.emptyShard()
	}
}

// emptyShard empties the shard finally; called with the mutex. Runners drop their own
// batches before their next message.
func (s *Shard[C, Req, Resp]) emptyShard() {
	s.gone.Store(true)
	s.info.base.endBase(s.info.parent)
	s.waiters.releaseAll()
	if s.stopping != nil {
		s.stopping.timer.Stop()
	}
	var lost []Message[Req]
	for in := range s.entities.All() {
		lost = append(lost, in.endActivation()...)
		if in.mailbox != nil {
			lost = append(lost, in.mailbox.msgs...)
			in.mailbox = nil
		}
		if in.state == holding {
			in.cold.hold.Stop()
		}
	}
	s.host.cfg.Counters.Abandoned.Add(s.entities.Len())
	s.host.cfg.Counters.Entities.Add(-s.entities.Len())
	s.recent.slots = nil
	s.entities, s.parked, s.mailboxes.spare = nil, nil, nil
	s.states, s.order = nil, nil
	if d := s.dedup.Load(); d != nil {
		d.dropMemory()
	}
	s.host.removeShard(s)
	if len(lost) > 0 {
		s.host.work.Go(func() { s.failMessages(lost, failure.Abandoned) })
	}
}

// failMessages answers messages that will not be handled.
func (s *Shard[C, Req, Resp]) failMessages(msgs []Message[Req], err error) {
	tells := 0
	for _, m := range msgs {
		if m.reliableMark() != nil {
			deduplicatorOf(s).refuseCopy(m.Reply.Node, m.reliableMark())
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
