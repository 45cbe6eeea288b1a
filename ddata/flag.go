package ddata

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// FlagKey returns the key of a flag. Enabling wins over a concurrent disabling.
func FlagKey(name string) Key[Flag, *FlagTx] {
	return Key[Flag, *FlagTx]{name: name, typ: flagType{}}
}

// flagType implements dataType.
type flagType struct{}

// Flag is an immutable snapshot of a flag.
type Flag struct{ of state[*crdt.Flag] }

// FlagTx is a flag within an Update.
type FlagTx struct {
	Flag
	d *Data
	c changes[*crdt.Flag]
}

func (k flagType) crdtKind() crdt.Kind { return crdt.KindFlag }

func (k flagType) typedValue(v crdt.Value) (Flag, error) {
	of, err := valueAs[crdt.Flag](v, k.crdtKind())
	return Flag{of: state[*crdt.Flag]{v: of}}, err
}

func (k flagType) newTx(d *Data, v crdt.Value) (*FlagTx, func() (operation.Plan, error), error) {
	of, err := k.typedValue(v)
	t := &FlagTx{Flag: of, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Enabled reports whether the flag is on.
func (f Flag) Enabled() bool { return f.of.readValue() != nil && f.of.readValue().Enabled() }

// Enable requests that the flag be on.
func (t *FlagTx) Enable() {
	node := crdt.NodeID(t.d.r.Self())
	t.c.addStep(elementOverheadBytes, func(f *crdt.Flag) crdt.Value { return asValue(f.Enable(node)) })
}

// Disable requests that the flag be off.
func (t *FlagTx) Disable() {
	t.c.addStep(0, func(f *crdt.Flag) crdt.Value { return asValue(f.Disable()) })
}
