package defect

import (
	"strings"
	"testing"
)

// A build without the tag has no defects, and its error gives the command that has.
func TestOnlyABuildThatAsksForThemHasDefects(t *testing.T) {
	t.Setenv(variable, "")
	if err := Plant("sloth"); err == nil || !strings.Contains(err.Error(), "two-instances,lost-add") {
		t.Errorf("a defect that does not exist: %v", err)
	}
	err := Plant(LostAdd)
	if Built != (err == nil) {
		t.Errorf("built %v, and planting ends with %v", Built, err)
	}
	if !Built && (Active() != "" || !strings.Contains(err.Error(), "go run -tags plant")) {
		t.Errorf("active %q, the error is %v", Active(), err)
	}
}

func TestOneEventInSoManyHasTheDefect(t *testing.T) {
	n := 0
	for i := range uint64(100) {
		if Every(i, 20) {
			n++
		}
	}
	if n != 5 || Every(0, 2) {
		t.Errorf("%d of 100, want 5", n)
	}
}
