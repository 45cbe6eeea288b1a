package crdt

import "sort"

// seqMax is the highest sequence number a writer may use, and seqWireMax the
// highest one taken from the wire. The distance between them keeps a hostile or
// damaged encoding from using up a writer's numbers.
const (
	seqMax     = 1<<44 - 1
	seqWireMax = 1<<43 - 1
)

// span is a run of sequence numbers, both ends included.
type span struct{ from, to uint64 }

// spans is a set of sequence numbers, exact whatever its gaps.
//
// Invariant: sorted, from >= 1, and any two spans have a gap between them, so
// that equal sets are equal slices.
type spans []span

// after returns the index of the first span that ends at q or later.
func (s spans) after(q uint64) int {
	if n := len(s); n == 0 || s[n-1].to < q {
		return n
	}
	return sort.Search(len(s), func(i int) bool { return s[i].to >= q })
}

func (s spans) has(q uint64) bool {
	n := len(s)
	if n == 0 {
		return false
	}
	if s[n-1].from <= q {
		return q <= s[n-1].to
	}
	i := s.after(q)
	return s[i].from <= q
}

// covers reports whether all of t is in s.
func (s spans) covers(t spans) bool {
	for _, x := range t {
		i := s.after(x.from)
		if i == len(s) || s[i].from > x.from || s[i].to < x.to {
			return false
		}
	}
	return true
}

// max returns the highest number in s, or 0.
func (s spans) max() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].to
}

// add puts from..to into s. It returns the new set and the half-open range
// [i,j) of old spans that the one span at index i of the new set replaces; i is -1
// if nothing changed.
func (s spans) add(from, to uint64) (out spans, i, j int) {
	n := len(s)
	if n > 0 && s[n-1].to+1 == from {
		i, j = n-1, n
		return s.replace(i, j, span{s[i].from, to}), i, j
	}
	i = s.after(from)
	if i < n && s[i].from <= from && to <= s[i].to {
		return s, -1, -1
	}
	if i > 0 && s[i-1].to+1 == from {
		i--
	}
	j = i
	x := span{from, to}
	for j < n && s[j].from <= to+1 {
		x.from, x.to = min(x.from, s[j].from), max(x.to, s[j].to)
		j++
	}
	return s.replace(i, j, x), i, j
}

func (s spans) replace(i, j int, x span) spans {
	switch {
	case j > i:
		s[i] = x
		return append(s[:i+1], s[j:]...)
	case i == len(s):
		return append(s, x)
	}
	s = append(s, span{})
	copy(s[i+1:], s[i:])
	s[i] = x
	return s
}

// union returns the set of what is in s or t, in memory of its own.
func (s spans) union(t spans) spans {
	out := make(spans, 0, len(s)+len(t))
	for len(s) > 0 || len(t) > 0 {
		if len(t) == 0 || len(s) > 0 && s[0].from <= t[0].from {
			out, s = out.push(s[0]), s[1:]
		} else {
			out, t = out.push(t[0]), t[1:]
		}
	}
	return out
}

// push adds a span that starts no earlier than the last one.
func (s spans) push(x span) spans {
	if n := len(s); n > 0 && s[n-1].to+1 >= x.from {
		s[n-1].to = max(s[n-1].to, x.to)
		return s
	}
	return append(s, x)
}

// count returns how many numbers are in s.
func (s spans) count() (n uint64) {
	for _, x := range s {
		n += x.to - x.from + 1
	}
	return n
}

// mask returns the numbers key*1024 .. key*1024+1023 of s as a bitmap.
func (s spans) mask(key uint64) (m bitmap) {
	lo := key << blockBits
	hi := lo + blockLen - 1
	for i := s.after(lo); i < len(s) && s[i].from <= hi; i++ {
		m.fill(max(s[i].from, lo)-lo, min(s[i].to, hi)-lo)
	}
	return m
}

func (s spans) clone() spans { return append(spans(nil), s...) }
