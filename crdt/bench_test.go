package crdt

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"
)

// The sizes of the measured sets. Five writers, ids of 13 bytes.
var benchSizes = []int{1_000, 10_000, 100_000}

const benchWriters = 5

func benchID(i int) string { return fmt.Sprintf("entity-%06d", i) }

func benchIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = benchID(i)
	}
	return ids
}

func benchSet(n int) *ORSet[string] {
	s := &ORSet[string]{}
	for i := range n {
		s.Add(NodeID(i%benchWriters+1), benchID(i))
	}
	return s
}

// scattered returns 0..n-1 in an order that no cache can guess.
func scattered(n int) []int {
	out := make([]int, n)
	x := uint64(1)
	for i := range out {
		x = mix(x, uint64(i))
		j := int(x % uint64(i+1))
		out[i] = out[j]
		out[j] = i
	}
	return out
}

// bothOrders runs f for the two ways to walk through n elements: as they were added, which the caches like, and as no cache can guess.
func bothOrders(b *testing.B, f func(b *testing.B, n int, order []int)) {
	for _, n := range benchSizes {
		inOrder := make([]int, n)
		for i := range inOrder {
			inOrder[i] = i
		}
		for name, order := range map[string][]int{"inOrder": inOrder, "anyOrder": scattered(n)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				f(b, n, order)
			})
		}
	}
}

func bySize(b *testing.B, f func(b *testing.B, n int)) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			f(b, n)
		})
	}
}

// BenchmarkORSetAddNew fills sets from empty to n: growth is in the figure.
func BenchmarkORSetAddNew(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		ids, i := benchIDs(n), 0
		s := &ORSet[string]{}
		for b.Loop() {
			if i == n {
				i, s = 0, &ORSet[string]{}
			}
			s.Add(NodeID(i%benchWriters+1), ids[i])
			i++
		}
	})
}

func BenchmarkORSetAddAgain(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		s, ids, i := benchSet(n), benchIDs(n), 0
		for b.Loop() {
			s.Add(NodeID(i%benchWriters+1), ids[order[i]])
			if i++; i == n {
				i = 0
			}
		}
	})
}

// BenchmarkORSetRemove takes out what is there, and counts only that.
func BenchmarkORSetRemove(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		full, ids, i := benchSet(n), benchIDs(n), 0
		s := full.Clone().(*ORSet[string])
		for b.Loop() {
			s.Remove(ids[order[i]])
			if i++; i == n {
				b.StopTimer()
				i, s = 0, full.Clone().(*ORSet[string])
				b.StartTimer()
			}
		}
	})
}

func BenchmarkORSetContains(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		s, ids, i := benchSet(n), benchIDs(n), 0
		found := 0
		for b.Loop() {
			if s.Contains(ids[order[i]]) {
				found++
			}
			if i++; i == n {
				i = 0
			}
		}
		if found == 0 {
			b.Fatal("nothing found")
		}
	})
}

// BenchmarkFloorMapGet is the floor of Contains: one look into a Go map. The key
// that is asked for and the key in the map are two strings, as in life.
func BenchmarkFloorMapGet(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		m, ids, i, sum := benchGoMap(n), benchIDs(n), 0, uint64(0)
		for b.Loop() {
			sum += m[ids[order[i]]]
			if i++; i == n {
				i = 0
			}
		}
	})
}

// BenchmarkFloorMapSet is the floor of a re-add and of LWWMap.Set.
func BenchmarkFloorMapSet(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		m, ids, i := benchGoMap(n), benchIDs(n), 0
		for b.Loop() {
			m[ids[order[i]]] = uint64(i)
			if i++; i == n {
				i = 0
			}
		}
	})
}

// BenchmarkFloorMapGetSerial is a look into a Go map that cannot begin before the last
// one has ended: the latency of its cache misses, which short loops hide by working
// on several steps at once, and which longer operations pay in full.
func BenchmarkFloorMapGetSerial(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		m, ids, i, zero := benchGoMap(n), benchIDs(n), 0, 0
		for b.Loop() {
			zero = int(m[ids[order[i+zero]]] >> 63)
			if i++; i == n {
				i = 0
			}
		}
	})
}

func benchGoMap(n int) map[string]uint64 {
	m := map[string]uint64{}
	for i := range n {
		m[benchID(i)] = uint64(i)
	}
	return m
}

// BenchmarkORSetApplyDelta joins the delta of a re-add of one element into a set
// of n: the delta is made outside of the clock.
func BenchmarkORSetApplyDelta(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		s := benchSet(n)
		peer := s.Clone().(*ORSet[string])
		ids, order, i := benchIDs(n), scattered(n), 0
		deltas := make([]*ORSet[string], 0, n)
		for b.Loop() {
			if i == len(deltas) {
				b.StopTimer()
				deltas, i = deltas[:0], 0
				for k := range n {
					deltas = append(deltas, s.Add(NodeID(k%benchWriters+1), ids[order[k]]))
				}
				b.StartTimer()
			}
			peer.Merge(deltas[i], nil)
			i++
		}
	})
}

func BenchmarkORSetMergeConverged(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		s := benchSet(n)
		peer := s.Clone().(*ORSet[string])
		for b.Loop() {
			if peer.Merge(s, nil) {
				b.Fatal("changed")
			}
		}
	})
}

// BenchmarkORSetMergeDiverged joins two sets of n of which each has removed and
// added one element in two hundred since they were equal.
func BenchmarkORSetMergeDiverged(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		left, right := benchSet(n), benchSet(n)
		order := scattered(n)
		for i := range n / 200 {
			left.Remove(benchID(order[i]))
			right.Remove(benchID(order[n-1-i]))
			left.Add(NodeID(i%benchWriters+11), fmt.Sprintf("new-l-%07d", i))
			right.Add(NodeID(i%benchWriters+21), fmt.Sprintf("new-r-%07d", i))
		}
		for b.Loop() {
			b.StopTimer()
			s := left.Clone().(*ORSet[string])
			runtime.GC()
			b.StartTimer()
			s.Merge(right, nil)
		}
	})
}

func BenchmarkORSetAppend(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		s := benchSet(n)
		buf := s.Append(nil)
		for b.Loop() {
			buf = s.Append(buf[:0])
		}
		b.ReportMetric(float64(len(buf))/float64(n), "wireB/elem")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/elem")
	})
}

func BenchmarkORSetDecode(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		buf := benchSet(n).Append(nil)
		for b.Loop() {
			if _, err := Decode(KindORSet, buf); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/elem")
	})
}

func BenchmarkORSetClone(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		s := benchSet(n)
		for b.Loop() {
			s.Clone()
		}
	})
}

func BenchmarkORSetDigest(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		s, sum := benchSet(n), uint64(0)
		for b.Loop() {
			sum += s.Digest()
		}
	})
}

// BenchmarkORSetUUIDWire reports the bytes per element of random UUIDs, as text and as
// [16]byte.
func BenchmarkORSetUUIDWire(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		text, bin := &ORSet[string]{}, &ORSet[[16]byte]{}
		for i := range n {
			u := benchUUID(i)
			text.Add(NodeID(i%benchWriters+1), uuidText(u))
			bin.Add(NodeID(i%benchWriters+1), u)
		}
		var buf []byte
		for b.Loop() {
			buf = text.Append(buf[:0])
		}
		b.ReportMetric(float64(len(buf))/float64(n), "textB/elem")
		b.ReportMetric(float64(len(bin.Append(nil)))/float64(n), "binB/elem")
	})
}

func benchUUID(i int) (u [16]byte) {
	binary.BigEndian.PutUint64(u[:8], mix(uint64(i), 1))
	binary.BigEndian.PutUint64(u[8:], mix(uint64(i), 2))
	return u
}

func uuidText(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func benchMap(n int) *LWWMap[string, string] {
	m := &LWWMap[string, string]{}
	for i := range n {
		m.Set(benchID(i), "value", Stamp{uint64(i + 1), NodeID(i%benchWriters + 1), 1})
	}
	return m
}

func BenchmarkLWWMapSet(b *testing.B) {
	bothOrders(b, func(b *testing.B, n int, order []int) {
		m, ids, i, tick := benchMap(n), benchIDs(n), 0, uint64(n+1)
		for b.Loop() {
			tick++
			m.Set(ids[order[i]], "other", Stamp{tick, 3, 1})
			if i++; i == n {
				i = 0
			}
		}
	})
}

func BenchmarkLWWMapMergeConverged(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		m := benchMap(n)
		peer := m.Clone().(*LWWMap[string, string])
		for b.Loop() {
			peer.Merge(m, nil)
		}
	})
}

func BenchmarkLWWMapAppend(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		m := benchMap(n)
		buf := m.Append(nil)
		for b.Loop() {
			buf = m.Append(buf[:0])
		}
		b.ReportMetric(float64(len(buf))/float64(n), "wireB/elem")
	})
}

// BenchmarkLWWMapAppendAnyOrder encodes maps whose keys were set in no order, and reports
// how many times as long as a set of as many elements that takes: the least of each,
// measured in turn, so that the load of the machine falls on both.
func BenchmarkLWWMapAppendAnyOrder(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		m, s := &LWWMap[string, string]{}, benchSet(n)
		for i, at := range scattered(n) {
			m.Set(benchID(i), "value", Stamp{uint64(at+1) << hlcCounterBits, NodeID(i%benchWriters + 1), 1})
		}
		values := []Value{m, s}
		least := []time.Duration{math.MaxInt64, math.MaxInt64}
		var buf []byte
		for b.Loop() {
			for i, v := range values {
				start := time.Now()
				buf = v.Append(buf[:0])
				least[i] = min(least[i], time.Since(start))
			}
		}
		b.ReportMetric(float64(least[0])/float64(n), "ns/entry")
		b.ReportMetric(float64(least[0])/float64(least[1]), "xORSet")
	})
}

// BenchmarkHeap reports the live heap per element, less the bytes of the ids.
func BenchmarkHeap(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("ORSet/%d", n), func(b *testing.B) {
			ids := benchIDs(n)
			heapPer(b, n, func() any {
				s := &ORSet[string]{}
				for i, id := range ids {
					s.Add(NodeID(i%benchWriters+1), id)
				}
				return s
			})
		})
		b.Run(fmt.Sprintf("LWWMap/%d", n), func(b *testing.B) {
			ids := benchIDs(n)
			heapPer(b, n, func() any {
				m := &LWWMap[string, string]{}
				for i, id := range ids {
					m.Set(id, "value", Stamp{uint64(i + 1), NodeID(i%benchWriters + 1), 1})
				}
				return m
			})
		})
	}
}

func heapPer(b *testing.B, n int, build func() any) {
	var keep any
	var bytes uint64
	for b.Loop() {
		keep = nil
		before := heapNow()
		keep = build()
		bytes = heapNow() - before
	}
	runtime.KeepAlive(keep)
	b.ReportMetric(float64(bytes)/float64(n), "heapB/elem")
}

func heapNow() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkORSetDeltaWire is what a replicator pays per operation: the delta of a
// re-add is encoded, and a peer decodes and joins it.
func BenchmarkORSetDeltaWire(b *testing.B) {
	s := benchSet(10_000)
	peer := s.Clone().(*ORSet[string])
	ids, order := benchIDs(10_000), scattered(10_000)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		d := s.Add(1, ids[0])
		var buf []byte
		for b.Loop() {
			buf = d.Append(buf[:0])
		}
		b.ReportMetric(float64(len(buf)), "wireB")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		buf := s.Add(1, ids[1]).Append(nil)
		for b.Loop() {
			if _, err := Decode(KindORSet, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			buf := s.Add(1, ids[order[i%10_000]]).Append(nil)
			v, err := Decode(KindORSet, buf)
			if err != nil {
				b.Fatal(err)
			}
			peer.Join(v)
			i++
		}
	})
}

func BenchmarkLWWMapDeltaWire(b *testing.B) {
	m := benchMap(10_000)
	d := m.Set(benchID(1), "other", Stamp{Time: 1 << 40, Node: 1, Seq: 1})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = d.Append(buf[:0])
		}
		b.ReportMetric(float64(len(buf)), "wireB")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		buf := d.Append(nil)
		for b.Loop() {
			if _, err := Decode(KindLWWMap, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
