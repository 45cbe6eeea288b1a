package invariant

import "time"

// States checks that entities that move keep their states. A state is named by its
// version: a number that every handled message changes, so that two states are equal only
// if they hold the same messages in the same order. 0 is the state of an entity that has
// handled nothing.
//
// An instance begins with the newest state there ever was, or with none. None is a loss,
// which the caller may excuse; an older state is always a violation: it would restore
// overwritten values and drop acknowledged ones.
type States struct {
	newest map[int]version
	// known has all versions of each entity, if lineages are expected.
	known map[int]map[uint64]bool
}

type version struct {
	number uint64
	// cold is set when an instance has begun without the state since, and has handled
	// nothing.
	cold bool
}

// NewStates returns an empty checker.
func NewStates() *States { return &States{newest: map[int]version{}} }

// ExpectLineages makes the checker accept every state that an entity has ever had: it may live
// twice, in two lineages of a cluster. It must be called before any fact.
func (s *States) ExpectLineages() { s.known = map[int]map[uint64]bool{} }

// Started records that an instance of an entity begins with a state, and reports whether
// a state was lost.
func (s *States) Started(at time.Duration, entity int, number uint64) (lost bool, b *Violation) {
	v := s.newest[entity]
	switch {
	case number == 0:
		lost = v.number != 0 && !v.cold
		v.cold = true
		s.newest[entity] = v
		return lost, nil
	case s.known != nil && s.known[entity][number]:
		return false, nil
	case number != v.number:
		return false, broken("G9", at, "entity %d begins with state %x, the newest is %x", entity, number, v.number)
	}
	return false, nil
}

// Handled records that an instance with a state handled a message, and returns the
// resulting state.
func (s *States) Handled(entity int, number, message uint64) uint64 {
	next := nextState(number, message)
	s.newest[entity] = version{number: next}
	if s.known != nil {
		if s.known[entity] == nil {
			s.known[entity] = map[uint64]bool{}
		}
		s.known[entity][next] = true
	}
	return next
}

// nextState returns the state that follows another one by a message.
func nextState(number, message uint64) uint64 {
	next := (number ^ message) * 0x9e3779b97f4a7c15
	next ^= next >> 29
	return max(next, 1)
}
