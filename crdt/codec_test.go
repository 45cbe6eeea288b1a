package crdt

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// signed is a codec of a caller's: what it wrote can be told from what ours write.
type signed struct{}

func (signed) Append(b []byte, s string) []byte { return stringCodec{}.Append(b, "by hand: "+s) }

func (signed) Decode(b []byte) (string, int, error) {
	s, n, err := stringCodec{}.Decode(b)
	if err == nil && !bytes.HasPrefix([]byte(s), []byte("by hand: ")) {
		err = errors.New("not by hand")
	}
	if err != nil {
		return "", n, err
	}
	return s[len("by hand: "):], n, nil
}

// Every type that holds a caller's elements takes codecs of the caller's, for all of them,
// and keeps them through clones, deltas, merges and encodings.
func TestOwnCodecsAreUsedThroughout(t *testing.T) {
	const node = NodeID(7)
	stamp := Stamp{Time: 1, Node: node, Seq: 1}
	type decoder interface{ Decode([]byte) error }
	for name, tc := range map[string]struct {
		fresh func() Value
		// write returns the delta of a write.
		write func(Value) Value
		holds func(Value) bool
		// elements is how many of them are encoded.
		elements int
	}{
		"GSet": {
			func() Value { return NewGSet[string](signed{}) },
			func(v Value) Value { return v.(*GSet[string]).Add("x") },
			func(v Value) bool { return v.(*GSet[string]).Contains("x") }, 1,
		},
		"ORSet": {
			func() Value { return NewORSet[string](signed{}) },
			func(v Value) Value { return v.(*ORSet[string]).Add(node, "x") },
			func(v Value) bool { return v.(*ORSet[string]).Contains("x") }, 1,
		},
		"LWWRegister": {
			func() Value { return NewLWWRegister[string](signed{}) },
			func(v Value) Value { return v.(*LWWRegister[string]).Set("x", stamp) },
			func(v Value) bool { x, ok := v.(*LWWRegister[string]).Value(); return ok && x == "x" }, 1,
		},
		"MVRegister": {
			func() Value { return NewMVRegister[string](signed{}) },
			func(v Value) Value { return v.(*MVRegister[string]).Set(node, "x") },
			func(v Value) bool { return slices.Equal(v.(*MVRegister[string]).Values(), []string{"x"}) }, 1,
		},
		"LWWMap": {
			func() Value { return NewLWWMap[string, string](signed{}, signed{}) },
			func(v Value) Value { return v.(*LWWMap[string, string]).Set("k", "x", stamp) },
			func(v Value) bool { x, ok := v.(*LWWMap[string, string]).Get("k"); return ok && x == "x" }, 2,
		},
		"ORMap": {
			func() Value { return NewORMap[string, string](signed{}, signed{}) },
			func(v Value) Value { return v.(*ORMap[string, string]).At("k").Set(node, "x") },
			func(v Value) bool {
				return slices.Equal(v.(*ORMap[string, string]).At("k").Values(), []string{"x"})
			}, 2,
		},
		"ORMultiMap": {
			func() Value { return NewORMultiMap[string, string](signed{}, signed{}) },
			func(v Value) Value { return v.(*ORMultiMap[string, string]).Add(node, "k", "x") },
			func(v Value) bool { return v.(*ORMultiMap[string, string]).Contains("k", "x") }, 2,
		},
		"PNCounterMap": {
			func() Value { return NewPNCounterMap[string](signed{}) },
			func(v Value) Value { return v.(*PNCounterMap[string]).Add(node, "x", 3) },
			func(v Value) bool { n, ok := v.(*PNCounterMap[string]).Count("x"); return ok && n == 3 }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := tc.fresh()
			delta := tc.write(v)
			decoded, merged := tc.fresh(), tc.fresh()
			if err := decoded.(decoder).Decode(v.Append(nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := merged.Join(delta); err != nil {
				t.Fatal(err)
			}
			for how, got := range map[string]Value{"written": v, "cloned": v.Clone(), "decoded": decoded, "merged": merged} {
				if !tc.holds(got) || got.Digest() != v.Digest() {
					t.Errorf("%s: it does not hold what was written", how)
				}
				if n := bytes.Count(got.Append(nil), []byte("by hand: ")); n != tc.elements {
					t.Errorf("%s: %d elements in %q are by the caller's codec, want %d", how, n, got.Append(nil), tc.elements)
				}
			}
		})
	}
}
