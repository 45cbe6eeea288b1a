package loglimit

import (
	"testing"
	"time"
)

func TestABudgetComesBack(t *testing.T) {
	var b Budget
	now := time.Unix(1000, 0)
	for range Burst {
		if _, ok := b.Take(now); !ok {
			t.Fatal("the budget is smaller than Burst")
		}
	}
	for range 3 {
		if _, ok := b.Take(now); ok {
			t.Fatal("the budget is larger than Burst")
		}
	}
	if suppressed, ok := b.Take(now.Add(Period)); !ok || suppressed != 3 {
		t.Errorf("a period later: %d suppressed, %v", suppressed, ok)
	}
}
