package activation

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// stateTable holds the entities' states that are transferred with a shard; it belongs to
// the shard's mutex. The nil stateTable is empty, and collects nothing.
type stateTable struct {
	// arrived are the states that came with the shard, until their entities restore them.
	arrived map[string][]byte
	// leaving are the states that leave with the shard, from startLeaving on. Those that
	// were never restored here are among them.
	leaving map[string][]byte
	leaves  bool
}

// startLeaving begins to collect the states that leave with the shard.
func (t *stateTable) startLeaving() {
	t.leaving, t.arrived, t.leaves = t.arrived, nil, true
}

// stateOf returns the state of an entity, and whether there is one.
func (t *stateTable) stateOf(id string) (state []byte, ok bool) {
	if t == nil {
		return nil, false
	}
	if t.leaves {
		state, ok = t.leaving[id]
	} else {
		state, ok = t.arrived[id]
	}
	return state, ok
}

// addLeaving adds a state that leaves with the shard. Without startLeaving it does nothing.
func (t *stateTable) addLeaving(id string, state []byte) {
	if t == nil || !t.leaves {
		return
	}
	if t.leaving == nil {
		t.leaving = map[string][]byte{}
	}
	t.leaving[id] = state
}

// dropState removes the state of an entity that has restored it.
func (t *stateTable) dropState(id string) {
	if t != nil {
		delete(t.arrived, id)
		delete(t.leaving, id)
	}
}

// leavingStates returns the states that leave with the shard.
func (t *stateTable) leavingStates() map[string][]byte {
	if t == nil {
		return nil
	}
	return t.leaving
}

// countMissing counts the entities whose states do not leave with the shard.
func (t *stateTable) countMissing(ids iter.Seq[string]) (n int) {
	leaving := t.leavingStates()
	for id := range ids { // order-free: a count
		if _, ok := leaving[id]; !ok {
			n++
		}
	}
	return n
}

// needsEnd reports whether user code must run when an instance ends.
func needsEnd[C any](ent any, travels bool) bool {
	if _, ok := ent.(Stopper[C]); ok {
		return true
	}
	_, ok := ent.(Snapshotter[C])
	return ok && travels
}

// takeSnapshot calls Snapshot, for the transfer of the shard.
func (r *runner[C, Req, Resp]) takeSnapshot(ent Snapshotter[C]) {
	lost := true
	defer func() {
		if lost {
			r.shard.host.cfg.Counters.StatesLost.Add(1)
		}
	}()
	state, err := r.stateNow(ent)
	if err != nil {
		r.shard.host.failures.logError(r.logger(), slog.LevelError, "sharding: no snapshot; the entity moves without its state; mend its Snapshot", err)
		return
	}
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	lost = false
	if s.gone.Load() || state == nil {
		// If there is a state it is too late: the states are on their way, and this one was
		// counted as lost.
		return
	}
	s.states.addLeaving(r.in.id, state)
}

// carried returns the transferred state of an entity. It fails with failure.Abandoned if the
// shard has ended: the states went with it, and an instance must not begin without its
// own.
func (s *Shard[C, Req, Resp]) carried(id string) (state []byte, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return nil, false, failure.Abandoned
	}
	state, ok = s.states.stateOf(id)
	return state, ok, nil
}

// callRestore passes a new instance its state.
func callRestore[C any](ctx C, ent any, state []byte) error {
	keeper, ok := ent.(Snapshotter[C])
	if !ok {
		return fmt.Errorf("%T takes no state, and one of %d bytes came", ent, len(state))
	}
	return keeper.Restore(ctx, state)
}

// keepState passes the state after a message to the Keeper, and the answer with it. If
// the Keeper rejects the state, the instance is dropped: the next one begins with the
// last stored state.
func (r *runner[C, Req, Resp]) keepState(m *Message[Req], resp Resp, err error, stashed bool) {
	answered := stashed || m.Reply.Call == 0
	if stashed && m.reliableMark() != nil {
		defer r.onReliableHandled(m, true, nil)
	}
	if r.in.ent == nil || r.shard.gone.Load() {
		if !stashed {
			r.sendAnswer(m, resp, err)
		}
		return
	}
	var done func(error)
	if !answered {
		replies, to := r.shard.host.cfg.Replies, m.Reply
		done = func(kept error) {
			// The shard may have moved meanwhile: the stored states went with it.
			if kept != nil {
				var none Resp
				resp, err = none, kept
			}
			replies.Reply(to, resp, err)
		}
	}
	until := r.ctx.expires
	state, bad := r.stateNow(r.in.ent.(Snapshotter[C]))
	if bad == nil && m.reliableMark() != nil && !stashed {
		var kept bool
		if kept, bad = r.keepReliable(state); !kept && bad == nil {
			deduplicatorOf(r.shard).refuseCopy(m.Reply.Node, m.reliableMark())
			return
		}
	} else if bad == nil {
		bad = r.shard.host.cfg.Keeper.Keep(r.shard.info.number, r.shard.info.token, r.in.id, state, until, done)
	}
	if bad != nil {
		r.undo(bad)
		var none Resp
		resp, err = none, fmt.Errorf("%w: %w", failure.State, bad)
	}
	if !stashed && (bad != nil || done == nil) {
		r.sendAnswer(m, resp, err)
	}
}

// keepReliable waits until the state after a reliable message is stored: no copy of the
// message may be confirmed before. False without an error means that the shard is gone.
func (r *runner[C, Req, Resp]) keepReliable(state []byte) (bool, error) {
	for {
		over := make(chan error, 1)
		err := r.shard.host.cfg.Keeper.Keep(r.shard.info.number, r.shard.info.token, r.in.id, state, time.Time{},
			func(kept error) { over <- kept })
		if err != nil {
			return false, err
		}
		if kept := <-over; kept == nil || r.shard.gone.Load() || errors.Is(kept, failure.Abandoned) {
			return kept == nil, nil
		}
	}
}

// stateNow calls Snapshot, and contains its panic.
func (r *runner[C, Req, Resp]) stateNow(ent Snapshotter[C]) (state []byte, err error) {
	done := false
	defer func() {
		if done {
			return
		}
		v := whatPanicked(recover())
		r.shard.host.cfg.Counters.Panicked.Add(1)
		r.shard.host.failures.logPanic(r.logger(), "sharding: Snapshot panicked", v)
		err = &PanicError{Value: v}
	}()
	state, err = ent.Snapshot(r.user)
	err = appError(err)
	done = true
	return state, err
}

// undo drops the instance.
func (r *runner[C, Req, Resp]) undo(why error) {
	r.shard.host.cfg.Counters.StatesLost.Add(1)
	r.shard.host.failures.logError(r.logger(), slog.LevelError, "sharding: state cannot be replicated; the change is undone; mend its Snapshot, or raise the limits of Type.State", why)
	s := r.shard
	r.in.ent, r.broken = nil, true
	r.in.flags.And(^flagBegun)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return
	}
	if s.stopping == nil {
		r.insertNext(r.in.endActivation())
	} else {
		s.unloadInstance(r.in)
	}
}

// loadState restores the Keeper's state in a new instance.
func (r *runner[C, Req, Resp]) loadState(ent any) error {
	if _, ok := ent.(Snapshotter[C]); !ok {
		return fmt.Errorf("%w: %T is no Snapshotter (Snapshot(*Context) ([]byte, error), Restore(*Context, []byte) error), and Type.State is set", failure.State, ent)
	}
	state, ok := r.shard.host.cfg.Keeper.Load(r.shard.info.number, r.shard.info.token, r.in.id)
	if !ok {
		return nil
	}
	return r.restoreState(ent, state)
}
