package statecopy

import "testing"

func TestAnEntityThatChangesAReturnedSliceIsFound(t *testing.T) {
	var m sliceMemory
	buf := []byte("1")
	held := m.adoptState(buf, true)
	buf[0] = '2'
	if maybe, reused := m.compare(held, buf); !maybe || !reused {
		t.Errorf("a changed slice: %v, %v", maybe, reused)
	}
	held = m.adoptState(buf, true)
	if buf[0] = '3'; held[0] != '2' {
		t.Error("the next state is not copied")
	}
	if _, reused := m.compare(held, buf); !reused {
		t.Error("a later change is not found")
	}
}

func TestAnEntityThatReturnsCopiesIsNotReported(t *testing.T) {
	var m sliceMemory
	held := m.adoptState([]byte("1"), true)
	if maybe, reused := m.compare(held, []byte("2")); maybe || reused {
		t.Errorf("a copy: %v, %v", maybe, reused)
	}
	if maybe, reused := m.compare(held, held); maybe || reused {
		t.Errorf("the same slice, unchanged: %v, %v", maybe, reused)
	}
}

// Without a hash, a slice that is returned again may have changed.
func TestASliceReturnedAgainMayHaveChanged(t *testing.T) {
	var m sliceMemory
	held := m.adoptState([]byte("1"), false)
	if maybe, reused := m.compare(held, held); !maybe || reused {
		t.Errorf("%v, %v", maybe, reused)
	}
}
