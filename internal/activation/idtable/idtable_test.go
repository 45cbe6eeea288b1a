package idtable

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"
)

type named struct{ id string }

func newNamed() *Table[named] { return New(func(e *named) string { return e.id }) }

func (t *Table[E]) check(tb testing.TB, want map[string]*E) {
	tb.Helper()
	if t.Len() != len(want) {
		tb.Fatalf("%d values, want %d", t.Len(), len(want))
	}
	for id, e := range want {
		if t.Find(id) != e || t.FindBytes([]byte(id)) != e {
			tb.Fatalf("%q is not found", id)
		}
	}
	got := map[string]*E{}
	for e := range t.All() {
		if got[t.idOf(e)] != nil {
			tb.Fatalf("%q comes twice", t.idOf(e))
		}
		got[t.idOf(e)] = e
	}
	if !maps.Equal(got, want) {
		tb.Fatalf("a loop has %d values, want %d", len(got), len(want))
	}
	if t.index == nil {
		return
	}
	count := 0
	for p := range t.eachPart() {
		count += p.count
		if n := len(p.slots); n > leastSlots && p.count*2 < n || p.count == 0 && n > 0 {
			tb.Fatalf("a part of %d slots for %d values", n, p.count)
		}
	}
	if count != t.Len() {
		tb.Fatalf("the parts have %d values, the table %d", count, t.Len())
	}
}

// TestOneValueTakesNoIndex checks that a table of one value is as small as it can be, since one is made
// for each shard, that it grows to the least size of larger ones, and that the index of an empty table is
// given back.
func TestOneValueTakesNoIndex(t *testing.T) {
	table, want := newNamed(), map[string]*named{}
	if size := unsafe.Sizeof(*table); size > 24 {
		t.Errorf("a table has %d bytes", size)
	}
	for i := range 3 {
		e := &named{fmt.Sprint(i)}
		table.Add(e)
		want[e.id] = e
		table.check(t, want)
		if i == 0 && table.index != nil || i > 0 && len(table.parts[0].slots) != leastSlots {
			t.Errorf("%d values have the index %+v", i+1, table.index)
		}
	}
	for id := range want {
		table.Remove(id)
	}
	if table.check(t, nil); table.index != nil {
		t.Error("an empty table has an index")
	}
	table.Add(&named{"x"})
	table.Remove("y")
	if table.Remove("x"); table.Len() != 0 || table.Find("x") != nil {
		t.Error("the only value is not removed")
	}
}

// TestTableIsAMap compares a Table with a map through growth, removals one by one and in loops.
func TestTableIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table, want := newNamed(), map[string]*named{}
	for round := range 60 {
		most := []int{20, 500, 5000}[round%3]
		for range r.IntN(most) {
			id := fmt.Sprintf("entity-%d", r.IntN(2*most))
			switch e := table.Find(id); {
			case e != want[id]:
				t.Fatalf("%q: found %v, want %v", id, e, want[id])
			case e == nil:
				e = &named{id}
				table.Add(e)
				want[id] = e
			case r.IntN(3) == 0:
				table.Remove(id)
				delete(want, id)
			}
		}
		table.check(t, want)
		out := r.IntN(4)
		seen := map[string]bool{}
		for e := range table.All() {
			if seen[e.id] {
				t.Fatalf("%q comes twice in a loop that removes", e.id)
			}
			if seen[e.id] = true; r.IntN(4) <= out {
				table.Remove(e.id)
				delete(want, e.id)
			}
		}
		table.check(t, want)
	}
	for id := range maps.Clone(want) {
		table.Remove(id)
		table.Remove(id) // does nothing
		delete(want, id)
	}
	table.check(t, want)
}

func TestALoopThatRemovesSeesAll(t *testing.T) {
	for n := range 200 {
		table, want := newNamed(), n*7
		for i := range want {
			table.Add(&named{fmt.Sprint(i)})
		}
		got := 0
		for e := range table.All() {
			got++
			table.Remove(e.id)
		}
		if got != want || table.Len() != 0 {
			t.Fatalf("%d of %d values came, %d are left", got, want, table.Len())
		}
	}
}

func TestALoopMayEndEarly(t *testing.T) {
	table := newNamed()
	for i := range 100 {
		table.Add(&named{fmt.Sprint(i)})
	}
	for range table.All() {
		break
	}
	for i := range 100 {
		table.Remove(fmt.Sprint(i))
	}
	table.check(t, map[string]*named{})
}

func TestTheNilTableIsEmpty(t *testing.T) {
	var table *Table[named]
	table.Remove("a")
	if table.Len() != 0 || table.Find("a") != nil || table.FindBytes([]byte("a")) != nil || len(slices.Collect(table.All())) != 0 {
		t.Error("the nil Table is not empty")
	}
}

// A hash whose first bits are all equal cannot make the list of parts grow without bound.
func TestEqualHashesStayBounded(t *testing.T) {
	table := newNamed()
	for i := range 2 {
		table.Add(&named{fmt.Sprint(i)})
	}
	p := table.parts[0]
	p.resize(partSlots)
	for p.bits = bitsMost; table.Len() < 3*partSlots; {
		table.Add(&named{fmt.Sprint(table.Len())})
	}
	if len(table.parts) != 1 || table.Find("77") == nil {
		t.Errorf("%d parts", len(table.parts))
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	table := newNamed()
	table.Add(&named{"one that is longer than thirty-two bytes, in any case"})
	id := []byte("one that is longer than thirty-two bytes, in any case")
	if n := testing.AllocsPerRun(100, func() {
		if table.FindBytes(id) == nil {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{8, 100, 1000, 30_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				all := make([]named, n)
				for i := range all {
					all[i].id = fmt.Sprintf("entity-%d", i)
				}
				tables := make([]*Table[named], max(1, 100_000/n))
				before := heap()
				for i := range tables {
					tables[i] = newNamed()
					for k := range all {
						tables[i].Add(&all[k])
					}
				}
				full := heap()
				for i := range tables {
					for k := range all {
						tables[i].Remove(all[k].id)
					}
				}
				empty := heap()
				b.ReportMetric((float64(full)-float64(before))/float64(n*len(tables)), "B/value")
				b.ReportMetric((float64(empty)-float64(before))/float64(len(tables)), "B/empty-table")
				runtime.KeepAlive(tables)
				runtime.KeepAlive(all)
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		table, plain, ids := newNamed(), map[string]*named{}, make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("entity-%d", i)
			e := &named{ids[i]}
			table.Add(e)
			plain[ids[i]] = e
		}
		b.Run(fmt.Sprintf("table/%d", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if i++; table.Find(ids[i*7919%n]) == nil {
					b.Fatal("not found")
				}
			}
		})
		b.Run(fmt.Sprintf("map/%d", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if i++; plain[ids[i*7919%n]] == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}
