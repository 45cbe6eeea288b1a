package virtual

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// Timer calls a function on a thread at the deadline of a core. An earlier deadline replaces a
// later one; a later one is ignored until the earlier has passed.
type Timer struct {
	thread *Thread
	clock  Clock
	slack  func() time.Duration
	fire   func()
	want   clock.Instant
}

// NewTimer returns a timer without a deadline. Slack draws how late it fires.
func NewTimer(t *Thread, c Clock, slack func() time.Duration, fire func()) *Timer {
	return &Timer{thread: t, clock: c, slack: slack, fire: fire, want: clock.Never}
}

// Set sets the deadline, by the clock of the process.
func (t *Timer) Set(i clock.Instant) {
	if i >= t.want {
		return
	}
	t.want = i
	slack := t.slack()
	t.thread.time.At(t.clock.When(i).Add(slack), func() {
		if t.want != i {
			return
		}
		t.thread.Run(func() {
			if t.want == i {
				t.want = clock.Never
				t.fire()
			}
		})
	})
}
