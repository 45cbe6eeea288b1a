package seed

import (
	"reflect"
	"testing"
)

func TestEqualOptionsGiveEqualConfigs(t *testing.T) {
	different := 0
	for n := range uint64(100) {
		a, b := Draw(&Options{Seed: n}), Draw(&Options{Seed: n})
		if !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: %+v, then %+v", n, a, b)
		}
		if !reflect.DeepEqual(a, Draw(&Options{Seed: n + 1})) {
			different++
		}
	}
	if different < 100 {
		t.Errorf("only %d of 100 seeds differ from the next", different)
	}
}

// TestOrderlyRunsHaveNoFaults: only joins, leaves and moves happen in an orderly run.
func TestOrderlyRunsHaveNoFaults(t *testing.T) {
	for n := range uint64(500) {
		c := Draw(&Options{Seed: n, Orderly: true})
		if !c.Orderly || c.Crash || c.PowerLoss || c.Pause || c.StepPauses || c.Reuse || c.Slow || c.Partition || c.Reject || c.Flaky || c.DriftBeyond || c.Apart || c.Disks || c.Corrupt || c.Rings || c.Clocks {
			t.Fatalf("seed %d: %+v", n, c)
		}
	}
}

// TestOptionsAreTaken: what a caller fixes is not drawn.
func TestOptionsAreTaken(t *testing.T) {
	apart := 0
	for n := range uint64(200) {
		if c := Draw(&Options{Seed: n, Nodes: 5}); c.Aim == AimNone && c.Nodes != 5 {
			t.Errorf("seed %d: %d hosts, want 5", n, c.Nodes)
		}
		if Draw(&Options{Seed: n, Apart: true}).Apart {
			apart++
		}
		if c := Draw(&Options{Seed: n, Aim: AimRaise}); c.Aim != AimRaise && !c.Orderly {
			t.Errorf("seed %d: aim %v", n, c.Aim)
		}
	}
	if apart < 100 {
		t.Errorf("%d of 200 runs are apart", apart)
	}
}
