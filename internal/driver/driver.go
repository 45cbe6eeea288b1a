// Package driver runs a pure core in a goroutine of its own: a bounded queue of events in
// front of it, one timer for its deadline, and one step for each batch of events.
package driver

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/signal"
)

// Config configures a Driver of events of type E.
type Config[E any] struct {
	// Clock measures deadlines.
	Clock clock.Clock
	// Frames bounds the events of PutFrame that wait.
	Frames int
	// Hints bounds the events of PutHint that wait, HintsPerBatch those in one batch.
	Hints, HintsPerBatch int
	// Join joins an event with the newest event that waits. If it returns true, its result
	// replaces both. Nil joins none. It is called with the Driver's mutex held.
	Join func(last, ev E) (joined E, ok bool)
}

// Driver passes events to the step of a core, in the order in which they were added, and
// calls the step when its deadline has come. Adding an event never blocks. Events of this
// node are never dropped: their number is bounded at the source. Frames and hints, whose
// number other nodes determine, are dropped above a bound: the protocols retransmit them.
// All methods are safe for concurrent use; Run is called once.
type Driver[E any] struct {
	cfg  Config[E]
	wake signal.Wake
	// timer calls Wake. It has no channel: in a bubble of synctest, Go 1.26's race detector
	// crashes when the channel of a timer that has expired is read while another expires
	// (golang/go issue 78156; docs/TESTING.md).
	timer *time.Timer

	mu     sync.Mutex
	events []E
	// hints wait behind all other events, so that none ever delays one.
	hints            []E
	frames, most     int
	dropped          uint64
	closed, finished bool
	// handling is set from the moment at which a batch is taken until its step has ended.
	handling bool
	// armed is the instant for which a caller of ArmTimer, or the last step, has set the
	// timer. Never while a batch is being handled, unless ArmTimer was called since.
	armed clock.Instant
}

// waitMax bounds how long the timer is set ahead: the Clock may go on while the machine is
// suspended, and the timer does not.
const waitMax = time.Hour

// New returns a Driver that waits for Run.
func New[E any](cfg Config[E]) *Driver[E] {
	d := &Driver[E]{cfg: cfg, wake: signal.NewWake(), armed: clock.Never}
	d.timer = time.AfterFunc(waitMax, d.Wake)
	return d
}

// Put adds an event and reports whether the Driver was open.
func (d *Driver[E]) Put(ev E) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addEvent(ev)
}

// PutFrame adds a message of another node. It returns false, and counts the message as
// dropped, if there was no room or the Driver is closed.
func (d *Driver[E]) PutFrame(ev E) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frames >= d.cfg.Frames || !d.addEvent(ev) {
		d.dropped++
		return false
	}
	d.frames++
	return true
}

// PutHint adds an event that is handled behind all events that wait. It reports whether
// there was room.
func (d *Driver[E]) PutHint(ev E) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.hints) >= d.cfg.Hints {
		return false
	}
	d.hints = append(d.hints, ev)
	d.Wake()
	return true
}

// addEvent is called with the mutex held.
func (d *Driver[E]) addEvent(ev E) bool {
	if d.closed {
		return false
	}
	if !d.joinNewest(ev) {
		d.events = append(d.events, ev)
		d.most = max(d.most, len(d.events))
	}
	d.Wake()
	return true
}

// joinNewest is called with the mutex held.
func (d *Driver[E]) joinNewest(ev E) bool {
	if d.cfg.Join == nil || len(d.events) == 0 {
		return false
	}
	last := &d.events[len(d.events)-1]
	both, ok := d.cfg.Join(*last, ev)
	if ok {
		*last = both
	}
	return ok
}

// Wake makes Run step soon, also without an event.
func (d *Driver[E]) Wake() { d.wake.Set() }

// ArmTimer makes Run step at an instant, if it would not do so before. It is for callers that
// have stepped the core themselves.
func (d *Driver[E]) ArmTimer(at clock.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at.Before(d.armed) {
		d.armed = at
		d.timer.Reset(min(clock.Ahead(at.Sub(d.cfg.Clock.Now())), waitMax))
	}
}

// Close rejects all further events. Those that wait are handled if Run goes on.
func (d *Driver[E]) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// Finish rejects all further events. Run handles those that wait, without hints beyond one
// batch, and returns.
func (d *Driver[E]) Finish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.finished = true, true
	d.Wake()
}

// Closed reports whether Close or Finish was called.
func (d *Driver[E]) Closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// Idle reports whether the Driver is open, and no event waits or is being handled. A caller
// that steps the core itself must overtake none.
func (d *Driver[E]) Idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.closed && len(d.events) == 0 && !d.handling
}

// Counts returns how many events wait, the most that ever waited, and how many frames were
// dropped.
func (d *Driver[E]) Counts() (waiting, most int, dropped uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events), d.most, d.dropped
}

// Run calls step immediately, then with each batch of events, oldest first, and with an empty
// batch when the deadline that step returned last has come or after Wake. step must not keep
// the batch. Run returns when stop is closed, or after Finish.
func (d *Driver[E]) Run(stop <-chan struct{}, step func(batch []E) (deadline clock.Instant)) {
	defer d.timer.Stop()
	var batch []E
	for {
		var last bool
		batch, last = d.takeBatch(batch)
		next := step(batch)
		clear(batch)
		if last {
			return
		}
		d.endBatch(next)
		select {
		case <-stop:
			return
		case <-d.wake:
		}
	}
}

// endBatch ends the handling of a batch, and sets the timer to the next deadline unless it
// was set to an earlier one meanwhile.
func (d *Driver[E]) endBatch(next clock.Instant) {
	d.mu.Lock()
	d.handling = false
	d.mu.Unlock()
	d.ArmTimer(next)
}

// takeBatch returns all events, and some hints. It reuses the memory of spare for the next
// ones. last is true if no event can follow.
func (d *Driver[E]) takeBatch(spare []E) (batch []E, last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed, d.handling = clock.Never, true
	batch = d.events
	d.events, d.frames = spare[:0], 0
	if n := min(len(d.hints), d.cfg.HintsPerBatch); n > 0 {
		batch = append(batch, d.hints[:n]...)
		if d.hints = d.hints[n:]; len(d.hints) == 0 {
			d.hints = nil
		} else {
			d.Wake()
		}
	}
	return batch, d.finished
}
