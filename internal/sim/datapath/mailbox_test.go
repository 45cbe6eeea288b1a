package datapath

import (
	"testing"

	"github.com/peerage-go/peerage/internal/core/flow"
)

// Messages of handlers take turns with ordinary ones, and have a reserve of a quarter; control
// messages have room of their own.
func TestClassesShareAMailbox(t *testing.T) {
	home := newProcesses(t, 1, 4)[0]
	put := func(class flow.Class, n int) {
		for i := range n {
			home.boxes.Put(Ready{Message: &Message{Class: class, Seq: uint64(i)}}, &Place{entered: func(bool) {}}, home.Count)
		}
	}
	put(flow.Ordinary, 6)
	put(flow.Handler, 3)
	put(flow.Control, 5)
	if home.boxes.Len() != 9 || home.counts[MessageParked] != 5 {
		t.Errorf("%d messages entered, %d wait: want 4 ordinary, 1 in the reserve, 4 control", home.boxes.Len(), home.counts[MessageParked])
	}
	var classes []flow.Class
	next := map[flow.Class]uint64{}
	for r, ok := home.boxes.Take(); ok; r, ok = home.boxes.Take() {
		if classes = append(classes, r.Class); r.Seq != next[r.Class] {
			t.Errorf("message %d of class %d is taken, not %d", r.Seq, r.Class, next[r.Class])
		}
		next[r.Class]++
	}
	if next[flow.Ordinary] != 6 || next[flow.Handler] != 3 || next[flow.Control] != 5 {
		t.Errorf("taken: %v", classes)
	}
}

// Messages that find a full mailbox are parked. Release lets them enter it, although it is full.
func TestReleaseDeliversParkedMessages(t *testing.T) {
	home := newProcesses(t, 1, 1)[0]
	a := home.path.accounts.senderOf(2).accountOf(0, tokenOf(1), 1)
	for n := range uint64(3) {
		a.run.Add(n+1, 10)
		if !home.boxes.Put(Ready{Message: &Message{Sender: 2, Seq: n + 1}}, &Place{account: a}, home.Count) {
			t.Fatalf("message %d is rejected", n+1)
		}
	}
	if home.boxes.Len() != 1 || home.path.accounts.pool.Used == 0 {
		t.Fatalf("%d messages in the mailbox, %d bytes parked", home.boxes.Len(), home.path.accounts.pool.Used)
	}
	home.boxes.Release()
	if home.boxes.Len() != 3 || home.path.accounts.pool.Used != 0 {
		t.Errorf("%d messages in the mailbox, %d bytes parked", home.boxes.Len(), home.path.accounts.pool.Used)
	}
}
