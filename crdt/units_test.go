package crdt

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
	"github.com/peerage-go/peerage/internal/crdt/dots"
)

// TestSpansAreASet compares the interval set with a plain one.
func TestSpansAreASet(t *testing.T) {
	const top = 3 * dots.BlockLen
	rapid.Check(t, func(t *rapid.T) {
		draw := func() (spans, map[uint64]bool) {
			var s spans
			plain := map[uint64]bool{}
			for range rapid.IntRange(0, 12).Draw(t, "n") {
				from := rapid.Uint64Range(1, top).Draw(t, "from")
				to := min(from+rapid.Uint64Range(0, 40).Draw(t, "len"), top)
				fresh := false
				for q := from; q <= to; q++ {
					fresh = fresh || !plain[q]
					plain[q] = true
				}
				out, at, _ := s.addRange(from, to)
				if s = out; (at >= 0) != fresh {
					t.Fatalf("add %d..%d: new %v, must be %v", from, to, at >= 0, fresh)
				}
			}
			return s, plain
		}
		s, a := draw()
		u, b := draw()
		both := maps.Clone(a)
		maps.Copy(both, b)
		sameSet(t, s, a)
		sameSet(t, s.union(u), both)
		covers := true
		for q := range b {
			covers = covers && a[q]
		}
		if s.covers(u) != covers {
			t.Fatalf("%v covers %v: %v", s, u, !covers)
		}
		p := canonical.Blob{B: s.append(nil), OK: true}
		if back := readSpans(&p); !p.Done() || !slices.Equal(back, s) {
			t.Fatalf("%v came back as %v", s, back)
		}
	})
}

func sameSet(t *rapid.T, s spans, plain map[uint64]bool) {
	if s.count() != uint64(len(plain)) {
		t.Fatalf("%v counts %d, must be %d", s, s.count(), len(plain))
	}
	for key := uint64(0); key <= 3; key++ {
		m := s.mask(key)
		for low := range uint64(dots.BlockLen) {
			q := key<<dots.BlockBits + low
			if s.has(q) != plain[q] || m.Has(low) != plain[q] {
				t.Fatalf("%v: has(%d) is %v, mask %v", s, q, s.has(q), m.Has(low))
			}
		}
	}
	for i := range s {
		if i > 0 && s[i-1].to+1 >= s[i].from {
			t.Fatalf("not canonical: %v", s)
		}
	}
}

// TestChangesAreTheDifference compares what joins report with what a reader sees.
func TestChangesAreTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := states(t, orsetSubject())
		a := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "a")].Clone().(*ORSet[string])
		b := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "b")].(*ORSet[string])
		before := a.Elements()
		var ch Changes[string]
		a.Merge(b, &ch)
		checkChanges(t, before, a.Elements(), ch)
	})
	rapid.Check(t, func(t *rapid.T) {
		vs := states(t, mapSubject())
		a := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "a")].Clone().(*ORMap[string, string])
		b := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "b")].(*ORMap[string, string])
		before := a.Keys()
		var ch Changes[string]
		a.Merge(b, &ch)
		checkChanges(t, before, a.Keys(), ch)
	})
	rapid.Check(t, func(t *rapid.T) {
		vs := states(t, multiSubject())
		a := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "a")].Clone().(*ORMultiMap[string, string])
		b := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "b")].(*ORMultiMap[string, string])
		keys := func() []string { return a.indexByKey().Keys() }
		before := keys()
		var ch Changes[string]
		a.Merge(b, &ch)
		checkChanges(t, before, keys(), ch)
	})
	rapid.Check(t, func(t *rapid.T) {
		vs := states(t, lwwMapSubject())
		a := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "a")].Clone().(*LWWMap[string, string])
		b := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "b")].(*LWWMap[string, string])
		before := slices.Collect(maps.Keys(maps.Collect(a.All())))
		var ch Changes[string]
		a.Merge(b, &ch)
		checkChanges(t, before, slices.Collect(maps.Keys(maps.Collect(a.All()))), ch)
	})
}

func checkChanges(t *rapid.T, before, after []string, ch Changes[string]) {
	var added, removed []string
	for _, k := range after {
		if !slices.Contains(before, k) {
			added = append(added, k)
		}
	}
	for _, k := range before {
		if !slices.Contains(after, k) {
			removed = append(removed, k)
		}
	}
	if unique(added) != unique(ch.Added) || unique(removed) != unique(ch.Removed) ||
		len(added) != len(ch.Added) || len(removed) != len(ch.Removed) {
		t.Fatalf("%v became %v, reported %+v", before, after, ch)
	}
	for _, k := range ch.Updated {
		if !slices.Contains(before, k) || !slices.Contains(after, k) {
			t.Fatalf("updated %s was not there before and after", k)
		}
	}
}

type (
	userID  string
	level   int8
	port    uint16
	traceID [16]byte
)

// TestElementTypes sends sets of all kinds of elements over the wire.
func TestElementTypes(t *testing.T) {
	trip(t, "a", "", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "F81D4FAE-7dec-11d0-a765-00a0c91e6bf6",
		"f81d4fae-7dec-11d0-a765x00a0c91e6bf6", string(bytes.Repeat([]byte("x"), 300)), string(make([]byte, 70000)))
	trip[int](t, 0, -1, -32, -33, 127, 128, -128, -129, 1<<15, -1<<15-1, 1<<31, -1<<31-1, 1<<63-1, -1<<63)
	trip[int8](t, -128, 127, 0)
	trip[int16](t, -1<<15, 1<<15-1)
	trip[int32](t, -1<<31, 1<<31-1)
	trip[int64](t, -1<<63, 1<<63-1)
	trip[uint](t, 0, 1<<64-1)
	trip[uint8](t, 0, 255)
	trip[uint16](t, 0, 256, 65535)
	trip[uint32](t, 65536, 1<<32-1)
	trip[uint64](t, 1<<32, 1<<64-1)
	trip(t, true, false)
	trip(t, [16]byte{1}, [16]byte{2})
	trip(t, userID("u"), userID("v"))
	trip(t, level(-3), level(3))
	trip(t, port(80), port(8080))
	trip(t, traceID{9}, traceID{8})
	trip(t, record{1, "b", [2]int64{1, 2}}, record{})
	trip(t, [3]string{"a", "b", "c"})
}

func trip[E comparable](t *testing.T, elems ...E) {
	t.Helper()
	var s, back ORSet[E]
	var g GSet[E]
	for i, e := range elems {
		s.Add(NodeID(i%2+1), e)
		g.Add(e)
	}
	b := s.Append(nil)
	if err := back.Decode(b); err != nil {
		t.Fatalf("%T: %v", elems, err)
	}
	for _, e := range elems {
		if !back.Contains(e) {
			t.Fatalf("%T: %v is lost", elems, e)
		}
	}
	if !same(&s, &back) {
		t.Fatalf("%T: another set came back", elems)
	}
	var g2 GSet[E]
	if err := g2.Decode(g.Append(nil)); err != nil || !same(&g, &g2) {
		t.Fatalf("%T: GSet: %v", elems, err)
	}
	if dot, ok := any(s).(interface{ Size() int }); ok && dot.Size() < len(b) {
		t.Fatalf("%T: size %d for %d bytes", elems, dot.Size(), len(b))
	}
	el := elementOf[E]()
	for _, e := range elems {
		enc := el.codec.Append(nil, e)
		if _, n := el.hashAndSize(e); n != len(enc) && enc[0] != canonical.FixExt16 || n < len(enc) {
			t.Fatalf("%T: %v measures %d, encodes as %d bytes", elems, e, n, len(enc))
		}
		var out any
		if enc[0] != canonical.FixExt16 {
			if err := msgpack.Unmarshal(enc, &out); err != nil {
				t.Fatalf("%T: %v is no msgpack: %v", elems, e, err)
			}
		}
	}
}

// TestTypesWithoutCanonicalEncoding are refused when a value is made, or first used.
func TestTypesWithoutCanonicalEncoding(t *testing.T) {
	refused := func(name string, err error) {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	_, err := DefaultCodec[map[int]string]()
	refused("map", err)
	_, err = DefaultCodec[any]()
	refused("interface", err)
	_, err = DefaultCodec[*int]()
	refused("pointer", err)
	_, err = DefaultCodec[struct{ x int }]()
	refused("hidden field", err)
	_, err = DefaultCodec[[]map[string]string]()
	refused("map inside", err)
	defer func() {
		if recover() == nil {
			t.Error("a set of pointers worked")
		}
	}()
	var s ORSet[*int]
	s.Add(na, nil)
}

// TestSlicesInsideValuesAreCopied is for values that msgpack encodes.
func TestSlicesInsideValuesAreCopied(t *testing.T) {
	type list struct{ Names []string }
	var m LWWMap[string, list]
	mine := list{[]string{"a"}}
	d := m.Set("k", mine, Stamp{Time: 1})
	mine.Names[0] = "b"
	for _, x := range []*LWWMap[string, list]{&m, d} {
		if v, _ := x.Get("k"); fmt.Sprint(v.Names) != "[a]" {
			t.Fatalf("holds %v", v.Names)
		}
	}
	var back LWWMap[string, list]
	if err := back.Decode(m.Append(nil)); err != nil || back.Digest() != m.Digest() {
		t.Fatal(err)
	}
}

// TestManyWriters uses more writers than are searched one by one, and forgets some.
func TestManyWriters(t *testing.T) {
	var s ORSet[int]
	for i := range 500 {
		s.Add(NodeID(i+1), i)
	}
	dead := func(n NodeID) bool { return n%2 == 0 }
	for i := range 500 {
		if dead(NodeID(i + 1)) {
			s.Remove(i)
		}
	}
	if g := s.Garbage(dead); g.Items != 250 || !s.Prune(g, dead) {
		t.Fatalf("garbage %+v", g)
	}
	for i := range 300 {
		s.Add(NodeID(10_000+i), i+1000)
	}
	if err := consistentSet(&s); err != nil || s.Len() != 550 {
		t.Fatalf("%d elements: %v", s.Len(), err)
	}
	if n := len(s.full.columns); n > 560 {
		t.Fatalf("%d columns: those of the dead are not used again", n)
	}
}

// TestTooManyWriters is what keeps peers from filling a value with writers.
func TestTooManyWriters(t *testing.T) {
	var a, b ORSet[int]
	for i := range NodeID(40) {
		a.Add(i, 1)
		b.Add(i+20, 1)
	}
	var limit *LimitError
	if err := a.full.room(&b.full.causal, 59); !errors.As(err, &limit) || limit.Declared != 60 {
		t.Fatalf("59 writers at most: %v", err)
	}
	if err := a.full.room(&b.full.causal, 60); err != nil {
		t.Fatalf("60 writers at most: %v", err)
	}
}

// TestJoinWithNothing joins nil pointers of every type.
func TestJoinWithNothing(t *testing.T) {
	for _, x := range [][2]Value{
		{&GCounter{}, (*GCounter)(nil)}, {&PNCounter{}, (*PNCounter)(nil)}, {&GSet[int]{}, (*GSet[int])(nil)},
		{&Flag{}, (*Flag)(nil)}, {&LWWRegister[int]{}, (*LWWRegister[int])(nil)}, {&MVRegister[int]{}, (*MVRegister[int])(nil)},
		{&ORSet[int]{}, (*ORSet[int])(nil)}, {&LWWMap[int, int]{}, (*LWWMap[int, int])(nil)}, {&ORMap[int, int]{}, (*ORMap[int, int])(nil)},
		{&ORMultiMap[int, int]{}, (*ORMultiMap[int, int])(nil)}, {&PNCounterMap[int]{}, (*PNCounterMap[int])(nil)},
		{&VersionVector{}, (*VersionVector)(nil)},
	} {
		if changed, err := x[0].Join(x[1]); changed || err != nil {
			t.Errorf("kind %d joined with nothing: %v, %v", x[0].Kind(), changed, err)
		}
		if _, err := x[0].Join(nil); err == nil {
			t.Errorf("kind %d joined with no Value at all", x[0].Kind())
		}
	}
}

// TestLargeSets passes growth, dense blocks, giving memory back, and chunks.
func TestLargeSets(t *testing.T) {
	s := benchSet(30_000)
	peer := copyOf(s)
	for _, i := range scattered(30_000)[:28_000] {
		s.Remove(benchID(i))
	}
	if err := consistentSet(s); err != nil {
		t.Fatal(err)
	}
	if s.full.slots > 8*s.Len()+2*pageLen {
		t.Fatalf("%d slots for %d elements", s.full.slots, s.Len())
	}
	var ch Changes[string]
	peer.Merge(s, &ch)
	if !same(s, peer) || len(ch.Removed) != 28_000 || len(ch.Added) != 0 {
		t.Fatalf("%d removed, %d added", len(ch.Removed), len(ch.Added))
	}
	var whole ORSet[string]
	for chunk := range Chunks(s, 4096) {
		v, err := Decode(KindORSet, chunk)
		if err != nil || len(chunk) > 4096 {
			t.Fatalf("chunk of %d bytes: %v", len(chunk), err)
		}
		whole.Join(v)
	}
	if !same(&whole, s) {
		t.Fatal("chunks do not make the whole")
	}
}

// TestPlacesHaveBounds names places that are none.
func TestPlacesHaveBounds(t *testing.T) {
	var m ORMap[string, string]
	deep := make([]string, PlaceDepthMax+1)
	for _, p := range []Place[string, string]{m.At(), m.At(deep...)} {
		if p.Set(na, "v") != nil || p.Add(na, "v") != nil || p.Increment(na, 1) != nil || p.Enable(na) != nil ||
			p.Remove() != nil || p.Discard("v") != nil || p.Unset() != nil || p.Disable() != nil || p.Exists() || p.Keys() != nil {
			t.Fatal("something happened at a place that is none")
		}
	}
	if m.At(deep[1:]...).Set(na, "v") == nil || m.Len() != 1 {
		t.Fatal("the deepest place does not work")
	}
	var back ORMap[string, string]
	if err := back.Decode(m.Append(nil)); err != nil || !same(&m, &back) {
		t.Fatal(err)
	}
}

// TestContextIsExact compares the public context with a plain set of dots.
func TestContextIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c, d Context
		plain := map[Dot]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "dots") {
			x := Dot{NodeID(rapid.IntRange(1, 3).Draw(t, "node")), rapid.Uint64Range(0, 20).Draw(t, "seq")}
			if fresh := x.Seq > 0 && !plain[x]; c.Add(x) != fresh {
				t.Fatalf("add %v", x)
			}
			if x.Seq > 0 {
				plain[x] = true
			}
			if rapid.Bool().Draw(t, "other") {
				d.Add(x)
			}
		}
		if c.Len() != uint64(len(plain)) || !c.Covers(&d) || !c.Covers(c.Clone()) || !c.Equal(c.Clone()) {
			t.Fatalf("%d dots, must be %d", c.Len(), len(plain))
		}
		if changed := d.Join(&c); changed != !d.Equal(&c) && changed && !d.Equal(&c) || !d.Equal(&c) {
			t.Fatal("join of a part and the whole is not the whole")
		}
		for n := NodeID(1); n <= 3; n++ {
			for q := uint64(1); q <= 20; q++ {
				if c.Contains(Dot{n, q}) != plain[Dot{n, q}] {
					t.Fatalf("contains %d:%d is wrong", n, q)
				}
			}
		}
	})
}
