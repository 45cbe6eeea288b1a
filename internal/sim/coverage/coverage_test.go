package coverage

import (
	"maps"
	"testing"
)

// A campaign looks its marks up by name, so a mark without a name of its own never counts.
func TestEachMarkHasANameOfItsOwn(t *testing.T) {
	byName := map[string]Mark{}
	for m := range End {
		name := m.String()
		if other, taken := byName[name]; taken || name == "" {
			t.Errorf("marks %d and %d are both called %q", other, m, name)
		}
		byName[name] = m
	}
	if len(names) != int(End) {
		t.Errorf("%d marks have %d names", End, len(names))
	}
}

func TestOnlyStatesThatWereSeenAreCounted(t *testing.T) {
	var c Counter
	if got := c.Counts(); len(got) != 0 {
		t.Errorf("nothing was seen, and %v is counted", got)
	}
	for _, m := range []Mark{QuorumLost, Withdrawn, QuorumLost} {
		c.Hit(m)
	}
	if got, want := c.Counts(), map[string]int{"quorum lost": 2, "caller gave up waiting for room": 1}; !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}

// TestFewMarksAreRare checks the list of marks that excuse small campaigns, which must stay short.
func TestFewMarksAreRare(t *testing.T) {
	rare := map[Mark]int{}
	for m := range End {
		if n := m.SeenWithin(); n != 2_000 {
			rare[m] = n
		}
	}
	if want := map[Mark]int{StillServed: 500_000, Undelivered: 100_000, FrozenLease: 50_000, PutAside: 50_000}; !maps.Equal(rare, want) {
		t.Errorf("rare are %v, want %v", rare, want)
	}
}
