package fence

import (
	"slices"
	"testing"
)

func TestAcceptRaisesTheMarkAndRefusesWhatIsBelow(t *testing.T) {
	m := NewMarks(4, func(string) bool { return false })
	for i, step := range []struct {
		p    string
		k    uint64
		want Verdict
	}{{"a", 1, Raised}, {"a", 1, Current}, {"b", 5, Raised}, {"a", 3, Raised}, {"a", 2, Superseded},
		{"a", 1, Superseded}, {"b", 5, Current}, {"b", 4, Superseded}, {"a", 3, Current}} {
		if got := m.Accept(step.p, step.k); got != step.want {
			t.Errorf("step %d, (%s, %d): %d, not %d", i, step.p, step.k, got, step.want)
		}
	}
}

func TestMarksAreBoundedAndLiveOnesStay(t *testing.T) {
	live := map[int]bool{1: true}
	m := NewMarks(3, func(p int) bool { return live[p] })
	for p := range 100 {
		m.Accept(p, 7)
	}
	if m.Len() != 3 {
		t.Errorf("%d marks, 3 are allowed", m.Len())
	}
	if v := m.Accept(1, 6); v != Superseded {
		t.Errorf("the mark of a live process is gone: %d", v)
	}
	live[98], live[99] = true, true
	if v := m.Accept(200, 1); v != Full {
		t.Errorf("a process without room for its mark: %d", v)
	}
	if v := m.Accept(99, 8); v != Raised {
		t.Errorf("a process in the full table: %d", v)
	}
}

func TestDroppedAreThoseThatAViewNoLongerHas(t *testing.T) {
	d := NewDropped[int](2)
	if gone := d.SetMembers([]int{1, 2, 3}); gone != nil || d.Has(4) {
		t.Errorf("the first view drops %v", gone)
	}
	if gone := d.SetMembers([]int{1, 4}); !slices.Equal(gone, []int{2, 3}) || !d.Has(2) || !d.Has(3) || d.Has(4) {
		t.Errorf("dropped: %v", gone)
	}
	if gone := d.SetMembers([]int{1, 2}); !slices.Equal(gone, []int{4}) || d.Has(2) || !d.Has(4) {
		t.Errorf("dropped then: %v", gone)
	}
	d.SetMembers([]int{5})
	if d.Has(3) || d.Has(4) || !d.Has(1) || !d.Has(2) {
		t.Error("the set does not hold the two newest")
	}
}
