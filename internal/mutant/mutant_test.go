package mutant

import "testing"

func TestTheZeroKindIsNoBug(t *testing.T) {
	if (Kind{}).Is("no term check") {
		t.Error("the zero Kind is a planted bug")
	}
	if k := Plant("no term check"); !k.Is("no term check") || k.Is("another") || k.String() != "no term check" {
		t.Errorf("Plant gives %v", k)
	}
}
