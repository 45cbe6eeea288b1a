package activation

import "fmt"

// needsEnd reports whether an instance has something to do at the end.
func needsEnd[C any](ent any, travels bool) bool {
	if _, ok := ent.(Stopper[C]); ok {
		return true
	}
	_, ok := ent.(Snapshotter[C])
	return ok && travels
}

// snapshot asks the instance for its state, to go with the shard.
func (r *runner[C, Req, Resp]) snapshot(ent Snapshotter[C]) {
	lost := true
	defer func() {
		if lost {
			r.shard.host.cfg.Counters.StatesLost.Add(1)
		}
	}()
	state, err := r.stateNow(ent)
	if err != nil {
		r.logger().Error("sharding: no snapshot, the entity moves without its state", "error", err)
		return
	}
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stopping
	lost = false
	if s.gone.Load() || st == nil || state == nil {
		// Too late, if it is one: the states are on their way, and this one was counted.
		return
	}
	if st.states == nil {
		st.states = map[string][]byte{}
	}
	st.states[r.in.id] = state
}

// carried returns the state that came with the shard for an entity. It fails with
// ErrAbandoned when the shard has ended: what states there are have gone with it, and
// an instance must not begin without its own.
func (s *Shard[C, Req, Resp]) carried(id string) (state []byte, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return nil, false, ErrAbandoned
	}
	states := s.carry
	if st := s.stopping; st != nil && st.keep {
		states = st.states
	}
	state, ok = states[id]
	return state, ok, nil
}

// restored forgets a state that its entity has taken.
func (s *Shard[C, Req, Resp]) restored(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return
	}
	delete(s.carry, id)
	if st := s.stopping; st != nil {
		delete(st.states, id)
	}
}

// restore gives a new instance its state.
func restore[C any](ctx C, ent any, state []byte) error {
	keeper, ok := ent.(Snapshotter[C])
	if !ok {
		return fmt.Errorf("%T takes no state, and one of %d bytes came", ent, len(state))
	}
	return keeper.Restore(ctx, state)
}
