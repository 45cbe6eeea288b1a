package invariant

import "testing"

// Acknowledged states are found again, or reported as lost once. Changes that were not acknowledged
// may be missing.
func TestAcknowledgedStatesAreKept(t *testing.T) {
	k := NewKept()
	first := k.Handled(1, 0, 10)
	second := k.Handled(1, first, 11)
	if b := k.Acknowledged(0, 1, first); b != nil {
		t.Error(b)
	}
	for _, c := range []struct {
		name  string
		state uint64
		lost  bool
	}{{"the newest state", second, false}, {"the acknowledged one", first, false}, {"none", 0, true}, {"none again", 0, false}} {
		if lost, b := k.Started(0, 1, c.state); lost != c.lost || b != nil {
			t.Errorf("an instance that begins with %s: lost %v, %v", c.name, lost, b)
		}
	}
	if _, b := k.Started(0, 1, 77); b == nil {
		t.Error("a state that never was is accepted")
	}
	if lost, b := k.Started(0, 2, 0); lost || b != nil {
		t.Errorf("an entity without a state: lost %v, %v", lost, b)
	}
}

// An acknowledged change must be in the newest instance, whichever instance has made it.
func TestAcknowledgementsAreInTheNewestInstance(t *testing.T) {
	k := NewKept()
	first := k.Handled(1, 0, 10)
	if _, b := k.Started(0, 1, first); b != nil {
		t.Fatal(b)
	}
	newer := k.Handled(1, first, 12)
	for _, state := range []uint64{newer, first} {
		if b := k.Acknowledged(0, 1, state); b != nil {
			t.Error(b)
		}
	}
	if lost, _ := k.Started(0, 1, first); !lost {
		t.Error("a later acknowledgement of an earlier state hides that the newest is lost")
	}
	late := k.Handled(1, newer, 13) // by the former instance
	if b := k.Acknowledged(0, 1, late); b == nil {
		t.Error("a change that the newest instance does not have is acknowledged")
	}
}
