// Package planted switches bugs on that are planted on purpose: a check is trusted only if
// it detects them. The patches under testdata/planted put them into copies of the sources,
// which only `go run ./internal/lint/planted` compiles. No source of the tree imports this
// package but those copies and tests with the build tag planted.
package planted

import (
	"sync/atomic"
	"testing"
)

// bug is the planted bug that is switched on.
type bug struct {
	name    string
	reached atomic.Bool
}

// current is nil if no bug is switched on. Worlds play on several goroutines, and all of
// them have the same bug.
var current atomic.Pointer[bug]

// On reports whether the bug of that name is switched on. Patched code calls it.
func On(name string) bool {
	b := current.Load()
	if b == nil || b.name != name {
		return false
	}
	if !b.reached.Load() {
		b.reached.Store(true)
	}
	return true
}

// MustCatch switches a bug on while play runs. Play returns what a check has detected. The
// test fails if play returns "", or if no switch of the bug was reached. The runner reads the
// line that MustCatch logs.
func MustCatch(t testing.TB, name string, play func() string) {
	t.Helper()
	b := &bug{name: name}
	if !current.CompareAndSwap(nil, b) {
		t.Fatalf("planted: %q while %q is planted: such tests do not run in parallel", name, current.Load().name)
	}
	defer current.Store(nil) // also if play panics or ends the test
	switch found := play(); {
	case !b.reached.Load():
		t.Errorf("planted: no switch of %q was reached", name)
	case found == "":
		t.Errorf("planted: %q was not caught", name)
	default:
		t.Logf("planted: caught %q: %s", name, found)
	}
}

// Without switches the bug off while play runs: what fails here fails without the bug, too.
func Without(play func()) {
	defer current.Store(current.Swap(nil))
	play()
}
