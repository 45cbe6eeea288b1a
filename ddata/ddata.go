package ddata

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// Level is the number of replicas that a request needs, including this one.
type Level = replicator.Level

// The levels that most requests use; see also MajorityPlus and To.
const (
	// Local needs only this replica. It never waits, and works without a lease; all other
	// levels wait for a lease.
	Local = replicator.Local
	// Majority needs more than half of the voting members.
	Majority = replicator.PlainMajority
	// All needs every voting member.
	All = replicator.All
)

// MajorityPlus needs min(N, max(N/2+1+plus, minCap)) of N voting members.
func MajorityPlus(plus, minCap int) Level { return replicator.Majority(plus, minCap) }

// To needs n replicas.
func To(n int) Level { return replicator.To(n) }

// Data gives typed access to the replicated data of one role; Node.Data of package peerage
// returns it. The zero Data has no replicator: its use panics. Data is safe for concurrent
// use.
type Data struct {
	r      operation.Replicator
	stamps stamps
}

// Internal implements door.Opener: package peerage connects a new Data to its replicator.
func (d *Data) Internal(target any) (found bool) {
	t, found := target.(*func(operation.Replicator))
	if found {
		*t = d.connectTo
	}
	return found
}

func (d *Data) connectTo(r operation.Replicator) { d.r, d.stamps.wall = r, r.WallTime }

// Key is the name and the type of a value. Get returns a V; the function of Update receives
// a T, the transaction. The functions of this package whose names end in Key return a Key.
// Keys of one type are equal if their names are. The zero Key has no type: its use panics.
type Key[V, T any] struct {
	name string
	typ  dataType[V, T]
}

// Name returns the name of the key in the replicator.
func (k Key[V, T]) Name() string { return k.name }

// String returns the name.
func (k Key[V, T]) String() string { return k.name }

// dataType is the data type of a key.
type dataType[V, T any] interface {
	crdtKind() crdt.Kind
	// value wraps v, which may be nil, in its typed form.
	typedValue(v crdt.Value) (V, error)
	// tx returns a transaction over v, and a function that returns its plan.
	newTx(d *Data, v crdt.Value) (T, func() (operation.Plan, error), error)
}

// Update changes the value of key as fn requests, first here, then at as many replicas as
// level requires. nil means that this many replicas have the change.
//
// fn runs on the caller's goroutine and on a snapshot. It delays no other caller, and may
// use Data, but it must not keep its argument. If the key was changed on this node or
// deleted while fn ran, fn runs again, up to 8 times, unless it has not read its argument.
// So fn should have no effects except its requests. After 8 runs Update fails with
// replicator.ErrContended, as it does for an Update of the same key within fn.
func Update[V, T any](ctx context.Context, d *Data, key Key[V, T], level Level, fn func(T) error, opts ...replicator.Option) error {
	return d.Update(ctx, level, []Op{Change(d, key, fn)}, opts...)
}

// Op is a change of one key: Change and Delete return it, and Data.Update makes several in
// one request.
type Op struct{ op operation.Op }

// Change returns the operation of an Update, for requests that change several keys.
func Change[V, T any](d *Data, key Key[V, T], fn func(T) error) Op {
	return Op{operation.Op{Key: key.name, Kind: key.typ.crdtKind(), Plan: func(v crdt.Value) (operation.Plan, error) {
		t, plan, err := key.typ.newTx(d, v)
		if err != nil {
			return operation.Plan{}, err
		}
		if err := fn(t); err != nil {
			return operation.Plan{}, err
		}
		return plan()
	}}}
}

// Update makes the changes of all ops, or none; see Change.
//
// Each replica that the write reaches applies all of them in one step. A replica that
// missed the write catches up key by key, as a new member does, and so do reads that find
// newer values. So a Local read there may see some of the changes before the rest. Once
// Update has returned nil at Majority, a Majority read of all the keys sees all changes.
func (d *Data) Update(ctx context.Context, level Level, ops []Op, opts ...replicator.Option) error {
	requested := make([]operation.Op, len(ops))
	for i, o := range ops {
		requested[i] = o.op
	}
	return d.r.Update(ctx, requested, level, opts...)
}

// Get returns the value of key at the given level, empty if the key does not exist. The
// value is a copy, so later changes do not show in it. It costs little, because a copy shares
// memory with the value until one of them changes; View reads without a copy.
//
// Get fails with a *crdt.KindError, which names both kinds, if the key holds another data
// type or elements of another kind. ORSet[int] differs from ORSet[string], but all structs
// are of one kind.
func Get[V, T any](ctx context.Context, d *Data, key Key[V, T], level Level, opts ...replicator.Option) (V, error) {
	vs, err := d.r.Get(ctx, []string{key.name}, level, opts...)
	if err != nil {
		var zero V
		return zero, err
	}
	v, err := key.typ.typedValue(vs[0])
	if err != nil {
		return v, fmt.Errorf("ddata: key %q: %w", key.name, err)
	}
	return v, nil
}

// View calls fn with the value of key on this node (level Local), empty if the key does not
// exist. It makes no copy, so its cost does not depend on the value's size. But if the
// value is changed while fn is reading it, that change makes a copy as Get does.
//
// fn runs on the caller's goroutine and on a snapshot, delays no other caller, and may use
// Data. It must not keep its argument. View returns the errors of Get, or the error of fn.
func View[V, T any](ctx context.Context, d *Data, key Key[V, T], fn func(V) error) error {
	var verr error
	err := d.r.View(ctx, key.name, func(v crdt.Value) {
		face, err := key.typ.typedValue(v)
		if err != nil {
			verr = fmt.Errorf("ddata: key %q: %w", key.name, err)
			return
		}
		verr = fn(face)
	})
	if err != nil {
		return err
	}
	return verr
}

// Subscribe calls fn with the current value of key, if it exists, and then after changes.
// Changes that arrive while fn runs are coalesced. Within one incarnation of the node, fn
// never sees an older state after a newer one. A node that was removed and joined again
// receives its state from other members, so fn may see older states again until the node has
// caught up. fn does not see values of another type than key's. A deleted key shows as an
// empty value. The name must not end in "*": see SubscribePrefix. cancel ends the
// subscription and does not wait for a running fn.
func Subscribe[V, T any](d *Data, key Key[V, T], fn func(V)) (cancel func()) {
	return d.r.Subscribe(key.name, func(c operation.Change) {
		if v, err := key.typ.typedValue(c.Value); err == nil {
			fn(v)
		}
	})
}

// SubscribePrefix is Subscribe for all keys of key's type whose names begin with key's
// name. fn also receives the name of each key.
func SubscribePrefix[V, T any](d *Data, key Key[V, T], fn func(name string, value V)) (cancel func()) {
	return d.r.Subscribe(key.name+"*", func(c operation.Change) {
		if v, err := key.typ.typedValue(c.Value); err == nil {
			fn(c.Key, v)
		}
	})
}

// Delete returns the operations that delete keys, for Data.Update. Their values are gone,
// whatever updates of them run concurrently on other nodes. The keys may be created again.
func Delete(names ...string) []Op {
	ops := make([]Op, len(names))
	for i, name := range names {
		ops[i].op = operation.Op{Key: name, Delete: true}
	}
	return ops
}

// Keys returns the names of all keys that begin with prefix, sorted.
func (d *Data) Keys(ctx context.Context, prefix string) ([]string, error) {
	return d.r.Keys(ctx, prefix)
}
