package operation_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// These tests check what the comments of Op, Plan and Fixed promise to an author of
// operations, with a replicator that has no peers.

type replica struct {
	core *replication.Core
	fx   replication.Effects
	ids  replication.RequestID
}

func newReplica(l replication.Limits) *replica {
	return &replica{core: replication.New(replication.Config{Self: 1, Limits: l})}
}

// update makes a request at level Local, and returns its outcome and the keys that changed.
func (r *replica) update(t *testing.T, ops ...operation.Op) (changed []string, err error) {
	t.Helper()
	r.ids++
	r.fx.Reset()
	r.core.Step(1, replication.Update{ID: r.ids, Ops: ops, Level: replicator.Local}, &r.fx)
	if len(r.fx.Reply) != 1 || r.fx.Reply[0].ID != r.ids {
		t.Fatalf("a request at level Local has the replies %+v", r.fx.Reply)
	}
	return slices.Clone(r.fx.Changed), r.fx.Reply[0].Err
}

func opOf(key string, kind crdt.Kind, p operation.Plan) operation.Op {
	return operation.Op{Key: key, Kind: kind, Plan: func(crdt.Value) (operation.Plan, error) { return p, nil }}
}

func add(key, element string) operation.Op {
	return opOf(key, crdt.KindORSet, operation.Plan{Growth: len(element), Apply: func(v crdt.Value) crdt.Value {
		if d := v.(*crdt.ORSet[string]).Add(1, element); d != nil {
			return d
		}
		return nil
	}})
}

func set(key string, yield bool, at uint64, value string) operation.Op {
	stamp := crdt.Stamp{Time: at, Node: 1}
	return opOf(key, crdt.KindLWWRegister, operation.Plan{
		Growth: 64, Fixed: []operation.Fixed{{Stamp: stamp, Value: value, Yield: yield}},
		Apply: func(v crdt.Value) crdt.Value {
			if d := v.(*crdt.LWWRegister[string]).Set(value, stamp); d != nil {
				return d
			}
			return nil
		},
	})
}

func TestOpsOfOneRequestGiveANewKeyOneKind(t *testing.T) {
	r := newReplica(replication.Limits{})
	if changed, err := r.update(t, add("new", "a"), set("new", false, 1, "b")); !errors.Is(err, replicator.ErrKind) || len(changed) > 0 {
		t.Errorf("two kinds for a new key: %v, changed %v", err, changed)
	}
	if _, err := r.update(t, add("new", "a"), add("new", "b"), set("other", false, 1, "b")); err != nil {
		t.Errorf("one kind for each of two keys: %v", err)
	}
}

func TestAMissingKeyShowsAsAnEmptyValueOfItsKind(t *testing.T) {
	r := newReplica(replication.Limits{})
	var sizes []int
	look := operation.Op{Key: "k", Kind: crdt.KindORSet, Plan: func(v crdt.Value) (operation.Plan, error) {
		s, ok := v.(*crdt.ORSet[string])
		if !ok {
			t.Fatalf("the plan sees a %T", v)
		}
		sizes = append(sizes, s.Len())
		return operation.Plan{}, nil
	}}
	for _, ops := range [][]operation.Op{{look}, {add("k", "a"), add("k", "b")}, {look}} {
		if _, err := r.update(t, ops...); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(sizes, []int{0, 2}) {
		t.Errorf("the plans see sets of %v elements, want 0 and 2", sizes)
	}
}

func TestAPlanWithoutApplyMakesNoChange(t *testing.T) {
	r := newReplica(replication.Limits{})
	changed, err := r.update(t, opOf("k", crdt.KindORSet, operation.Plan{Growth: 5}))
	if err != nil || len(changed) > 0 || len(r.core.Keys("")) > 0 {
		t.Errorf("changed %q, keys %q: %v", changed, r.core.Keys(""), err)
	}
}

// All ops are planned before the first is applied: an error of the last changes nothing.
func TestAnErrorOfOnePlanChangesNothing(t *testing.T) {
	r := newReplica(replication.Limits{})
	planned, wrong := 0, errors.New("wrong")
	counted := add("a", "x")
	plan := counted.Plan
	counted.Plan = func(v crdt.Value) (operation.Plan, error) {
		planned++
		return plan(v)
	}
	fails := operation.Op{Key: "b", Kind: crdt.KindORSet, Plan: func(crdt.Value) (operation.Plan, error) { return operation.Plan{}, wrong }}
	changed, err := r.update(t, counted, fails)
	if !errors.Is(err, wrong) || planned != 1 || len(changed) > 0 || len(r.core.Keys("")) > 0 {
		t.Errorf("planned %d times, changed %q, keys %q: %v", planned, changed, r.core.Keys(""), err)
	}
}

func TestDeleteIgnoresTheKindAndEndsTheValue(t *testing.T) {
	r := newReplica(replication.Limits{})
	if _, err := r.update(t, add("k", "a")); err != nil {
		t.Fatal(err)
	}
	gone := operation.Op{Key: "k", Kind: crdt.KindLWWRegister, Delete: true, Plan: func(crdt.Value) (operation.Plan, error) {
		t.Error("the plan of a deletion is called")
		return operation.Plan{}, nil
	}}
	if changed, err := r.update(t, gone); err != nil || !slices.Equal(changed, []string{"k"}) || r.core.Value("k") != nil {
		t.Errorf("changed %q, value %v: %v", changed, r.core.Value("k"), err)
	}
	// The key may be created again, also with another kind.
	if _, err := r.update(t, set("k", false, 5, "new")); err != nil {
		t.Errorf("the key cannot be created again: %v", err)
	}
}

// Growth is checked against the limit; a change that declares none always passes.
func TestGrowthIsWhatLimitsAreCheckedAgainst(t *testing.T) {
	r := newReplica(replication.Limits{ValueBytes: 100})
	large := add("k", "x")
	large.Plan = func(crdt.Value) (operation.Plan, error) {
		return operation.Plan{Growth: 101, Apply: func(crdt.Value) crdt.Value {
			t.Error("a change above the limit is applied")
			return nil
		}}, nil
	}
	var l *replicator.Error
	if _, err := r.update(t, large); !errors.As(err, &l) || l.Limit != "ValueBytes" || l.Got < 101 || l.Max != 100 {
		t.Errorf("a growth of 101 bytes: %v", err)
	}
	if _, err := r.update(t, add("k", string(make([]byte, 60)))); err != nil {
		t.Fatal(err)
	}
	remove := opOf("k", crdt.KindORSet, operation.Plan{Apply: func(v crdt.Value) crdt.Value {
		if d := v.(*crdt.ORSet[string]).Remove(string(make([]byte, 60))); d != nil {
			return d
		}
		return nil
	}})
	if changed, err := r.update(t, remove); err != nil || len(changed) != 1 {
		t.Errorf("a removal changes %q: %v", changed, err)
	}
}

// A write under an older stamp of the caller's is an error, unless it yields.
func TestAFixedStampThatLosesFailsUnlessItYields(t *testing.T) {
	r := newReplica(replication.Limits{})
	if _, err := r.update(t, set("k", false, 5, "five")); err != nil {
		t.Fatal(err)
	}
	var stale *replicator.Error
	if _, err := r.update(t, set("k", false, 4, "four")); !errors.As(err, &stale) || stale.Code != replicator.ErrStale || stale.Stamp.Time != 5 {
		t.Errorf("an older stamp: %v, want ErrStale with the stamp that stands", err)
	}
	if changed, err := r.update(t, set("k", true, 4, "four")); err != nil || len(changed) > 0 {
		t.Errorf("an older stamp that yields changes %q: %v", changed, err)
	}
	if v, _ := r.core.Value("k").(*crdt.LWWRegister[string]).Value(); v != "five" {
		t.Errorf("the register has %q", v)
	}
	if changed, err := r.update(t, set("k", true, 6, "six")); err != nil || len(changed) != 1 {
		t.Errorf("a newer stamp that yields changes %q: %v", changed, err)
	}
}

// Stamped sees the newest time of each of its entries, in their order, and 0 for new ones.
func TestStampedSeesTheTimesOfItsEntries(t *testing.T) {
	r := newReplica(replication.Limits{})
	var seen [][]uint64
	write := opOf("k", crdt.KindLWWMap, operation.Plan{
		Growth: 64, Entries: []string{"new", "old"},
		Stamped: func(v crdt.Value, above []uint64, wall uint64) crdt.Value {
			if seen = append(seen, slices.Clone(above)); wall != 0 {
				t.Errorf("the wall clock shows %d: this replicator has none", wall)
			}
			if d := v.(*crdt.LWWMap[string, string]).Set("old", "v", crdt.Stamp{Time: 9, Node: 1}); d != nil {
				return d
			}
			return nil
		},
	})
	for range 2 {
		if _, err := r.update(t, write); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 || !slices.Equal(seen[0], []uint64{0, 0}) || !slices.Equal(seen[1], []uint64{0, 9}) {
		t.Errorf("the times are %v, want 0 and 0, then 0 and 9", seen)
	}
}
