package ddata

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// state is the value behind a typed snapshot. It notes that the function of an update has
// read it: the requested changes then depend on the value.
type state[C any] struct {
	v      C
	looked *bool // of a transaction; nil in a snapshot of Get or Subscribe
}

func (s state[C]) noteRead() {
	if s.looked != nil {
		*s.looked = true
	}
}

func (s state[C]) readValue() C {
	s.noteRead()
	return s.v
}

// changes collects the changes that a transaction requests. All of them are applied
// together to a value of type C.
type changes[C crdt.Value] struct {
	steps  []func(C) crdt.Value
	growth int
	looked bool
	// entries are the entries that steps stamp, each as often as it is stamped. above has
	// their newest stamps that this node has seen when the steps are applied.
	entries []string
	above   []uint64
	// wall is the clock for stamps, in milliseconds of Unix time; 0 means this node's.
	wall uint64
	// fixed are the steps under stamps of the caller.
	fixed []operation.Fixed
}

// addStep requests a step. The step returns its delta, or nil for none.
func (c *changes[C]) addStep(growth int, step func(C) crdt.Value) {
	c.growth += growth
	c.steps = append(c.steps, step)
}

// addStampedStep requests a step under a stamp that wins over the entry's.
func (c *changes[C]) addStampedStep(d *Data, entry string, growth int, step func(C, crdt.Stamp) crdt.Value) {
	i := len(c.entries)
	c.entries = append(c.entries, entry)
	c.addStep(growth, func(v C) crdt.Value { return step(v, d.stampAbove(c.above[i], c.wall)) })
}

// addFixedStep requests a step under the caller's stamp.
func (c *changes[C]) addFixedStep(f operation.Fixed, growth int, step func(C) crdt.Value) {
	c.fixed = append(c.fixed, f)
	c.addStep(growth, step)
}

func (c *changes[C]) plan() (operation.Plan, error) {
	if len(c.steps) == 0 {
		return operation.Plan{}, nil
	}
	p := operation.Plan{Growth: c.growth, Blind: !c.looked, Fixed: c.fixed}
	if len(c.entries) == 0 {
		p.Apply = c.applySteps
		return p, nil
	}
	p.Entries = c.entries
	p.Stamped = func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
		c.above, c.wall = above, wall
		return c.applySteps(v)
	}
	return p, nil
}

func (c *changes[C]) applySteps(v crdt.Value) crdt.Value {
	var sum crdt.Value
	for _, step := range c.steps {
		d := step(v.(C))
		switch {
		case d == nil:
		case sum == nil:
			sum = d
		default:
			// Both are deltas of one type, so the join cannot fail.
			_, _ = sum.Join(d)
		}
	}
	return sum
}

// asValue hides a nil pointer of a concrete type, which would not equal nil as a
// crdt.Value.
func asValue[T any, P interface {
	*T
	crdt.Value
}](d P) crdt.Value {
	if d == nil {
		return nil
	}
	return d
}

// valueAs returns v as a C of kind want, or a new one if v is nil.
func valueAs[T any, P interface {
	*T
	crdt.Value
}](v crdt.Value, want crdt.Kind) (P, error) {
	if v == nil {
		return P(new(T)), nil
	}
	p, ok := v.(P)
	if !ok || p.Kind() != want {
		return nil, &crdt.KindError{Want: want, Got: v.Kind()}
	}
	return p, nil
}
