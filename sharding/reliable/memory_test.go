package reliable

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestMemoryForgetsTheSilent(t *testing.T) {
	var m Memory
	for n := range Producer(ProducersMax + 10) {
		s := Stamp{Producer: n + 1, Seq: 1, Floor: 1, Try: 1}
		if m.Check("e", s, false) != Run {
			t.Fatal("a first message is no news")
		}
		m.Ran("e", s, false)
		// The first producer is never silent.
		m.Check("e", Stamp{Producer: 1, Seq: 1, Floor: 1, Try: 1}, false)
	}
	if p, r := m.Size(); p != ProducersMax || r != ProducersMax || m.Forgotten != 10 {
		t.Errorf("%d producers, %d records, %d forgotten", p, r, m.Forgotten)
	}
	if m.Check("e", Stamp{Producer: 1, Seq: 1, Floor: 1, Try: 2}, false) != Duplicate {
		t.Error("a producer that was used all the time is forgotten")
	}
	if m.Check("e", Stamp{Producer: 2, Seq: 1, Floor: 1, Try: 2}, false) != Run {
		t.Error("the one that was silent longest is not forgotten")
	}
}

func TestMemoryKeepsToItsRecords(t *testing.T) {
	var m Memory
	const each = RecordsMax / 8
	for n := range Producer(10) {
		for i := range uint64(each) {
			m.Ran(fmt.Sprint(i), Stamp{Producer: n + 1, Seq: i + 1, Floor: 1, Try: 1}, false)
		}
	}
	if p, r := m.Size(); p != 8 || r != RecordsMax || m.Forgotten != 2 {
		t.Errorf("%d producers, %d records, %d forgotten", p, r, m.Forgotten)
	}
}

// TestMemoryTravelsWithinAFrame has more to say than fits.
func TestMemoryTravelsWithinAFrame(t *testing.T) {
	var m Memory
	for n := range Producer(10) {
		for i := range uint64(1000) {
			m.Ran(strings.Repeat("x", 1000)+fmt.Sprint(i), Stamp{Producer: n + 1, Seq: i + 1, Floor: 1, Try: 1}, false)
		}
	}
	b := m.Append(nil)
	if len(b) > encodedMax {
		t.Fatalf("%d bytes", len(b))
	}
	var moved Memory
	if err := moved.Restore(b); err != nil {
		t.Fatal(err)
	}
	if p, _ := moved.Size(); p != 2 || m.Forgotten != 8 {
		t.Errorf("%d producers moved, %d forgotten", p, m.Forgotten)
	}
	if moved.producers[10] == nil || moved.producers[1] != nil {
		t.Error("the one that spoke last was forgotten, or the first was not")
	}
}

func FuzzStamp(f *testing.F) {
	var b [StampBytes]byte
	(&Stamp{Producer: 7, Seq: 9, Prev: 8, Floor: 3, Try: 2}).Put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStamp(b)
		if err != nil {
			return
		}
		var again [StampBytes]byte
		s.Put(again[:])
		if !bytes.Equal(again[:], b[:StampBytes]) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

func FuzzMemory(f *testing.F) {
	var m Memory
	m.Ran("a", Stamp{Producer: 7, Seq: 9, Floor: 3, Try: 2}, false)
	m.Ran("b", Stamp{Producer: 7, Seq: 10, Floor: 3, Try: 2}, true)
	m.Ran("b", Stamp{Producer: 8, Seq: 1, Floor: 1, Try: 1}, false)
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Memory
		if err := m.Restore(b); err != nil {
			if p, r := m.Size(); !errors.Is(err, ErrMalformed) || p+r != 0 {
				t.Errorf("%v leaves %d producers, %d records", err, p, r)
			}
			return
		}
		out := m.Append(nil)
		if err := again.Restore(out); err != nil {
			t.Fatalf("%x: %v", out, err)
		}
		if !bytes.Equal(again.Append(nil), out) {
			t.Errorf("%x changes when it travels again", out)
		}
	})
}
