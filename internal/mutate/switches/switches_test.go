package switches

import "testing"

func TestSwitchesChangeOneMutant(t *testing.T) {
	t.Cleanup(func() { active = 0 })
	for _, c := range []struct {
		name    string
		of      func() any
		off, on any
	}{
		{"On", func() any { return On(1) }, false, true},
		{"Less", func() any { return Less(1, 2, 2) }, false, true},
		{"LessEqual", func() any { return LessEqual(1, 2, 2) }, true, false},
		{"Greater", func() any { return Greater(1, 2, 2) }, false, true},
		{"GreaterEqual", func() any { return GreaterEqual(1, 2, 2) }, true, false},
		{"Min", func() any { return Min(1, 3, 2, 4) }, 2, 4},
		{"Max", func() any { return Max(1, 3, 2, 4) }, 4, 2},
		{"Add", func() any { return Add(1, 3, 2) }, 5, 1},
		{"Subtract", func() any { return Subtract(1, 3, 2) }, 1, 5},
	} {
		for mutant, want := range map[int]any{0: c.off, 1: c.on, 2: c.off} {
			if active = mutant; c.of() != want {
				t.Errorf("%s with mutant %d: %v, want %v", c.name, mutant, c.of(), want)
			}
		}
	}
}
