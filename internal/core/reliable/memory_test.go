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

// TestAMemoryLargerThanAFrameKeepsTheLastProducer checks that the producer which spoke last is moved, however much there is
// to say of it.
func TestAMemoryLargerThanAFrameKeepsTheLastProducer(t *testing.T) {
	var m Memory
	const records = encodedMax/1000 + 1
	for i := range uint64(records) {
		m.Ran(strings.Repeat("x", 1000)+fmt.Sprint(i), Stamp{Producer: 1, Seq: i + 1, Floor: 1, Try: 1}, false)
	}
	var moved Memory
	if err := moved.Restore(m.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if p, r := moved.Size(); p != 1 || r != records || m.Forgotten != 0 {
		t.Errorf("%d producers and %d records moved, %d forgotten", p, r, m.Forgotten)
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

// A number below the highest floor is over: it does not run again, is no gap for later
// numbers, and takes no record.
func TestMemoryForgetsWhatIsOver(t *testing.T) {
	var m Memory
	at := func(seq, prev, floor uint64) Stamp {
		return Stamp{Producer: 1, Seq: seq, Prev: prev, Floor: floor, Try: 1}
	}
	slow := at(1, 0, 1)
	for _, id := range []string{"slow", "a", "b"} {
		if v := m.Check(id, slow, false); v != Run {
			t.Fatalf("%s: %v", id, v)
		}
		if id != "slow" {
			m.Ran(id, slow, false)
		}
		slow.Seq++
	}
	if v := m.Check("c", at(9, 0, 5), false); v != Run {
		t.Errorf("above the floor: %v", v)
	}
	if _, records := m.Size(); records != 0 {
		t.Errorf("%d records of what is over", records)
	}
	// The handler of what has been over for a while ends only now.
	m.Ran("slow", at(1, 0, 1), false)
	if _, records := m.Size(); records != 0 {
		t.Error("a record is kept of what is over")
	}
	if v := m.Check("a", at(2, 0, 1), false); v != Duplicate {
		t.Errorf("a copy from below the floor: %v", v)
	}
	// A copy that left before its producer heard that the one before it was over.
	if v := m.Check("d", at(7, 3, 2), false); v != Run {
		t.Errorf("behind one that is over: %v", v)
	}
	if v := m.Check("d", at(8, 7, 2), false); v != Gap {
		t.Errorf("behind one that has not run: %v", v)
	}
}

// One producer may have more to remember than the bound: there is nobody to forget.
func TestMemoryOfOneProducerIsBoundedByItsWindow(t *testing.T) {
	var m Memory
	for i := range uint64(RecordsMax + 1) {
		m.Ran(fmt.Sprint(i), Stamp{Producer: 1, Seq: i + 1, Floor: 1, Try: 1}, false)
	}
	if p, r := m.Size(); p != 1 || r != RecordsMax+1 || m.Forgotten != 0 {
		t.Errorf("%d producers, %d records, %d forgotten", p, r, m.Forgotten)
	}
}

// At its next home a Memory knows what it knew, and forgets in the order in which it
// would have forgotten.
func TestMemoryIsTheSameAfterAMove(t *testing.T) {
	var m Memory
	for n := range Producer(3) {
		for seq := uint64(5); seq > 0; seq-- {
			m.Ran(fmt.Sprint("e", seq), Stamp{Producer: n + 1, Seq: seq, Floor: 1, Try: 1}, seq == 4)
		}
	}
	m.Check("e1", Stamp{Producer: 1, Seq: 1, Floor: 1, Try: 2}, false) // the others have been silent longer
	var moved Memory
	if err := moved.Restore(m.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if p, r := moved.Size(); p != 3 || r != 15 {
		t.Fatalf("%d producers, %d records", p, r)
	}
	if v := moved.Check("e4", Stamp{Producer: 2, Seq: 4, Floor: 1, Try: 2}, false); v != Run {
		t.Errorf("what was put aside there comes again here: %v", v)
	}
	// Below the floor goes what is below, in whatever order it ran.
	moved.Check("e9", Stamp{Producer: 2, Seq: 9, Floor: 4, Try: 1}, false)
	if _, r := moved.Size(); r != 12 {
		t.Errorf("%d records after three of them are over", r)
	}
	for n := range Producer(ProducersMax - 2) {
		moved.Ran("x", Stamp{Producer: 100 + n, Seq: 1, Floor: 1, Try: 1}, false)
	}
	if moved.Forgotten != 1 {
		t.Errorf("%d forgotten", moved.Forgotten)
	}
	for i, want := range []Verdict{Duplicate, Duplicate, Run} {
		if v := moved.Check("e5", Stamp{Producer: Producer(i + 1), Seq: 5, Floor: 1, Try: 2}, false); v != want {
			t.Errorf("producer %d: %v; 3 was silent longest", i+1, v)
		}
	}
}

// Input that no producer or Memory encodes is refused as a whole.
func TestNonsenseIsRefused(t *testing.T) {
	good := Stamp{Producer: 1, Seq: WindowMax, Prev: WindowMax - 1, Floor: 1, Try: 1}
	for name, change := range map[string]func(*Stamp){
		"no producer": func(s *Stamp) { s.Producer = 0 }, "no copy": func(s *Stamp) { s.Try = 0 },
		"no floor": func(s *Stamp) { s.Seq, s.Prev, s.Floor = 5, 4, 0 }, "below its floor": func(s *Stamp) { s.Seq, s.Prev = 5, 0; s.Floor = 6 },
		"beyond the window": func(s *Stamp) { s.Seq++ }, "behind itself": func(s *Stamp) { s.Prev = s.Seq },
		"": func(*Stamp) {},
	} {
		s := good
		change(&s)
		var b [StampBytes]byte
		s.Put(b[:])
		got, err := ParseStamp(b[:])
		if (err == nil) != (name == "") || err == nil && got != s {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	var m Memory
	for n := range Producer(2) {
		m.Ran("e", Stamp{Producer: n + 1, Seq: 1, Floor: 1, Try: 1}, false)
	}
	b := m.Append(nil)
	two := bytes.Clone(b[:len(b)/2])
	two[16] = 2 // records
	two = append(two, two[17:]...)
	for name, b := range map[string][]byte{
		"a producer twice": append(bytes.Clone(b), b...), "cut short": b[:len(b)-1], "an entity twice": two,
	} {
		var moved Memory
		err := moved.Restore(b)
		if p, r := moved.Size(); !errors.Is(err, ErrMalformed) || p != 0 || r != 0 {
			t.Errorf("%s: %v, %d producers, %d records", name, err, p, r)
		}
	}
}

// TestOnlyACopyThatWasPutAsideIsUndone checks that Undo lets a copy that was put aside run again, and
// changes nothing for a copy that has run, for an unknown entity, or for an unknown producer.
func TestOnlyACopyThatWasPutAsideIsUndone(t *testing.T) {
	at := func(seq uint64) Stamp { return Stamp{Producer: 1, Seq: seq, Prev: seq - 1, Floor: 1, Try: 1} }
	var m Memory
	m.Ran("e", at(1), false)
	m.Undo("e", at(1))
	m.Undo("unknown", at(1))
	m.Undo("e", Stamp{Producer: 2, Seq: 1, Floor: 1, Try: 1})
	if v := m.Check("e", at(1), false); v != Duplicate {
		t.Errorf("a copy that has run: %v after Undo, want a duplicate", v)
	}
	m.Ran("e", at(2), true)
	m.Undo("e", at(1))
	if v := m.Check("e", at(1), false); v != Duplicate {
		t.Errorf("a copy that has run, beside one that waits: %v after Undo, want a duplicate", v)
	}
	if v := m.Check("e", at(2), false); v != Waiting {
		t.Errorf("a copy that was put aside: %v, want that it waits", v)
	}
	m.Undo("e", at(2))
	if v := m.Check("e", at(2), false); v != Run {
		t.Errorf("a copy that was put aside: %v after Undo, want that it runs", v)
	}
}
