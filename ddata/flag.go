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

func (k flagType) kind() crdt.Kind { return crdt.KindFlag }

func (k flagType) value(v crdt.Value) (Flag, error) {
	of, err := valueAs[crdt.Flag](v, k.kind())
	return Flag{of: state[*crdt.Flag]{v: of}}, err
}

func (k flagType) tx(d *Data, v crdt.Value) (*FlagTx, func() (operation.Plan, error), error) {
	of, err := k.value(v)
	t := &FlagTx{Flag: of, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Enabled reports whether the flag is on.
func (f Flag) Enabled() bool { return f.of.get() != nil && f.of.get().Enabled() }

// Enable requests that the flag be on.
func (t *FlagTx) Enable() {
	node := crdt.NodeID(t.d.r.Self())
	t.c.add(elementOverheadBytes, func(f *crdt.Flag) crdt.Value { return delta(f.Enable(node)) })
}

// Disable requests that the flag be off.
func (t *FlagTx) Disable() {
	t.c.add(0, func(f *crdt.Flag) crdt.Value { return delta(f.Disable()) })
}
