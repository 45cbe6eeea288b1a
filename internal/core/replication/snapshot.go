package replication

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// Snapshots
//
// The function of an update runs outside the core, on a snapshot of each of its keys. The
// shell hands the plans to the core together with the snapshots, and the core compares:
//
//	nothing has changed       the plan is applied
//	only merges have come     the plan is applied to the snapshot and the delta joined:
//	                          the same as if the merges had come a moment later
//	changed here, or deleted  ErrContended: the shell runs the function anew
//
// A plan that does not depend on the value (Plan.Blind) is always applied.
//
// A snapshot is the very value that the core holds, and costs nothing. The core makes a
// copy before it changes a value that is still held by a snapshot.

// Snapshot is the state of one key, for readers outside the core. Value is nil if the key
// does not exist; it must not be changed, and is safe for concurrent readers until the
// snapshot is released.
type Snapshot struct {
	Key   string
	Value crdt.Value

	era              uint8
	version, written uint64
	pins             *pins
	released         bool
}

// pins counts the snapshots that hold a value.
type pins struct{ n int }

// Snapshot returns the state of a key. It must be released: with the Update in which it
// is one of Bases, or by Release.
func (c *Core) Snapshot(key string) *Snapshot {
	s := &Snapshot{Key: key}
	it := c.store.get(key)
	if it == nil {
		return s
	}
	s.Value, s.era, s.version, s.written = it.value, it.era, it.version, it.written
	if it.value == nil {
		return s
	}
	if it.pins == nil {
		it.pins = &pins{}
		// Build the index of values that do so when they are first read: readers outside
		// must not, all at the same time.
		switch m := it.value.(type) {
		case *crdt.ORMap[string, string]:
			m.Len()
		case *crdt.ORMultiMap[string, string]:
			m.Keys()
		case *crdt.PNCounterMap[string]:
			m.Len()
		}
	}
	it.pins.n++
	s.pins = it.pins
	return s
}

// Release ends a snapshot. Idempotent.
func (c *Core) Release(s *Snapshot) {
	if s != nil && !s.released && s.pins != nil {
		s.pins.n--
	}
	if s != nil {
		s.released = true
	}
}

// plannedOp is an op with the snapshot on which its plan was decided, nil if the plan decides
// within the step.
type plannedOp struct {
	replicator.Op
	base *Snapshot
}

// plannedOps pairs the ops of an update with their snapshots.
func (u *Update) plannedOps() []plannedOp {
	out := make([]plannedOp, len(u.Ops))
	for i := range u.Ops {
		out[i].Op = u.Ops[i]
		if i < len(u.Bases) {
			out[i].base = u.Bases[i]
		}
	}
	return out
}

func (c *Core) releaseAll(ops []plannedOp) {
	for i := range ops {
		c.Release(ops[i].base)
	}
}

// own makes the value the core's alone, so that it may be changed.
func (it *item) own() {
	if it.pins != nil && it.pins.n > 0 && it.value != nil {
		it.value = it.value.Clone()
	}
	it.pins = nil
}

// replace gives the item another value.
func (it *item) replace(v crdt.Value) { it.value, it.pins = v, nil }

// unchanged reports whether the key is as the snapshot shows it.
func (s *Snapshot) unchanged(it *item) bool {
	if it == nil {
		return s.version == 0
	}
	return it.version == s.version
}

// onlyMerged reports whether all that has happened to the key since the snapshot is that
// others' changes were merged.
func (s *Snapshot) onlyMerged(it *item) bool {
	return it != nil && s.Value != nil && it.value != nil && it.written == s.written && it.value.Kind() == s.Value.Kind()
}

// Decide runs the op's plan on a snapshot of its key.
func Decide(op *replicator.Op, s *Snapshot) (replicator.Plan, error) {
	return planOn(op, s.Value)
}

// planOn runs the op's plan on a value, which may be nil.
func planOn(op *replicator.Op, current crdt.Value) (p replicator.Plan, err error) {
	if current == nil {
		if current, err = crdt.New(op.Kind); err != nil {
			return p, fmt.Errorf("%w: key %q: %w", replicator.ErrPlan, op.Key, err)
		}
	} else if current.Kind() != op.Kind {
		return p, &replicator.KindError{Key: op.Key, Have: current.Kind(), Want: op.Kind}
	}
	if op.Plan == nil {
		return p, nil
	}
	if p, err = op.Plan(current); err != nil {
		return p, fmt.Errorf("%w: key %q: %w", replicator.ErrPlan, op.Key, err)
	}
	return p, nil
}

// fits fails if a plan has to be decided anew. An op whose key is among those before it
// is not applied to its snapshot: both would make the same dots.
func fits(before []plannedOp, op *plannedOp, p *replicator.Plan, it *item) error {
	b := op.base
	if b == nil || p.Blind || b.unchanged(it) {
		return nil
	}
	twice := slices.ContainsFunc(before, func(o plannedOp) bool { return o.Key == op.Key })
	if twice || !b.onlyMerged(it) {
		return fmt.Errorf("%w: key %q has changed", replicator.ErrContended, op.Key)
	}
	return nil
}

// applyTo carries a plan out on v, a value in an era, or on its base if that is still needed,
// and returns the delta.
func (c *Core) applyTo(v crdt.Value, era uint8, op *plannedOp, p *replicator.Plan, above Newest) crdt.Value {
	target := v
	if b := op.base; b != nil && !b.released && b.Value != nil {
		target = lifted(b.Value.Clone(), b.era, era)
		c.Release(b)
	}
	var d crdt.Value
	if p.Stamped != nil {
		d = p.Stamped(target, above.Times, c.stampWall())
	} else if p.Apply != nil {
		d = p.Apply(target)
	}
	if isNil(d) {
		return nil
	}
	if target != v {
		// Both are of one kind (onlyMerged), so the join cannot fail.
		_, _ = v.Join(d)
	}
	return d
}
