package statecopy

import (
	"bytes"

	"github.com/zeebo/xxh3"
)

// The slice that a Snapshot returns belongs to the table, which compares the next one with it:
// equal states are not replicated. If the entity goes on changing the slice, both compare
// equal. So a slice with the address of the one before counts as a change, and from then on
// the states of that entity are copied. A slice that was changed, and is followed by another
// one, is found by a hash: on a strict node each state has one, elsewhere a sample of them.

// hashEvery: on nodes that are not strict, one of so many states has a hash.
const hashEvery = 64

// sliceMemory notes the memory of the states of one entity.
type sliceMemory struct {
	// returned is the start of the slice that Snapshot returned last.
	returned *byte
	// copies is set once the entity has returned one slice twice: its states are copied.
	copies bool
	// hash is the state's hash when it was adopted, 0 if it has none.
	hash uint64
	// reported is set once the change of a returned slice was logged.
	reported bool
}

// startOf returns the address of a slice's first byte, nil if it is empty.
func startOf(p []byte) *byte {
	if len(p) == 0 {
		return nil
	}
	return &p[0]
}

// compare compares the memory of the held state with that of the next one. maybeChanged is
// set if the entity may have changed the held slice, so that comparing bytes shows nothing.
// reused is set if it has changed a slice that its Snapshot had returned.
func (m *sliceMemory) compare(held, next []byte) (maybeChanged, reused bool) {
	start := startOf(next)
	shares := start != nil && start == startOf(held)
	changed := m.hash != 0 && hashOfState(held) != m.hash
	overwritten := m.copies && start != nil && start == m.returned && !bytes.Equal(held, next)
	if shares || changed {
		m.copies = true
	}
	return changed || shares && m.hash == 0, changed || overwritten
}

// adoptState returns the slice to hold for a state. If hashed is set, the state gets a hash.
func (m *sliceMemory) adoptState(state []byte, hashed bool) []byte {
	m.returned, m.hash = startOf(state), 0
	if m.copies {
		state = bytes.Clone(state)
	}
	if hashed {
		m.hash = hashOfState(state)
	}
	return state
}

// hashOfState is never 0.
func hashOfState(state []byte) uint64 { return max(xxh3.Hash(state), 1) }
