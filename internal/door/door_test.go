package door

import (
	"strings"
	"testing"
)

type house struct{}

func (house) Internal(target any) bool {
	t, ok := target.(*func() string)
	if ok {
		*t = func() string { return "inside" }
	}
	return ok
}

// A part is found by its type alone; a type without a part is an error that names both.
func TestOpen(t *testing.T) {
	part, err := Open[func() string](house{})
	if err != nil || part() != "inside" {
		t.Errorf("a part of the house: %v", err)
	}
	if _, err := Open[func() int](house{}); err == nil || !strings.Contains(err.Error(), "door.house has no part of type func() int") {
		t.Errorf("the house has no such part, the error is %v", err)
	}
}
