package ddata

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// alone returns the Data of a replicator that has no peers.
func alone(t *testing.T) *Data {
	r := replica.New(replica.Config{Self: 7, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	t.Cleanup(func() { r.Close() })
	return dataOf(r)
}

// dataOf returns a Data that uses r.
func dataOf(r operation.Replicator) *Data {
	d := new(Data)
	d.connectTo(r)
	return d
}

func TestAnUpdateThatFailsChangesNothing(t *testing.T) {
	d, key, no := alone(t), ORSetKey[string]("k"), errors.New("no")
	err := Update(t.Context(), d, key, Local, func(s *ORSetTx[string]) error {
		s.Add("x")
		if s.Contains("x") {
			t.Error("the transaction shows what it has only asked for")
		}
		return no
	})
	if !errors.Is(err, no) || !errors.Is(err, replicator.ErrPlan) {
		t.Errorf("err = %v", err)
	}
	if keys, err := d.Keys(t.Context(), ""); len(keys) != 0 || err != nil {
		t.Errorf("keys %q, %v", keys, err)
	}
}

func TestReadYourWrites(t *testing.T) {
	d, key := alone(t), ORSetKey[int]("k")
	for i := range 100 {
		if err := Update(t.Context(), d, key, Local, func(s *ORSetTx[int]) error {
			s.Add(i)
			s.Remove(i - 1)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if s, err := Get(t.Context(), d, key, Local); err != nil || !slices.Equal(s.Elements(), []int{i}) {
			t.Fatalf("after %d: %v, %v", i, s.Elements(), err)
		}
	}
}

func TestElementsOfManyTypes(t *testing.T) {
	type point struct{ X, Y int }
	checkElements(t, "", "ada", "01234567-89ab-cdef-0123-456789abcdef")
	checkElements(t, -5, 0, 1<<40)
	checkElements(t, uint8(3), 255)
	checkElements(t, [16]byte{1}, [16]byte{})
	checkElements(t, point{1, 2}, point{-1, 0})
	checkElements(t, true, false)
}

func checkElements[E comparable](t *testing.T, es ...E) {
	t.Helper()
	d, key := alone(t), ORSetKey[E]("k")
	if err := Update(t.Context(), d, key, Local, func(s *ORSetTx[E]) error {
		for _, e := range es {
			s.Add(e)
		}
		return nil
	}); err != nil {
		t.Errorf("%T: %v", es[0], err)
		return
	}
	s, err := Get(t.Context(), d, key, Local)
	if err != nil || s.Len() != len(es) {
		t.Errorf("%T: %v, %v", es[0], s.Elements(), err)
	}
	for _, e := range es {
		if !s.Contains(e) {
			t.Errorf("%T: %v is missing", e, e)
		}
	}
}

func TestTypeWithoutAnEncodingIsAnError(t *testing.T) {
	d := alone(t)
	err := Update(t.Context(), d, ORSetKey[chan int]("k"), Local, func(s *ORSetTx[chan int]) error { return nil })
	if err == nil {
		t.Error("no error")
	}
	if _, err := Get(t.Context(), d, ORSetKey[chan int]("k"), Local); err == nil {
		t.Error("no error")
	}
}

// Structs are of one kind, whatever their fields: what another one left is left out.
func TestElementsOfAnotherStructAreLeftOut(t *testing.T) {
	type word struct{ X string }
	type number struct{ X int }
	d := alone(t)
	must(t, Update(t.Context(), d, ORSetKey[word]("k"), Local, func(s *ORSetTx[word]) error { s.Add(word{"not a number"}); return nil }))
	must(t, Update(t.Context(), d, ORSetKey[number]("k"), Local, func(s *ORSetTx[number]) error { s.Add(number{4}); return nil }))
	s, err := Get(t.Context(), d, ORSetKey[number]("k"), Local)
	if err != nil || !slices.Equal(s.Elements(), []number{{4}}) {
		t.Errorf("%v %v", s.Elements(), err)
	}
	if err := Update(t.Context(), d, FlagKey("k"), Local, func(f *FlagTx) error { return nil }); !errors.Is(err, replicator.ErrKind) {
		t.Errorf("err = %v", err)
	}
	var got *crdt.KindError
	if _, err := Get(t.Context(), d, FlagKey("k"), Local); !errors.As(err, &got) {
		t.Errorf("err = %v", err)
	}
}

// A stamp from a clock that is half a minute ahead is overwritten, and neither pins its
// entry nor drags this node's clock along.
func TestStampFromTheFutureIsOverwrittenAndNotFollowed(t *testing.T) {
	d, key := alone(t), LWWMapKey[string, string]("k")
	ahead := uint64(time.Now().Add(30*time.Second).UnixMilli()) << 16
	set := func(k, v string) {
		must(t, Update(t.Context(), d, key, Local, func(m *LWWMapTx[string, string]) error { m.Set(k, v); return nil }))
	}
	must(t, Update(t.Context(), d, key, Local, func(m *LWWMapTx[string, string]) error {
		m.SetAt("a", "theirs", crdt.Stamp{Time: ahead, Node: 9, Seq: 1})
		return nil
	}))
	set("a", "ours")
	set("b", "other")
	m, err := Get(context.Background(), d, key, Local)
	must(t, err)
	if v, _ := m.Get("a"); v != "ours" {
		t.Errorf("a = %q", v)
	}
	if s, _ := m.Stamp("b"); s.Time >= ahead {
		t.Error("the clock followed")
	}
}

func TestTwoSetsInOneTransactionTheLaterWins(t *testing.T) {
	d, key := alone(t), LWWRegisterKey[int]("k")
	must(t, Update(t.Context(), d, key, Local, func(r *LWWRegisterTx[int]) error {
		r.Set(1)
		r.Set(2)
		return nil
	}))
	r, err := Get(t.Context(), d, key, Local)
	if v, ok := r.Value(); v != 2 || !ok || err != nil {
		t.Errorf("%d %t %v", v, ok, err)
	}
}

func TestDeletedKeyShowsAsEmptyAndComesBack(t *testing.T) {
	d, key := alone(t), GCounterKey("k")
	add := func(n uint64) {
		must(t, Update(t.Context(), d, key, Local, func(c *GCounterTx) error { c.Add(n); return nil }))
	}
	add(5)
	must(t, d.Update(t.Context(), Local, Delete("k", "never was")))
	c, err := Get(t.Context(), d, key, Local)
	if c.Count() != 0 || err != nil {
		t.Errorf("%d %v", c.Count(), err)
	}
	add(2)
	if c, _ := Get(t.Context(), d, key, Local); c.Count() != 2 {
		t.Errorf("%d after it came back", c.Count())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An entry was deleted by a clock far ahead of this node's, and its tombstone is
// forgotten here, though not yet by a replica that was busy. A value that is set now was
// set after that deletion, and wins over it.
func TestSetWinsOverADeletionThatIsForgottenHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := replica.New(replica.Config{Self: 7, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
		defer r.Close()
		r.SetView(&gossip.View{Epoch: gossip.FirstEpoch(1), Members: []gossip.Member{{Node: gossip.Node{ID: 7}, Status: gossip.Up}}})
		d, key := dataOf(r), LWWMapKey[string, string]("k")
		ahead := crdt.Stamp{Time: uint64(time.Now().Add(3*time.Second).UnixMilli()) << 16, Node: 9, Seq: 1}
		elsewhere := &crdt.LWWMap[string, string]{}
		elsewhere.Delete("a", ahead)
		must(t, Update(t.Context(), d, key, Local, func(m *LWWMapTx[string, string]) error {
			m.Set("other", "stays")
			m.DeleteAt("a", ahead)
			return nil
		}))
		for {
			m, err := Get(t.Context(), d, key, Local)
			must(t, err)
			if _, remembered := m.Stamp("a"); !remembered {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		must(t, Update(t.Context(), d, key, Local, func(m *LWWMapTx[string, string]) error { m.Set("a", "new"); return nil }))
		m, err := Get(t.Context(), d, key, Local)
		must(t, err)
		elsewhere.Merge(m.of.v, nil)
		if v, _ := elsewhere.Get("a"); v != "new" {
			t.Errorf("the deletion has won: %q", v)
		}
	})
}
