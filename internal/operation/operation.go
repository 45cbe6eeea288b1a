// Package operation describes the changes of keys that a replicator makes, and the
// replicator as package ddata uses it. Applications make operations with ddata.Change and
// ddata.Delete.
package operation

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/replicator"
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
	// Stamped is Apply for a change with Entries. above[i] is the newest Time of Entries[i]
	// at the replicas that answered: the change wins if its stamp is above. wall is the
	// clock to stamp by, in milliseconds of Unix time; 0 means the caller's own.
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

// Change is one state of a key as a subscriber sees it.
type Change struct {
	Key string
	// Value is a copy that belongs to the subscriber.
	Value crdt.Value
}

// Replicator is the interface through which package ddata uses a replicator.
type Replicator interface {
	Self() gossip.NodeID
	// WallTime returns the calendar time from which stamps are made.
	WallTime() time.Time
	Update(ctx context.Context, ops []Op, level replicator.Level, opts ...replicator.Option) error
	Get(ctx context.Context, keys []string, level replicator.Level, opts ...replicator.Option) ([]crdt.Value, error)
	View(ctx context.Context, key string, f func(crdt.Value)) error
	Keys(ctx context.Context, prefix string) ([]string, error)
	Subscribe(pattern string, f func(Change)) (cancel func())
	Status(ctx context.Context) (figures.Replicator, []figures.Replica, error)
}
