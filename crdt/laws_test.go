package crdt

import (
	"testing"

	"pgregory.net/rapid"
)

// states returns values of a type in various states of one world: related, partly
// merged, with deltas among them.
func states(t *rapid.T, sub *subject) []Value {
	w := newWorld(sub, 3)
	length := rapid.IntRange(0, 150).Draw(t, "length")
	script := rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, "script")
	choose := func(n int) int {
		if len(script) == 0 || n < 2 {
			return 0
		}
		k := int(script[0]) % n
		script = script[1:]
		return k
	}
	for len(script) > 0 {
		w.step(choose)
	}
	var out []Value
	for _, r := range w.reps {
		out = append(out, r.v)
	}
	for _, m := range w.bag {
		out = append(out, m.v)
	}
	return append(out, sub.fresh())
}

func joined(t *rapid.T, vs ...Value) Value {
	out := vs[0].Clone()
	for _, v := range vs[1:] {
		if _, err := out.Join(v); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestJoinLaws(t *testing.T) {
	for _, sub := range subjects() {
		t.Run(sub.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				vs := states(t, sub)
				pick := func(name string) Value { return vs[rapid.IntRange(0, len(vs)-1).Draw(t, name)] }
				a, b, c := pick("a"), pick("b"), pick("c")
				law := func(name string, x, y Value) {
					if !same(x, y) || sub.view(x) != sub.view(y) {
						t.Fatalf("not %s: %s and %s", name, sub.view(x), sub.view(y))
					}
				}
				law("commutative", joined(t, a, b), joined(t, b, a))
				law("associative", joined(t, joined(t, a, b), c), joined(t, a, joined(t, b, c)))
				law("idempotent", joined(t, a, a.Clone()), a)
				law("absorbing", joined(t, a, b, b, a), joined(t, a, b))
				law("neutral at nothing", joined(t, sub.fresh(), a), a)
				law("neutral to nothing", joined(t, a, sub.fresh()), a)
			})
		})
	}
}

// TestNothingIsShared changes every value that took part in a join, and looks at the
// others.
func TestNothingIsShared(t *testing.T) {
	for _, sub := range subjects() {
		t.Run(sub.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				vs := states(t, sub)
				a := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "a")].Clone()
				b := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "b")].Clone()
				bytesOfB := string(b.Append(nil))
				if _, err := a.Join(b); err != nil {
					t.Fatal(err)
				}
				copyOfA := a.Clone()
				var parts []Value
				for p := range Split(a, 60) {
					parts = append(parts, p)
				}
				bytesOfA := string(a.Append(nil))
				unchanged := func(when string) {
					if string(b.Append(nil)) != bytesOfB || string(copyOfA.Append(nil)) != bytesOfA {
						t.Fatalf("%s: a value changed that nobody touched", when)
					}
				}
				w := newWorld(sub, 1)
				r := w.reps[0]
				for i := range sub.ops {
					r.v = a
					d, _ := sub.ops[i].do(w, r)
					if d == nil {
						continue
					}
					bytesNow := string(a.Append(nil))
					for j := range sub.ops {
						r.v = d
						sub.ops[j].do(w, r)
					}
					if string(a.Append(nil)) != bytesNow {
						t.Fatal("changing a delta changed the value it came from")
					}
					unchanged("after an operation")
				}
				for _, p := range parts {
					r.v = p
					for i := range sub.ops {
						sub.ops[i].do(w, r)
					}
				}
				unchanged("after changing parts")
			})
		})
	}
}

// TestArgumentsAreCopied changes slices after they were handed over, and what was
// handed out.
func TestArgumentsAreCopied(t *testing.T) {
	p := []byte("first")
	stamp := Stamp{Time: 1}
	var reg LWWRegister[[]byte]
	delta := reg.Set(p, stamp)
	var m LWWMap[string, []byte]
	mapDelta := m.Set("k", p, stamp)
	peer := m.Clone().(*LWWMap[string, []byte])
	var joined LWWMap[string, []byte]
	joined.Merge(mapDelta, nil)
	copy(p, "other")
	got := func(v []byte, ok bool) string { return string(v) }
	for name, s := range map[string]string{
		"register": got(reg.Value()), "its delta": got(delta.Value()), "map": got(m.Get("k")),
		"map delta": got(mapDelta.Get("k")), "clone": got(peer.Get("k")), "joined": got(joined.Get("k")),
	} {
		if s != "first" {
			t.Errorf("%s holds %q: it kept the caller's slice", name, s)
		}
	}
	v, _ := joined.Get("k")
	copy(v, "xxxxx")
	if got(mapDelta.Get("k")) != "first" || got(m.Get("k")) != "first" {
		t.Error("a join shares memory with what it joined")
	}
}
