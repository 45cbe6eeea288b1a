package ddata

import (
	"strings"
	"testing"

	"github.com/peerage-go/peerage/crdt"
)

// wrong checks that a key of other element types is refused when it is read and when it is
// written, and that both kinds are named; a key of the same is not.
func wrong[V1, T1, V2, T2 any](t *testing.T, names string, written Key[V1, T1], read Key[V2, T2], write func(T1) error) {
	t.Helper()
	d := alone(t)
	if err := Update(t.Context(), d, written, Local, write); err != nil {
		t.Fatalf("%s: the first write: %v", names, err)
	}
	if _, err := Get(t.Context(), d, written, Local); err != nil {
		t.Errorf("%s: a read of the type that was written: %v", names, err)
	}
	v, err := Get(t.Context(), d, read, Local)
	werr := Update(t.Context(), d, read, Local, func(T2) error { return nil })
	for _, err := range []error{err, werr} {
		if err == nil {
			t.Errorf("%s: no error, but %v", names, v)
			continue
		}
		for name := range strings.SplitSeq(names, " ") {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: the error says %q", names, err)
			}
		}
	}
}

// Elements of one type that were read as another gave garbage, or went missing, without
// an error.
func TestOtherElementTypesAreRefused(t *testing.T) {
	type name string
	type point struct{ X, Y int }
	wrong(t, "ORSet[int] ORSet[string]", ORSetKey[int]("k"), ORSetKey[string]("k"), func(s *ORSetTx[int]) error { s.Add(65); return nil })
	wrong(t, "ORSet[string] ORSet[int]", ORSetKey[string]("k"), ORSetKey[int]("k"), func(s *ORSetTx[string]) error { s.Add("A"); return nil })
	wrong(t, "ORSet[bool] ORSet[struct]", ORSetKey[bool]("k"), ORSetKey[point]("k"), func(s *ORSetTx[bool]) error { s.Add(true); return nil })
	wrong(t, "GSet[int] GSet[uint]", GSetKey[int]("k"), GSetKey[uint8]("k"), func(s *GSetTx[int]) error { s.Add(-1); return nil })
	wrong(t, "LWWMap[string,int] LWWMap[string,float]", LWWMapKey[string, int]("k"), LWWMapKey[string, float64]("k"), func(m *LWWMapTx[string, int]) error { m.Set("a", 1); return nil })
	wrong(t, "LWWMap[string,int] LWWMap[int,int]", LWWMapKey[string, int]("k"), LWWMapKey[int, int]("k"), func(m *LWWMapTx[string, int]) error { m.Set("a", 1); return nil })
	wrong(t, "LWWRegister[UUID] LWWRegister[list]", LWWRegisterKey[[16]byte]("k"), LWWRegisterKey[[]string]("k"), func(r *LWWRegisterTx[[16]byte]) error { r.Set([16]byte{1}); return nil })
	wrong(t, "MVRegister[int] MVRegister[string]", MVRegisterKey[int]("k"), MVRegisterKey[name]("k"), func(r *MVRegisterTx[int]) error { r.Set(1); return nil })
	wrong(t, "ORMultiMap[string,int] ORMultiMap[string,string]", ORMultiMapKey[string, int]("k"), ORMultiMapKey[string, string]("k"), func(m *ORMultiMapTx[string, int]) error { m.Add("a", 1); return nil })
	wrong(t, "PNCounterMap[int] PNCounterMap[string]", PNCounterMapKey[int]("k"), PNCounterMapKey[string]("k"), func(m *PNCounterMapTx[int]) error { m.Add(1, 1); return nil })
	wrong(t, "ORMap[string,int] ORMap[string,string]", ORMapKey[string, int]("k"), ORMapKey[string, string]("k"), func(m *ORMapTx[string, int]) error { m.At("a").Add(1); return nil })
	wrong(t, "ORSet[int] Flag", ORSetKey[int]("k"), FlagKey("k"), func(s *ORSetTx[int]) error { s.Add(65); return nil })
}

// Types with one encoding are one kind: a set of names is a set of strings.
func TestTypesOfOneEncodingAreOneKind(t *testing.T) {
	type name string
	type id int32
	d := alone(t)
	add(t, d, ORSetKey[name]("names"), "ada")
	add(t, d, ORSetKey[string]("names"), "bob")
	if s, err := Get(t.Context(), d, ORSetKey[name]("names"), Local); err != nil || s.Len() != 2 || !s.Contains("ada") || !s.Contains("bob") {
		t.Errorf("%v, %v", s.Elements(), err)
	}
	add(t, d, ORSetKey[id]("ids"), 7)
	if s, err := Get(t.Context(), d, ORSetKey[int]("ids"), Local); err != nil || !s.Contains(7) {
		t.Errorf("%v, %v", s.Elements(), err)
	}
	if k := ORSetKey[id]("ids").typ.crdtKind(); k != crdt.KindORSet.Of(crdt.ElementInt) {
		t.Error(k)
	}
}

func add[E comparable](t *testing.T, d *Data, key Key[ORSet[E], *ORSetTx[E]], e E) {
	t.Helper()
	if err := Update(t.Context(), d, key, Local, func(s *ORSetTx[E]) error { s.Add(e); return nil }); err != nil {
		t.Fatal(err)
	}
}
