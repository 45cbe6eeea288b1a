package evict

// frequency is LFU: a list of buckets in order of their counts, each with its
// nodes in order of use. Every operation is O(1), as in Shah, Mitra, Matani: An
// O(1) algorithm for implementing the LFU cache eviction scheme (2010).
type frequency[V any] struct {
	// least is the bucket with the lowest count. Invariant: counts grow along next, and
	// no bucket is empty.
	least *bucket[V]
	aging bool
	// age is the count of the one that went last, if aging.
	age uint64
	n   int
	// fresh came last, and was not used again since.
	fresh *Node[V]
}

type bucket[V any] struct {
	count      uint64
	nodes      list[V]
	prev, next *bucket[V]
}

func (f *frequency[V]) Add(n *Node[V]) {
	f.n++
	// All counts are at least age: those with less went before.
	f.place(n, nil, f.age+1)
	f.fresh = n
}

func (f *frequency[V]) Touch(n *Node[V]) {
	b := n.bucket
	b.nodes.remove(n)
	f.place(n, b, b.count+1)
	f.tidy(b)
	f.used(n)
}

// place puts n into the bucket with a count, which is behind after, or the first
// that fits when after is nil.
func (f *frequency[V]) place(n *Node[V], after *bucket[V], count uint64) {
	next := f.least
	if after != nil {
		next = after.next
	}
	for next != nil && next.count < count {
		after, next = next, next.next
	}
	if next == nil || next.count != count {
		b := &bucket[V]{count: count, prev: after, next: next}
		if after == nil {
			f.least = b
		} else {
			after.next = b
		}
		if next != nil {
			next.prev = b
		}
		next = b
	}
	n.bucket = next
	next.nodes.pushFront(n)
}

// tidy takes a bucket out that has become empty.
func (f *frequency[V]) tidy(b *bucket[V]) {
	if b.nodes.len > 0 {
		return
	}
	if b.prev == nil {
		f.least = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
}

// used notes that n is fresh no more.
func (f *frequency[V]) used(n *Node[V]) {
	if f.fresh == n {
		f.fresh = nil
	}
}

func (f *frequency[V]) Remove(n *Node[V]) {
	f.used(n)
	b := n.bucket
	b.nodes.remove(n)
	n.bucket = nil
	f.tidy(b)
	f.n--
}

// Evict spares who has just come, once: it takes the place of another. Else nobody
// could stay beside those that were used twice.
func (f *frequency[V]) Evict() *Node[V] {
	if fresh := f.fresh; fresh != nil && f.n > 1 {
		f.Remove(fresh)
		defer func() {
			f.Add(fresh)
			f.fresh = nil
		}()
	}
	b := f.least
	if b == nil {
		return nil
	}
	if f.aging {
		f.age = b.count
	}
	n := b.nodes.back
	f.Remove(n)
	return n
}

func (f *frequency[V]) Len() int   { return f.n }
func (f *frequency[V]) Resize(int) {}
