package ddata

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator"
)

// Level says how many replicas a request needs, this one included.
type Level = replicator.Level

// The levels that most requests use. MajorityPlus and To make others.
const (
	// Local asks this replica alone. It never waits, and works without a lease; all
	// other levels wait for one.
	Local = replicator.Local
	// Majority asks more than half of the voting members.
	Majority = replicator.PlainMajority
	// All asks every voting member.
	All = replicator.All
)

// MajorityPlus asks min(N, max(N/2+1+plus, minCap)) of N voting members.
func MajorityPlus(plus, minCap int) Level { return replicator.Majority(plus, minCap) }

// To asks n replicas.
func To(n int) Level { return replicator.To(n) }

// Replicator is what this package needs of one; *replicator.Replicator is it.
type Replicator interface {
	Self() view.NodeID
	// WallTime returns the calendar time that stamps are made of.
	WallTime() time.Time
	Update(ctx context.Context, ops []replicator.Op, level Level, opts ...replicator.Option) error
	Get(ctx context.Context, keys []string, level Level, opts ...replicator.Option) ([]crdt.Value, error)
	View(ctx context.Context, key string, f func(crdt.Value)) error
	Keys(ctx context.Context, prefix string) ([]string, error)
	Subscribe(pattern string, f func(replicator.Change)) (cancel func())
}

// Data is the typed face of one replicator. Safe for concurrent use.
type Data struct {
	r      Replicator
	stamps stamps
}

// New returns the typed face of r. It needs no closing.
func New(r Replicator) *Data { return &Data{r: r, stamps: stamps{wall: r.WallTime}} }

// Key names a value and its type: V is the value that Get returns, T the
// transaction that Update hands to its function. The types of this package whose
// names end in Key implement it.
type Key[V, T any] interface {
	// Name returns the name under which the replicator holds the key.
	Name() string
	kind() crdt.Kind
	// value makes the typed face of v, which may be nil.
	value(v crdt.Value) (V, error)
	// tx makes a transaction over v, and the plan that it ends in.
	tx(d *Data, v crdt.Value) (T, func() (replicator.Plan, error), error)
}

// Update changes the value of key as fn says, here first and then at as many
// replicas as level asks for; nil means that so many have it. Fn runs on the caller's
// goroutine and on a snapshot, delays no other caller, and may use Data; it must not keep its
// argument. It runs again, up to 8 times, when the key was changed on this node or deleted
// meanwhile (unless it has not looked at its argument), so it should have no effects but
// what it asks for. Then Update fails with replicator.ErrContended, as it does for an
// Update of the same key within fn.
func Update[V, T any](ctx context.Context, d *Data, key Key[V, T], level Level, fn func(T) error, opts ...replicator.Option) error {
	return d.Update(ctx, level, []replicator.Op{Change(d, key, fn)}, opts...)
}

// Change returns the op of an Update, for requests of several keys.
func Change[V, T any](d *Data, key Key[V, T], fn func(T) error) replicator.Op {
	return replicator.Op{Key: key.Name(), Kind: key.kind(), Plan: func(v crdt.Value) (replicator.Plan, error) {
		t, plan, err := key.tx(d, v)
		if err != nil {
			return replicator.Plan{}, err
		}
		if err := fn(t); err != nil {
			return replicator.Plan{}, err
		}
		return plan()
	}}
}

// Update makes the changes of all ops, or none; see Change. Each replica that the write
// reaches applies them in one step. One that missed it and is brought up to date later,
// as a newcomer is, takes over key by key, and so do reads that find something new: a Local
// read there may see some of the changes before the others. A Majority read of all the
// keys sees all of them, once Update has returned nil at Majority.
func (d *Data) Update(ctx context.Context, level Level, ops []replicator.Op, opts ...replicator.Option) error {
	return d.r.Update(ctx, ops, level, opts...)
}

// Get returns the value of key as of level, empty if the key does not exist. It
// is a copy: later changes do not show in it. View reads without one. It fails with *crdt.KindError, which names
// both kinds, if the key holds another data type, or one of other elements: ORSet[int] is
// not ORSet[string], while all structs are of one kind.
func Get[V, T any](ctx context.Context, d *Data, key Key[V, T], level Level, opts ...replicator.Option) (V, error) {
	vs, err := d.r.Get(ctx, []string{key.Name()}, level, opts...)
	if err != nil {
		var zero V
		return zero, err
	}
	v, err := key.value(vs[0])
	if err != nil {
		return v, fmt.Errorf("ddata: key %q: %w", key.Name(), err)
	}
	return v, nil
}

// View calls fn with the value of key as it stands on this node, as of level Local, empty if
// the key does not exist. It makes no copy, so its cost does not depend on the value's size;
// but the next change of a value that fn is still reading does make one. Fn must not keep
// its argument. It runs on the caller's goroutine and on a snapshot, delays no other caller,
// and may use Data. The error is that of Get, or fn's own.
func View[V, T any](ctx context.Context, d *Data, key Key[V, T], fn func(V) error) error {
	var verr error
	err := d.r.View(ctx, key.Name(), func(v crdt.Value) {
		face, err := key.value(v)
		if err != nil {
			verr = fmt.Errorf("ddata: key %q: %w", key.Name(), err)
			return
		}
		verr = fn(face)
	})
	if err != nil {
		return err
	}
	return verr
}

// Subscribe calls fn with the value of key: first the one that exists now, if
// any, then after changes. Changes that come while fn runs are coalesced, and fn
// never sees an older state after a newer one. A value of another type than
// key's is not shown, a deleted one as an empty one. The name must not end in "*": see
// SubscribePrefix. Cancel ends the subscription and does not wait for a
// running fn.
func Subscribe[V, T any](d *Data, key Key[V, T], fn func(V)) (cancel func()) {
	return d.r.Subscribe(key.Name(), func(c replicator.Change) {
		if v, err := key.value(c.Value); err == nil {
			fn(v)
		}
	})
}

// SubscribePrefix is Subscribe for all keys of key's type whose names begin with key's:
// fn learns which one it is shown.
func SubscribePrefix[V, T any](d *Data, key Key[V, T], fn func(name string, value V)) (cancel func()) {
	return d.r.Subscribe(key.Name()+"*", func(c replicator.Change) {
		if v, err := key.value(c.Value); err == nil {
			fn(c.Key, v)
		}
	})
}

// Delete returns the op that ends keys, for Data.Update: their values are gone,
// whatever updates of them run at the same time elsewhere, and the keys may be
// created again.
func Delete(names ...string) []replicator.Op {
	ops := make([]replicator.Op, len(names))
	for i, name := range names {
		ops[i] = replicator.Op{Key: name, Delete: true}
	}
	return ops
}

// Keys returns the names of all keys that begin with prefix, sorted.
func (d *Data) Keys(ctx context.Context, prefix string) ([]string, error) {
	return d.r.Keys(ctx, prefix)
}
