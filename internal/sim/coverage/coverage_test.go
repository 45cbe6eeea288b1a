package coverage

import (
	"maps"
	"slices"
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

// A rare mark excuses a campaign of fewer than 50,000 seeds, so the list must stay short.
func TestFewMarksAreRare(t *testing.T) {
	var rare []Mark
	for m := range End {
		if m.IsRare() {
			rare = append(rare, m)
		}
	}
	if want := []Mark{Forced, StillServed, StaleTerm, Fenced, LogCut, FrozenLease, PutAside, MemoryLost, BeyondHelp, Undelivered}; !slices.Equal(rare, want) {
		t.Errorf("rare are %v, want %v", rare, want)
	}
}
