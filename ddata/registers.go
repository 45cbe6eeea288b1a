package ddata

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// LWWRegisterKey returns the key of a single value. The last write wins.
func LWWRegisterKey[V any](name string) Key[LWWRegister[V], *LWWRegisterTx[V]] {
	return Key[LWWRegister[V], *LWWRegisterTx[V]]{name: name, typ: lwwRegisterType[V]{}}
}

// lwwRegisterType implements dataType.
type lwwRegisterType[V any] struct{}

// LWWRegister is an immutable snapshot of a register.
type LWWRegister[V any] struct {
	of  state[*crdt.LWWRegister[string]]
	enc asString[V]
}

// LWWRegisterTx is a register within an Update.
type LWWRegisterTx[V any] struct {
	LWWRegister[V]
	d *Data
	c changes[*crdt.LWWRegister[string]]
}

func (k lwwRegisterType[V]) crdtKind() crdt.Kind { return crdt.KindLWWRegister.Of(elementKind[V]()) }

func (k lwwRegisterType[V]) typedValue(v crdt.Value) (r LWWRegister[V], err error) {
	if r.enc, err = stringly[V](); err != nil {
		return r, err
	}
	r.of.v, err = valueAs[crdt.LWWRegister[string]](v, crdt.KindLWWRegister.Of(r.enc.kind))
	return r, err
}

func (k lwwRegisterType[V]) newTx(d *Data, v crdt.Value) (*LWWRegisterTx[V], func() (operation.Plan, error), error) {
	r, err := k.typedValue(v)
	t := &LWWRegisterTx[V]{LWWRegister: r, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Value returns the value, and whether the register has a value of type V.
func (r LWWRegister[V]) Value() (v V, ok bool) {
	if r.of.readValue() == nil {
		return v, false
	}
	s, ok := r.of.readValue().Value()
	if !ok {
		return v, false
	}
	v, err := r.enc.decodeElement(s)
	return v, err == nil
}

// Stamp returns the stamp of the value, the zero Stamp if there is none.
func (r LWWRegister[V]) Stamp() crdt.Stamp {
	if r.of.readValue() == nil {
		return crdt.Stamp{}
	}
	return r.of.readValue().Stamp()
}

// Set requests that the value be v. The write wins over everything that this node has seen.
// Above level Local, it also wins over everything that was acknowledged at that level
// before Update began. Writes that overlap in time are ordered by the nodes' hybrid logical
// clocks.
func (t *LWWRegisterTx[V]) Set(v V) {
	s := t.enc.encodeElement(v)
	t.c.addStampedStep(t.d, "", len(s)+elementOverheadBytes, func(r *crdt.LWWRegister[string], at crdt.Stamp) crdt.Value { return asValue(r.Set(s, at)) })
}

// SetAt requests that the value be v, under the caller's stamp. The update fails with
// replicator.ErrStale if the register has a newer stamp, here or at a replica that the
// write reaches, or the same stamp with another value. With the same stamp and value it
// succeeds. It fails with replicator.ErrAhead if at.Time, read as a time of a crdt.HLC,
// is more than a minute in the future.
func (t *LWWRegisterTx[V]) SetAt(v V, at crdt.Stamp) {
	s := t.enc.encodeElement(v)
	t.c.addFixedStep(operation.Fixed{Stamp: at, Value: s}, len(s)+elementOverheadBytes, func(r *crdt.LWWRegister[string]) crdt.Value { return asValue(r.Set(s, at)) })
}

// MVRegisterKey returns the key of a register that keeps all values that were written
// concurrently, so that the application can choose.
func MVRegisterKey[V comparable](name string) Key[MVRegister[V], *MVRegisterTx[V]] {
	return Key[MVRegister[V], *MVRegisterTx[V]]{name: name, typ: mvRegisterType[V]{}}
}

// mvRegisterType implements dataType.
type mvRegisterType[V comparable] struct{}

// MVRegister is an immutable snapshot of a register.
type MVRegister[V comparable] struct {
	of  state[*crdt.MVRegister[string]]
	enc asString[V]
}

// MVRegisterTx is a register within an Update.
type MVRegisterTx[V comparable] struct {
	MVRegister[V]
	d *Data
	c changes[*crdt.MVRegister[string]]
}

func (k mvRegisterType[V]) crdtKind() crdt.Kind { return crdt.KindMVRegister.Of(elementKind[V]()) }

func (k mvRegisterType[V]) typedValue(v crdt.Value) (r MVRegister[V], err error) {
	if r.enc, err = stringly[V](); err != nil {
		return r, err
	}
	r.of.v, err = valueAs[crdt.MVRegister[string]](v, crdt.KindMVRegister.Of(r.enc.kind))
	return r, err
}

func (k mvRegisterType[V]) newTx(d *Data, v crdt.Value) (*MVRegisterTx[V], func() (operation.Plan, error), error) {
	r, err := k.typedValue(v)
	t := &MVRegisterTx[V]{MVRegister: r, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Values returns the values: none, one, or all that were written concurrently.
func (r MVRegister[V]) Values() []V {
	if r.of.readValue() == nil {
		return nil
	}
	var out []V
	for _, s := range r.of.readValue().Values() {
		if v, err := r.enc.decodeElement(s); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// Set requests that v replace all values that this node has seen.
func (t *MVRegisterTx[V]) Set(v V) {
	s, node := t.enc.encodeElement(v), crdt.NodeID(t.d.r.Self())
	t.c.addStep(len(s)+elementOverheadBytes, func(r *crdt.MVRegister[string]) crdt.Value { return asValue(r.Set(node, s)) })
}

// Clear requests the removal of all values that this node has seen.
func (t *MVRegisterTx[V]) Clear() {
	t.c.addStep(0, func(r *crdt.MVRegister[string]) crdt.Value { return asValue(r.Clear()) })
}
