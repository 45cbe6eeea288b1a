package replication

import (
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// Item is the state, or a delta of the state, of one key on the wire. The bytes
// are never changed once an Item exists.
type Item struct {
	Key string
	// Gen is the key's generation, and Era that of the stamps in it (era.go). Kind and Era
	// are 0, and Bytes is empty, for a deleted key.
	Gen   uint64
	Era   uint8
	Kind  crdt.Kind
	Bytes []byte
}

func (it *Item) size() int { return len(it.Key) + len(it.Bytes) + 12 }

// Entry is what one request changed: a unit of the stream, applied whole at each
// replica. Immutable.
type Entry struct {
	Fence replicator.Fence
	Items []Item
}

func (e *Entry) size() int {
	n := len(e.Fence.Group) + 12
	for i := range e.Items {
		n += e.Items[i].size()
	}
	return n
}

// ownLog holds the newest own entries, numbered from 1 without holes.
//
// Invariant: entries[i] has number first+i; bytes is the sum of their sizes.
type ownLog struct {
	first   uint64
	entries []*Entry
	bytes   int
}

// last returns the number of the newest entry ever appended, 0 before the first.
func (l *ownLog) last() uint64 { return l.first + uint64(len(l.entries)) - 1 }

func (l *ownLog) append(e *Entry) uint64 {
	l.entries = append(l.entries, e)
	l.bytes += e.size()
	return l.last()
}

// at returns entry seq, or nil when it is no longer or not yet there.
func (l *ownLog) at(seq uint64) *Entry {
	if seq < l.first || seq > l.last() {
		return nil
	}
	return l.entries[seq-l.first]
}

// dropTo forgets entries up to seq.
func (l *ownLog) dropTo(seq uint64) {
	for len(l.entries) > 0 && l.first <= seq {
		l.bytes -= l.entries[0].size()
		l.entries[0] = nil
		l.entries = l.entries[1:]
		l.first++
	}
}

// over returns up to which entry the log must be cut to keep within the limits.
func (l *ownLog) over(entries, bytes int) (cut uint64) {
	over, held := len(l.entries)-entries, l.bytes
	for i := 0; i < len(l.entries)-1 && (i < over || held > bytes); i++ {
		held -= l.entries[i].size()
		cut = l.first + uint64(i)
	}
	return cut
}

// track is what has been applied of another node's stream: all entries up to
// seen, and those from lo to hi beyond it. Forgetting that something was applied
// is harmless, it comes again; claiming more than was applied is not.
//
// Invariant: lo == 0 (nothing beyond seen) or seen+1 < lo <= hi.
type track struct{ seen, lo, hi uint64 }

// add notes that the entries from..to have been applied. It reports whether they
// left a hole before them.
func (t *track) add(from, to uint64) (gap bool) {
	switch {
	case to <= t.seen:
		return false
	case from <= t.seen+1:
		t.reach(to)
		return false
	case t.lo != 0 && from <= t.hi+1 && to+1 >= t.lo:
		t.lo, t.hi = min(t.lo, from), max(t.hi, to)
	case to > t.hi:
		t.lo, t.hi = from, to
	}
	return true
}

// reach notes that everything up to seq has been applied.
func (t *track) reach(seq uint64) {
	t.seen = max(t.seen, seq)
	if t.lo != 0 && t.lo <= t.seen+1 {
		t.seen = max(t.seen, t.hi)
		t.lo, t.hi = 0, 0
	}
}

// top returns the highest entry applied.
func (t *track) top() uint64 { return max(t.seen, t.hi) }
