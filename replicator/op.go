package replicator

import (
	"time"

	"github.com/peerage-go/peerage/crdt"
)

// Op is a change of one key.
type Op struct {
	Key string
	// Kind is the data type that the key has, or gets.
	Kind crdt.Kind
	// Plan decides the change from the key's value, which it must neither change nor keep.
	// A key that does not exist shows as an empty value of Kind. All ops of a request are
	// planned before the first is applied, so an error changes nothing. A plan without
	// Apply and Stamped makes no change.
	Plan func(current crdt.Value) (Plan, error)
	// Delete removes the key instead. Its value is gone even if concurrent updates change
	// it, and the key may be created again. Kind and Plan are ignored.
	Delete bool
}

// Plan is a change that has been decided and cannot fail.
type Plan struct {
	// Growth is the approximate number of bytes by which the value may grow. Limits are
	// checked against it. A change that removes has 0 and always passes.
	Growth int
	// Blind means that the change does not depend on the value on which it was decided.
	Blind bool
	// Apply changes value in place and returns the delta, which Apply must not touch
	// again; nil means that nothing changed.
	Apply func(value crdt.Value) (delta crdt.Value)
	// Entries of a last-write-wins value which the change stamps; "" is that of a
	// register. Above level Local, other replicas are asked for their stamps before the
	// change is made.
	Entries []string
	// Stamped is Apply for a change with Entries. above[i] is the newest Time of
	// Entries[i] at the replicas that answered: the change wins if its stamp is above. Wall is the clock to
	// stamp by, in milliseconds of Unix time; 0 means the caller's own.
	Stamped func(value crdt.Value, above []uint64, wall uint64) (delta crdt.Value)
	// Fixed are the writes under the caller's stamps that Apply makes. If a change of a
	// last-write-wins value declares none, Apply first runs on a copy, to check its stamps.
	Fixed []Fixed
}

// Fixed is a write under a stamp of the caller, or the deletion of an entry.
type Fixed struct {
	// Entry is "" for a register.
	Entry  string
	Stamp  crdt.Stamp
	Value  string
	Delete bool
	// Yield makes the write do nothing, and not fail, where a newer stamp stands.
	Yield bool
}

// Fence bars writers that have been replaced. The zero Fence is none.
type Fence struct {
	// Group names the subject of the term, for example a coordinator.
	Group string
	// Term grows with every holder of the office. It is at most an epoch of a view: a
	// replica rejects a term whose generation (Term>>32) is more than
	// gossip.GenerationsAhead above that of its view, and a request with it fails with a
	// *LimitError.
	Term uint64
}

// Zero reports whether there is no fence.
func (f Fence) Zero() bool { return f.Group == "" && f.Term == 0 }

// Option changes one request.
type Option func(*Options)

// Options are the settings of one request.
type Options struct {
	Fence Fence
}

// WithFence makes replicas that have a higher term of the group reject the request, which
// then fails with *FencedError. A fenced Get raises the term at the replicas that answer
// it.
func WithFence(f Fence) Option { return func(o *Options) { o.Fence = f } }

// Change is one state of a key as a subscriber sees it.
type Change struct {
	Key string
	// Value is a copy that belongs to the subscriber.
	Value crdt.Value
}

// Expiry deletes the keys that begin with Prefix if no write has changed them for After.
// The most senior voter of the role measures this time on its own clock, from the newest
// change that it has received, or from the time at which it received the key. So After
// begins again when the role changes its most senior voter, and may be doubled by one that
// has lost contact with the other members. Expiry is a deletion like any other: it wins over
// a concurrent update of the key.
type Expiry struct {
	Prefix string
	After  time.Duration
}
