package invariant

import "time"

// Kept checks that entities with replicated states lose no acknowledged change. States are
// versions, as in States. An instance may begin without changes that were not acknowledged, so the
// states of an entity form a tree: each follows the one to which a message was added.
type Kept struct{ entities map[int]*keptEntity }

type keptEntity struct {
	// before has the state before each state.
	before map[uint64]uint64
	// newest is the state of the newest instance, acknowledged the newest acknowledged one.
	newest, acknowledged uint64
}

// NewKept returns an empty checker.
func NewKept() *Kept { return &Kept{map[int]*keptEntity{}} }

func (k *Kept) entity(n int) *keptEntity {
	e := k.entities[n]
	if e == nil {
		e = &keptEntity{before: map[uint64]uint64{}}
		k.entities[n] = e
	}
	return e
}

// has reports whether a state is another one or follows it.
func (e *keptEntity) has(state, other uint64) bool {
	for state != other && state != 0 {
		state = e.before[state]
	}
	return state == other
}

// Handled records that an instance with a state handled a message, and returns the resulting
// state.
func (k *Kept) Handled(entity int, number, message uint64) uint64 {
	e, next := k.entity(entity), nextState(number, message)
	e.before[next] = number
	if e.newest == number {
		e.newest = next
	}
	return next
}

// Acknowledged records that a caller may learn of a state. The newest instance must have it.
func (k *Kept) Acknowledged(at time.Duration, entity int, number uint64) *Violation {
	e := k.entity(entity)
	if !e.has(e.newest, number) {
		return broken("Replicated state", at, "entity %d: state %x is acknowledged, and not in %x of the newest instance", entity, number, e.newest)
	}
	if e.has(number, e.acknowledged) {
		e.acknowledged = number
	}
	return nil
}

// Started records that an instance begins with a state, and reports whether it lacks acknowledged
// changes. The caller may excuse that: from then on they count as lost.
func (k *Kept) Started(at time.Duration, entity int, number uint64) (lost bool, b *Violation) {
	e := k.entity(entity)
	if _, known := e.before[number]; number != 0 && !known {
		return false, broken("Replicated state", at, "entity %d begins with state %x, which it never had", entity, number)
	}
	lost = !e.has(number, e.acknowledged)
	e.newest = number
	if lost {
		e.acknowledged = number
	}
	return lost, nil
}
