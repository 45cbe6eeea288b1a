package crdt

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// typed returns a value of each container of integers, the frame that it makes, and what
// Decode must show of it.
func typed() []Value {
	set, grow, reg, mv := &ORSet[int]{}, &GSet[int]{}, &LWWRegister[int]{}, &MVRegister[int]{}
	entries, multi, counts, nested := &LWWMap[string, int]{}, &ORMultiMap[int, string]{}, &PNCounterMap[int]{}, &ORMap[string, int]{}
	for i := range 3 {
		set.Add(na, 65+i)
		grow.Add(65 + i)
		reg.Set(65+i, Stamp{Time: uint64(i + 1)})
		mv.Set(na, 65+i)
		entries.Set(fmt.Sprint(i), 65+i, Stamp{Time: uint64(i + 1)})
		multi.Add(na, 65, fmt.Sprint(i))
		counts.Add(na, 65+i, 1)
		nested.At("k", fmt.Sprint(i)).Add(na, 65+i)
	}
	return []Value{set, grow, reg, mv, entries, multi, counts, nested}
}

// A value whose types are not known here is read and written as the typed one, to the
// byte, and no value takes one of other elements for its own.
func TestElementKindsAreInTheHead(t *testing.T) {
	for _, v := range typed() {
		b := v.Append(nil)
		g, err := Decode(v.Kind(), b)
		if err != nil {
			t.Errorf("%v: %v", v.Kind(), err)
			continue
		}
		if g.Kind() != v.Kind() || !bytes.Equal(g.Append(nil), b) {
			t.Errorf("%v: read as %v, and written as\n%x not\n%x", v.Kind(), g.Kind(), g.Append(nil), b)
		}
		part, err := New(v.Kind())
		for chunk := range Split(g, 1) {
			if err == nil {
				_, err = part.Join(chunk)
			}
		}
		if err != nil || !bytes.Equal(part.Append(nil), b) || part.Digest() != g.Digest() {
			t.Errorf("%v: joined from its chunks: %v", v.Kind(), err)
		}
		var kind *KindError
		if _, err := Decode(v.Kind().base(), b); !errors.As(err, &kind) || kind.Want != v.Kind().base() || kind.Got != v.Kind() {
			t.Errorf("%v, read as one of strings: %v", v.Kind(), err)
		}
		strs, err := New(v.Kind().base())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := strs.Join(g); !errors.As(err, &kind) {
			t.Errorf("%v, joined with one of strings: %v", v.Kind(), err)
		}
	}
}

// The number of a kind that this version does not have is an error, not a value.
func TestUnknownKindsAreErrors(t *testing.T) {
	for _, k := range []Kind{13, 255, KindGCounter | 1<<8, KindORSet | 1<<12, KindORSet | 10<<8, KindLWWMap | 11<<12} {
		if v, err := New(k); err == nil || v != nil {
			t.Errorf("%d: %v, %v", uint16(k), v, err)
		}
		if got := k.String(); got != fmt.Sprintf("Kind(%d)", uint16(k)) {
			t.Errorf("%d is called %s", uint16(k), got)
		}
	}
	for k, want := range map[Kind]string{
		KindORMap.Of(ElementUUID, ElementCustom):      "ORMap[UUID,custom]",
		KindFlag.Of(ElementInt):                       "Flag",
		KindPNCounterMap.Of(ElementInt, ElementFloat): "PNCounterMap[int]",
	} {
		if k.String() != want {
			t.Errorf("%v, want %s", k, want)
		}
	}
}

// FuzzDecodeOfKind reads values of any element kinds, see FuzzDecode.
func FuzzDecodeOfKind(f *testing.F) {
	for _, v := range typed() {
		f.Add(uint16(v.Kind()), v.Append(nil))
	}
	f.Fuzz(func(t *testing.T, kind uint16, b []byte) { checkDecoded(t, Kind(kind), b) })
}
