package run

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// stops reports whether do stops the run.
func stops(do func()) (stopped bool) {
	defer func() { _, stopped = recover().(Failure) }()
	do()
	return false
}

func TestViolationsStopTheRun(t *testing.T) {
	r := New(&seed.Options{})
	if !stops(func() { r.Judge(&invariant.Violation{ID: "S1"}) }) || stops(func() { r.Judge(nil) }) {
		t.Error("a violation does not stop the run, or none does")
	}
	if !stops(func() { r.Fail("S1", "%d", 1) }) {
		t.Error("Fail does not stop the run")
	}
}

func TestUntilTrueStopsAtTheLimit(t *testing.T) {
	r := New(&seed.Options{})
	if r.UntilTrue(time.Second, 100*time.Millisecond, func() bool { return false }) || r.Now() != virtual.Instant(time.Second) {
		t.Errorf("stopped at %d", r.Now())
	}
	done := false
	r.After(250*time.Millisecond, func() { done = true })
	if !r.UntilTrue(time.Second, 100*time.Millisecond, func() bool { return done }) || r.Now() != virtual.Instant(1300*time.Millisecond) {
		t.Errorf("the condition holds at %d", r.Now())
	}
}
