package ddata

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// counterGrowthBytes is the maximum size of a writer's entry in a counter.
const counterGrowthBytes = 24

// GCounterKey returns the key of a counter that only grows.
func GCounterKey(name string) Key[GCounter, *GCounterTx] {
	return Key[GCounter, *GCounterTx]{name: name, typ: gCounterType{}}
}

// gCounterType implements dataType.
type gCounterType struct{}

// GCounter is an immutable snapshot of a counter that only grows.
type GCounter struct{ of state[*crdt.GCounter] }

// GCounterTx is a counter within an Update.
type GCounterTx struct {
	GCounter
	d *Data
	c changes[*crdt.GCounter]
}

func (k gCounterType) crdtKind() crdt.Kind { return crdt.KindGCounter }

func (k gCounterType) typedValue(v crdt.Value) (GCounter, error) {
	of, err := valueAs[crdt.GCounter](v, k.crdtKind())
	return GCounter{of: state[*crdt.GCounter]{v: of}}, err
}

func (k gCounterType) newTx(d *Data, v crdt.Value) (*GCounterTx, func() (operation.Plan, error), error) {
	of, err := k.typedValue(v)
	t := &GCounterTx{GCounter: of, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Count returns the sum of all additions that this replica has received.
func (c GCounter) Count() uint64 {
	if c.of.readValue() == nil {
		return 0
	}
	return c.of.readValue().Count()
}

// Add requests the addition of n.
func (t *GCounterTx) Add(n uint64) {
	node := crdt.NodeID(t.d.r.Self())
	t.c.addStep(counterGrowthBytes, func(c *crdt.GCounter) crdt.Value { return asValue(c.Add(node, n)) })
}

// PNCounterKey returns the key of a counter that can increase and decrease.
func PNCounterKey(name string) Key[PNCounter, *PNCounterTx] {
	return Key[PNCounter, *PNCounterTx]{name: name, typ: pnCounterType{}}
}

// pnCounterType implements dataType.
type pnCounterType struct{}

// PNCounter is an immutable snapshot of a counter that can increase and decrease.
type PNCounter struct{ of state[*crdt.PNCounter] }

// PNCounterTx is a counter within an Update.
type PNCounterTx struct {
	PNCounter
	d *Data
	c changes[*crdt.PNCounter]
}

func (k pnCounterType) crdtKind() crdt.Kind { return crdt.KindPNCounter }

func (k pnCounterType) typedValue(v crdt.Value) (PNCounter, error) {
	of, err := valueAs[crdt.PNCounter](v, k.crdtKind())
	return PNCounter{of: state[*crdt.PNCounter]{v: of}}, err
}

func (k pnCounterType) newTx(d *Data, v crdt.Value) (*PNCounterTx, func() (operation.Plan, error), error) {
	of, err := k.typedValue(v)
	t := &PNCounterTx{PNCounter: of, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Count returns the sum of all additions that this replica has received.
func (c PNCounter) Count() int64 {
	if c.of.readValue() == nil {
		return 0
	}
	return c.of.readValue().Count()
}

// Add requests the addition of n, which may be negative.
func (t *PNCounterTx) Add(n int64) {
	node := crdt.NodeID(t.d.r.Self())
	t.c.addStep(2*counterGrowthBytes, func(c *crdt.PNCounter) crdt.Value { return asValue(c.Add(node, n)) })
}
