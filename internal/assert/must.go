//go:build invariants || race

package assert

import "testing"

// MustBreak fails the test unless play breaks the invariant of that id.
func MustBreak(t testing.TB, id string, play func()) {
	t.Helper()
	defer func() {
		t.Helper()
		switch v := recover().(type) {
		case nil:
			t.Errorf("%s is not asserted", id)
		case Violation:
			if v.ID != id {
				t.Errorf("%v, want %s to be broken", v, id)
			}
			t.Log(v)
		default:
			panic(v)
		}
	}()
	play()
}
