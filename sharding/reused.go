package sharding

import (
	"bytes"
	"time"

	"github.com/zeebo/xxh3"
)

// The slice that a Snapshot returns belongs to the keeper, which compares the next one with it:
// equal states are not replicated. An entity that goes on changing the slice makes both equal.
// So a slice that begins where the one before began counts as a change, and from then on the
// states of that entity are copied. A slice that was changed, and is followed by another one,
// is found by a hash: on a strict node each state has one, elsewhere a sample of them.

// hashEvery: of so many states one gets a hash, on nodes that are not strict.
const hashEvery = 64

// reuse is what the keeper notes of the memory of an entity's states.
type reuse struct {
	// returned is where the slice that Snapshot returned last begins.
	returned *byte
	// copies: the entity was seen to return one slice twice, so its states are copied.
	copies bool
	// hash is that of the state when it was taken, 0 if none was.
	hash uint64
	// said: it was logged that the entity changes such slices.
	said bool
}

// startOf returns where a slice begins, nil if it is empty.
func startOf(p []byte) *byte {
	if len(p) == 0 {
		return nil
	}
	return &p[0]
}

// look compares the memory of held, the state that the keeper has, with that of the next one.
// unseen: the entity may have changed held, so that a comparison shows nothing. wrong: it has
// changed a slice that its Snapshot had returned.
func (r *reuse) look(held, next []byte) (unseen, wrong bool) {
	start := startOf(next)
	shares := start != nil && start == startOf(held)
	changed := r.hash != 0 && hashOfState(held) != r.hash
	overwritten := r.copies && start != nil && start == r.returned && !bytes.Equal(held, next)
	if shares || changed {
		r.copies = true
	}
	return changed || shares && r.hash == 0, changed || overwritten
}

// take returns what the keeper is to hold of a state. hashed: it is to have a hash.
func (r *reuse) take(state []byte, hashed bool) []byte {
	r.returned, r.hash = startOf(state), 0
	if r.copies {
		state = bytes.Clone(state)
	}
	if hashed {
		r.hash = hashOfState(state)
	}
	return state
}

// hashOfState is never 0.
func hashOfState(state []byte) uint64 { return max(xxh3.Hash(state), 1) }

// sayReused logs and counts that an entity changes what its Snapshot returned.
func (k *stateKeeper) sayReused(shard ShardID, id string, first bool) {
	k.counters().statesReused.Add(1)
	if !first {
		return
	}
	if unsaid, ok := k.reusedLines.Take(time.Now()); ok {
		k.s.log.Error("sharding: entity goes on changing the slice that its Snapshot returned; its state is copied from now on, an earlier change may not have been replicated; return a copy from Snapshot, and keep none of Restore's",
			"type", k.typ, "entity", id, "shard", shard, "unsaid", unsaid)
	}
}
