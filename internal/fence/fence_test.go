package fence

import (
	"slices"
	"testing"
)

// TestTheLowestIncarnationHasAMark: as every other one.
func TestTheLowestIncarnationHasAMark(t *testing.T) {
	m := NewMarks(4, func(string) bool { return false })
	for i, want := range []Verdict{Raised, Current} {
		if got := m.Accept("a", 0); got != want || m.Len() != 1 {
			t.Errorf("attempt %d: %d, %d marks", i, got, m.Len())
		}
	}
}

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

// TestAnEvictedMarkIsForgotten: any incarnation of its process is accepted again.
func TestAnEvictedMarkIsForgotten(t *testing.T) {
	m := NewMarks(2, func(p string) bool { return p == "b" })
	for _, p := range []string{"a", "b", "a", "c"} {
		m.Accept(p, 5)
	}
	if v := m.Accept("a", 1); v != Raised || m.Len() != 2 {
		t.Errorf("an evicted process: %d, %d marks", v, m.Len())
	}
	if v := m.Accept("b", 4); v != Superseded {
		t.Errorf("a live process: %d", v)
	}
	m.Accept("a", 2)
	if v := m.Accept("a", 2); v != Current || m.Len() != 2 {
		t.Errorf("a raised mark: %d, %d marks", v, m.Len())
	}
}

func TestEvictOldestKeepsTheLiveOnes(t *testing.T) {
	for name, c := range map[string]struct {
		live, rest []int
		gone       int
		ok         bool
	}{
		"none is live":      {nil, []int{2, 3}, 1, true},
		"the oldest is":     {[]int{1}, []int{3, 1}, 2, true},
		"the two oldest":    {[]int{1, 2}, []int{1, 2}, 3, true},
		"all are live":      {[]int{1, 2, 3}, []int{1, 2, 3}, 0, false},
		"another one lives": {[]int{3}, []int{2, 3}, 1, true},
	} {
		rest, gone, ok := EvictOldest([]int{1, 2, 3}, func(k int) bool { return slices.Contains(c.live, k) })
		if !slices.Equal(rest, c.rest) || gone != c.gone || ok != c.ok {
			t.Errorf("%s: keeps %v, evicts %d, %v", name, rest, gone, ok)
		}
	}
}

// TestAMemberThatIsBackIsNotDropped: it takes no place among the newest, and may be dropped
// again.
func TestAMemberThatIsBackIsNotDropped(t *testing.T) {
	d := NewDropped[int](2)
	d.SetMembers([]int{1, 2, 3})
	d.SetMembers([]int{1})
	if d.SetMembers([]int{1, 3, 4}); d.Has(3) || !d.Has(2) {
		t.Error("3 is a member again, and 2 is not")
	}
	if d.SetMembers([]int{1, 3}); !d.Has(2) || !d.Has(4) || d.Has(3) {
		t.Error("2 and 4 are the two newest")
	}
	if gone := d.SetMembers([]int{1}); !slices.Equal(gone, []int{3}) || d.Has(2) || !d.Has(4) || !d.Has(3) {
		t.Errorf("drops %v; 4 and 3 are the two newest", gone)
	}
	if gone := d.SetMembers([]int{1}); gone != nil {
		t.Errorf("an equal view drops %v", gone)
	}
}
