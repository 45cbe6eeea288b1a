package activation

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Keeper keeps the states of a type's entities on other nodes too. Its methods are
// safe for concurrent use.
type Keeper interface {
	// Load returns the newest state of an entity, and whether it has one. The caller
	// does not change it.
	Load(shard ShardID, token Token, id string) (state []byte, ok bool)
	// Keep takes an entity's state after a message; it keeps state. Unless done is nil,
	// it is called once: with nil when everything up to this state may be shown to
	// others, else with the error for the asker, by until at the latest (zero: the
	// keeper's own limit). It may be called before Keep returns, and from other
	// goroutines. Keep blocks while too much waits. An error means that the state was
	// not taken, and done is not called.
	Keep(shard ShardID, token Token, id string, state []byte, until time.Time, done func(error)) error
}

// ErrState: the entity's new state cannot be replicated; the change was undone.
var ErrState = errors.New("sharding: state cannot be replicated")

// keep hands the state after a message to the Keeper, and the answer with it. When
// the state is not taken the instance is thrown away: the next one begins with the
// last state that was.
func (r *runner[C, Req, Resp]) keep(m *Message[Req], resp Resp, err error, stashed bool) {
	answered := stashed || m.Reply.Call == 0
	if stashed && m.reliableMark() != nil {
		defer r.ran(m, true, nil)
	}
	if r.in.ent == nil || r.shard.gone.Load() {
		if !stashed {
			r.answer(m, resp, err)
		}
		return
	}
	var done func(error)
	if !answered {
		replies, to := r.shard.host.cfg.Replies, m.Reply
		done = func(kept error) {
			// The shard may have moved on meanwhile: what was kept went with it.
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
		if kept, bad = r.keepSure(state); !kept && bad == nil {
			r.shard.refuse(m)
			return
		}
	} else if bad == nil {
		bad = r.shard.host.cfg.Keeper.Keep(r.shard.info.number, r.shard.info.token, r.in.id, state, until, done)
	}
	if bad != nil {
		r.undo(bad)
		var none Resp
		resp, err = none, fmt.Errorf("%w: %w", ErrState, bad)
	}
	if !stashed && (bad != nil || done == nil) {
		r.answer(m, resp, err)
	}
}

// keepSure waits until the state after a reliable message is kept: it is confirmed
// once, and a copy of it must not be before. False without an error means that the
// shard is gone.
func (r *runner[C, Req, Resp]) keepSure(state []byte) (bool, error) {
	for {
		over := make(chan error, 1)
		err := r.shard.host.cfg.Keeper.Keep(r.shard.info.number, r.shard.info.token, r.in.id, state, time.Time{},
			func(kept error) { over <- kept })
		if err != nil {
			return false, err
		}
		if kept := <-over; kept == nil || r.shard.gone.Load() || errors.Is(kept, ErrAbandoned) {
			return kept == nil, nil
		}
	}
}

// stateNow asks the entity for its state, and contains its panic.
func (r *runner[C, Req, Resp]) stateNow(ent Snapshotter[C]) (state []byte, err error) {
	done := false
	defer func() {
		if done {
			return
		}
		v := whatPanicked(recover())
		r.shard.host.cfg.Counters.Panicked.Add(1)
		r.logger().Error("sharding: Snapshot panicked", "panic", v, "stack", string(debug.Stack()))
		err = &PanicError{Value: v}
	}()
	state, err = ent.Snapshot(r.user)
	err = said(err)
	done = true
	return state, err
}

// undo throws the instance away.
func (r *runner[C, Req, Resp]) undo(why error) {
	r.shard.host.cfg.Counters.StatesLost.Add(1)
	r.logger().Error("sharding: state cannot be replicated, the change is undone", "error", why)
	s := r.shard
	r.in.ent, r.broken = nil, true
	r.in.flags.And(^flagBegun)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return
	}
	if s.stopping == nil {
		r.insert(r.in.bare())
	} else {
		s.unload(r.in)
	}
}

// load gives a new instance the state that the Keeper has.
func (r *runner[C, Req, Resp]) load(ent any) error {
	if _, ok := ent.(Snapshotter[C]); !ok {
		return fmt.Errorf("%w: %T is no Snapshotter (Snapshot(*Context) ([]byte, error), Restore(*Context, []byte) error), and its type wants replicated state", ErrState, ent)
	}
	state, ok := r.shard.host.cfg.Keeper.Load(r.shard.info.number, r.shard.info.token, r.in.id)
	if !ok {
		return nil
	}
	return r.restore(ent, state)
}
