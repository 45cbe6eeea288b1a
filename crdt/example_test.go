package crdt_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/crdt"
)

// Two incarnations that write in the examples.
const (
	ann crdt.NodeID = 1
	bob crdt.NodeID = 2
)

func Example() {
	var here, there crdt.ORSet[string]

	frame := here.Add(ann, "apple").Append(nil) // the delta, to be sent
	there.Add(bob, "pear")

	delta, err := crdt.Decode(crdt.KindORSet, frame)
	if err != nil {
		panic(err)
	}
	changed, err := there.Join(delta)
	fmt.Println(changed, err, there.Contains("apple"), there.Len())
	// Output: true <nil> true 2
}

func ExampleORSet() {
	var a crdt.ORSet[string]
	a.Add(ann, "x")
	b := a.Clone().(*crdt.ORSet[string])

	removed := b.Remove("x") // at the same time
	added := a.Add(ann, "x")

	a.Merge(removed, nil)
	b.Merge(added, nil)
	fmt.Println(a.Contains("x"), b.Contains("x"), a.Digest() == b.Digest())
	// Output: true true true
}

func ExampleGSet() {
	var s crdt.GSet[int]
	s.Add(3)
	fmt.Println(s.Add(3) == nil, s.Contains(3), s.Len())
	// Output: true true 1
}

func ExampleGCounter() {
	var a, b crdt.GCounter
	delta := a.Add(ann, 2)
	b.Add(bob, 3)
	b.Merge(delta)
	b.Merge(delta) // twice does no harm
	fmt.Println(b.Count())
	// Output: 5
}

func ExamplePNCounter() {
	var a, b crdt.PNCounter
	a.Add(ann, 2)
	b.Add(bob, -3)
	a.Merge(&b)
	fmt.Println(a.Count())
	// Output: -1
}

func ExampleFlag() {
	var a crdt.Flag
	a.Enable(ann)
	b := a.Clone().(*crdt.Flag)
	off, on := b.Disable(), a.Enable(ann) // at the same time
	a.Merge(off)
	b.Merge(on)
	fmt.Println(a.Enabled(), b.Enabled())
	// Output: true true
}

func ExampleLWWRegister() {
	var a, b crdt.LWWRegister[string]
	a.Set("new", crdt.Stamp{Time: 7, Node: ann})
	b.Set("old", crdt.Stamp{Time: 5, Node: bob})
	a.Merge(&b)
	v, ok := a.Value()
	fmt.Println(v, ok)
	// Output: new true
}

func ExampleMVRegister() {
	var a, b crdt.MVRegister[string]
	a.Set(ann, "red")
	b.Set(bob, "blue")
	a.Merge(&b, nil)
	both := a.Values()
	slices.Sort(both)
	a.Set(ann, "violet") // has seen both
	fmt.Println(both, a.Values())
	// Output: [blue red] [violet]
}

func ExampleLWWMap() {
	var m crdt.LWWMap[string, string]
	m.Set("shard-1", "node-a", crdt.Stamp{Time: 1, Node: ann, Seq: 1})
	m.Set("shard-1", "node-b", crdt.Stamp{Time: 1, Node: ann, Seq: 2})
	stale := m.Set("shard-1", "node-c", crdt.Stamp{Time: 1, Node: ann, Seq: 1})
	home, _ := m.Get("shard-1")
	fmt.Println(home, stale == nil)

	m.Delete("shard-1", crdt.Stamp{Time: 2, Node: ann})
	fmt.Println(m.Len(), m.Tombstones())
	// Output:
	// node-b true
	// 0 1
}

func ExampleORMap() {
	var a crdt.ORMap[string, string]
	a.At("user-7", "name").Set(ann, "Ada")
	a.At("user-7", "tags").Add(ann, "admin")
	a.At("user-7", "visits").Increment(ann, 3)
	stale := a.Clone().(*crdt.ORMap[string, string])

	a.Remove("user-7")
	a.At("user-7", "visits").Increment(ann, 1)
	a.Merge(stale, nil) // brings nothing back

	user := a.At("user-7")
	fmt.Println(user.Keys(), user.At("visits").Count())
	// Output: [visits] 1
}

func ExamplePlace() {
	var m crdt.ORMap[string, string]
	lamp := m.At("house", "lamp")
	lamp.Enable(ann)
	lamp.Set(ann, "hall")
	fmt.Println(lamp.Enabled(), lamp.Values(), m.At("house").Keys())
	// Output: true [hall] [lamp]
}

func ExampleORMultiMap() {
	var m crdt.ORMultiMap[string, int]
	m.Add(ann, "primes", 2)
	m.Add(ann, "primes", 3)
	m.Add(ann, "squares", 4)
	fmt.Println(len(m.Values("primes")), m.Keys())
	m.RemoveKey("primes")
	fmt.Println(m.Values("primes"), m.Contains("squares", 4))
	// Output:
	// 2 2
	// [] true
}

func ExamplePNCounterMap() {
	var a, b crdt.PNCounterMap[string]
	a.Add(ann, "likes", 2)
	b.Add(bob, "likes", 3)
	a.Merge(&b, nil)
	n, ok := a.Count("likes")
	fmt.Println(n, ok)
	// Output: 5 true
}

func ExampleVersionVector() {
	var v crdt.VersionVector
	v.Observe(crdt.Dot{Node: ann, Seq: 3})
	fmt.Println(v.Covers(crdt.Dot{Node: ann, Seq: 2}), v.Covers(crdt.Dot{Node: bob, Seq: 1}))
	// Output: true false
}

func ExampleContext() {
	var c crdt.Context
	c.Add(crdt.Dot{Node: ann, Seq: 1})
	c.Add(crdt.Dot{Node: ann, Seq: 3}) // 2 was not seen, and is not claimed
	fmt.Println(c.Contains(crdt.Dot{Node: ann, Seq: 2}), c.Intervals(), c.Max(ann), c.Vector().At(ann))
	// Output: false 2 3 1
}

func ExampleDot() {
	first, second := crdt.Dot{Node: ann, Seq: 1}, crdt.Dot{Node: ann, Seq: 2}
	fmt.Println(first.Compare(second))
	// Output: -1
}

func ExampleStamp() {
	old, young := crdt.Stamp{Time: 4, Node: bob, Seq: 9}, crdt.Stamp{Time: 5, Node: ann}
	fmt.Println(young.Compare(old))
	// Output: 1
}

func ExampleHLC() {
	var clock crdt.HLC
	wall := time.UnixMilli(1_000)
	first := clock.Tick(wall)
	second := clock.Tick(wall.Add(-time.Minute)) // the wall clock was put back
	fmt.Println(second > first)

	var ahead crdt.HLC
	err := clock.Observe(ahead.Tick(wall.Add(time.Hour)), wall)
	var skew *crdt.SkewError
	fmt.Println(errors.As(err, &skew), err)
	// Output:
	// true
	// true crdt: timestamp is 3600000 ms ahead of the local clock, at most 500 ms are taken
}

func ExampleChanges() {
	var a, b crdt.ORSet[string]
	b.Merge(a.Add(ann, "x"), nil)
	a.Remove("x")
	a.Add(ann, "y")
	var ch crdt.Changes[string]
	b.Merge(&a, &ch)
	fmt.Println(ch.Added, ch.Removed)
	// Output: [y] [x]
}

func ExampleChunks() {
	var whole, copied crdt.ORSet[int]
	for i := range 1000 {
		whole.Add(ann, i)
	}
	for chunk := range crdt.Chunks(&whole, 512) {
		var part crdt.ORSet[int]
		if err := part.Decode(chunk); err != nil {
			panic(err)
		}
		copied.Merge(&part, nil)
	}
	fmt.Println(copied.Len(), copied.Digest() == whole.Digest())
	// Output: 1000 true
}

func ExampleDecode() {
	var c crdt.GCounter
	c.Add(ann, 5)
	v, err := crdt.Decode(crdt.KindGCounter, c.Append(nil))
	fmt.Println(v.(*crdt.GCounter).Count(), err)
	_, err = crdt.Decode(crdt.KindGCounter, []byte("hello"))
	fmt.Println(errors.Is(err, crdt.ErrMalformed))
	// Output:
	// 5 <nil>
	// true
}

func ExampleORSet_Prune() {
	gone := func(n crdt.NodeID) bool { return n == bob }
	var a crdt.ORSet[string]
	a.Add(bob, "x")
	a.Remove("x")
	b := a.Clone().(*crdt.ORSet[string])

	asked, answered := a.Garbage(gone), b.Garbage(gone)
	if asked == answered { // all replicas have seen the same of bob
		a.Prune(asked, gone)
		b.Prune(asked, gone)
	}
	fmt.Println(len(a.Context().Nodes()), a.Digest() == b.Digest())
	// Output: 0 true
}

func ExampleGCounter_Fold() {
	var c crdt.GCounter
	c.Add(bob, 20)
	c.Add(ann, 1)
	c.Fold(bob, ann) // bob is dead: ann takes over his share
	dead := func(n crdt.NodeID) bool { return n == bob }
	c.Prune(c.Garbage(dead), dead)
	fmt.Println(c.Count())
	// Output: 21
}

func ExampleGarbage() {
	var m crdt.LWWMap[string, string]
	m.Delete("k", crdt.Stamp{Time: 1, Node: ann})
	fmt.Println(m.Garbage(nil).Items)
	// Output: 1
}

// A type of the caller's as element: a codec comes by itself.
func ExampleMsgpackCodec() {
	type point struct{ X, Y int }
	var s crdt.ORSet[point]
	s.Add(ann, point{1, 2})
	var peer crdt.ORSet[point]
	fmt.Println(peer.Decode(s.Append(nil)), peer.Contains(point{1, 2}))

	_, err := crdt.MsgpackCodec[map[string]int]()
	fmt.Println(err)
	// Output:
	// <nil> true
	// type map[string]int has no canonical encoding
}

// point has no exported fields, so DefaultCodec cannot encode it: pointCodec makes one number
// of it.
type point struct{ x, y uint16 }

type pointCodec struct{ number crdt.Codec[uint32] }

func (c pointCodec) Append(b []byte, p point) []byte {
	return c.number.Append(b, uint32(p.x)<<16|uint32(p.y))
}

func (c pointCodec) Decode(b []byte) (point, int, error) {
	v, n, err := c.number.Decode(b)
	return point{uint16(v >> 16), uint16(v)}, n, err
}

func ExampleCodec() {
	number, err := crdt.DefaultCodec[uint32]()
	if err != nil {
		panic(err)
	}
	s, peer := crdt.NewORSet(pointCodec{number}), crdt.NewORSet(pointCodec{number})
	s.Add(ann, point{1, 2})
	fmt.Println(peer.Decode(s.Append(nil)), peer.Elements())
	// Output: <nil> [{1 2}]
}

func ExampleDefaultCodec() {
	text, _ := crdt.DefaultCodec[string]()
	fmt.Println(len(text.Append(nil, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6")))
	identity, _ := crdt.DefaultCodec[[16]byte]()
	fmt.Println(len(identity.Append(nil, [16]byte{1, 2, 3})))
	number, _ := crdt.DefaultCodec[uint16]()
	fmt.Printf("%x\n", number.Append(nil, 500))
	// Output:
	// 18
	// 18
	// cd01f4
}

func ExampleValue() {
	v, err := crdt.New(crdt.KindFlag)
	if err != nil {
		panic(err)
	}
	_, err = v.Join(&crdt.GCounter{})
	fmt.Println(err)
	// Output: crdt: a value of kind GCounter where Flag is due
}

func ExampleLWWMap_Newest() {
	var m crdt.LWWMap[string, int]
	m.Set("k", 1, crdt.Stamp{Time: 9, Node: ann})
	fmt.Println(m.Newest().Time)
	// Output: 9
}

func ExampleKind() {
	fmt.Println(crdt.KindORSet, (&crdt.ORSet[string]{}).Kind() == crdt.KindORSet)
	// Output: ORSet[string] true
}

func ExampleElementKind() {
	codec, _ := crdt.DefaultCodec[int32]()
	fmt.Println(crdt.ElementKindOf(codec), crdt.KindLWWMap.Of(crdt.ElementString, crdt.ElementInt))
	// A reader of strings does not take a set of numbers for one of its own.
	var numbers crdt.ORSet[int]
	numbers.Add(ann, 65)
	var words crdt.ORSet[string]
	fmt.Println(words.Decode(numbers.Append(nil)))
	// Output:
	// int LWWMap[string,int]
	// crdt: a value of kind ORSet[int] where ORSet[string] is due
}

func ExampleLimitError() {
	// A set that claims to have four billion elements.
	frame := []byte{0x95, 7, 0x91, 1, 0xc4, 3, 1, 0, 0, 0xc4, 3, 1, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff}
	_, err := crdt.Decode(crdt.KindORSet, frame)
	var limit *crdt.LimitError
	fmt.Println(errors.As(err, &limit), limit.Field)
	// Output: true elements
}

func ExampleORMultiMap_Claims() {
	var m crdt.ORMultiMap[string, int]
	m.Add(ann, "k", 1)
	m.Add(ann, "k", 2)
	for writer, seq := range m.Claims() {
		fmt.Println(writer == ann, seq, m.Context().Len())
	}
	// Output: true 2 2
}

func ExampleKindError() {
	var set crdt.ORSet[string]
	_, err := set.Join(&crdt.Flag{})
	var kind *crdt.KindError
	fmt.Println(errors.As(err, &kind) && kind.Want == crdt.KindORSet)
	// Output: true
}

func ExampleSkewError() {
	var clock crdt.HLC
	wall := time.UnixMilli(0)
	err := clock.Check(1000<<16, wall)
	var skew *crdt.SkewError
	fmt.Println(errors.As(err, &skew) && skew.AheadMillis == 1000)
	// Output: true
}
