package reliable

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestAMessageRunsAfterItsPredecessor checks the verdict on the message behind one that has run, though nothing was confirmed.
func TestAMessageRunsAfterItsPredecessor(t *testing.T) {
	at := func(seq, prev uint64) Stamp { return Stamp{Producer: 1, Seq: seq, Prev: prev, Floor: 1, Try: 1} }
	var m Memory
	m.Ran("e", at(1, 0), false)
	for _, c := range []struct {
		s    Stamp
		want Verdict
	}{{at(2, 1), Run}, {at(3, 2), Gap}, {at(2, 0), Run}, {at(1, 0), Duplicate}} {
		if got := m.Check("e", c.s, false); got != c.want {
			t.Errorf("%d after %d: %v, want %v", c.s.Seq, c.s.Prev, got, c.want)
		}
	}
	if !m.All("e", 1) || !m.All("unknown", 1) || m.All("e", 2) {
		t.Errorf("all have run: %v, of an unknown entity %v, of an unknown producer %v", m.All("e", 1), m.All("unknown", 1), m.All("e", 2))
	}
}

// TestProducersThatRunNothingAreBounded checks that the bound holds for producers of which only refused copies came.
func TestProducersThatRunNothingAreBounded(t *testing.T) {
	var m Memory
	for n := range Producer(ProducersMax + 5) {
		m.Check("e", Stamp{Producer: n + 1, Seq: 2, Prev: 1, Floor: 1, Try: 1}, false)
	}
	if p, _ := m.Size(); p != ProducersMax || m.Forgotten != 5 {
		t.Errorf("%d producers, %d forgotten", p, m.Forgotten)
	}
}

// TestAMovedMemoryForgetsInTheSameOrder checks that a Memory encodes to the same bytes after a move, so that its producers are as
// long silent as before, and drops records by their numbers, not by their ids.
func TestAMovedMemoryForgetsInTheSameOrder(t *testing.T) {
	var m, moved Memory
	for n := range Producer(12) {
		m.Ran("z", Stamp{Producer: n*7%12 + 1, Seq: 1, Floor: 1, Try: 1}, false)
		m.Ran("a", Stamp{Producer: n*7%12 + 1, Seq: 9, Floor: 1, Try: 1}, false)
	}
	b := m.Append(nil)
	if err := moved.Restore(b); err != nil || !bytes.Equal(moved.Append(nil), b) {
		t.Fatalf("%v; the bytes are the same: %v", err, bytes.Equal(moved.Append(nil), b))
	}
	moved.Check("other", Stamp{Producer: 3, Seq: 10, Floor: 5, Try: 1}, false)
	if _, r := moved.Size(); r != 23 {
		t.Errorf("%d records after one is over, want 23", r)
	}
}

// TestAFrameIsFilledToItsEnd checks that a Memory of exactly encodedMax bytes is moved as a whole, and one with a byte more
// without the producer that was silent longer.
func TestAFrameIsFilledToItsEnd(t *testing.T) {
	for more, want := range []int{2, 1} {
		var m, moved Memory
		ran := func(n Producer, id string, seq uint64) {
			m.Ran(id, Stamp{Producer: n, Seq: seq, Floor: 1, Try: 1}, false)
		}
		ran(1, "e", 1)
		for i := range uint64(encodedMax/1005 - 2) {
			ran(2, strings.Repeat("x", 995)+fmt.Sprintf("%05d", i), 200)
		}
		before := len(m.Append(nil))
		ran(2, strings.Repeat("y", 500), 200)
		overhead := len(m.Append(nil)) - before - 500
		ran(2, strings.Repeat("z", encodedMax-len(m.Append(nil))-overhead+more), 200)
		if n := len(m.appendOne(nil, 1)) + len(m.appendOne(nil, 2)); n != encodedMax+more {
			t.Fatalf("%d bytes, want %d", n, encodedMax+more)
		}
		if err := moved.Restore(m.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if p, _ := moved.Size(); p != want {
			t.Errorf("%d bytes more than fit: %d producers are moved, want %d", more, p, want)
		}
	}
}

// TestProducersThatNoMemoryHasAreRefused checks that a producer without a number, an entity without a message, and more producers
// than a Memory remembers are refused.
func TestProducersThatNoMemoryHasAreRefused(t *testing.T) {
	encoded := func(n Producer) []byte {
		var m Memory
		m.Ran("e", Stamp{Producer: n, Seq: 1, Floor: 1, Try: 1}, false)
		return m.Append(nil)
	}
	unnumbered, unrun := encoded(0), encoded(1)
	if unrun[19] != 1 {
		t.Fatalf("%x: byte 19 is not the newest message", unrun)
	}
	unrun[19] = 0
	var full []byte
	for n := range Producer(ProducersMax) {
		full = append(full, encoded(n+1)...)
	}
	for name, c := range map[string]struct {
		b    []byte
		good bool
	}{
		"a producer": {encoded(1), true}, "a producer without a number": {unnumbered, false}, "an entity without a message": {unrun, false},
		"as many as fit": {full, true}, "one more": {append(bytes.Clone(full), encoded(ProducersMax+1)...), false},
	} {
		var m Memory
		if err := m.Restore(c.b); (err == nil) != c.good || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
