package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/defect"
	"github.com/peerage-go/peerage/internal/history"
)

// Callers asks counters at a fixed rate, whether or not earlier asks were answered: the load
// is open. Each request has a caller of its own, which retries until it has an answer or
// its patience ends. A process has at most InFlight requests in flight: a request that is due
// beyond that is not sent, and recorded as such. The latency of a request counts from the instant at which it was due, also if the
// process was held then.
type Callers struct {
	Counters int
	// Every is the time between two asks of one counter by any process. The members take
	// turns, by the clock that all processes of a machine share. So each counter is asked
	// in every period, and a counter without an answer did not answer.
	Every time.Duration
	// InFlight is how many requests this process has in flight at most.
	InFlight int
	// Turn is this member's place among so many.
	Turn func() (place, of int)
	// Leaving is true once the node drains: nothing new is asked then.
	Leaving func() bool
	Ask     func(ctx context.Context, id string) (total uint64, err error)
	// Tell sends the number-th message to a counter, and waits for no answer; nil sends none.
	Tell    func(ctx context.Context, id string, number uint64) error
	Reason  func(error) string
	Node    func() uint64
	Clock   clock.Clock
	History *history.Writer

	asked, answered, gaveUp, notSent atomic.Uint64

	inFlight, inFlightMost atomic.Int64

	mu    sync.Mutex
	tries map[string]uint64
}

const (
	// AttemptPatience ends an attempt that hangs; the caller tries again.
	AttemptPatience = 2 * time.Second
	// CallerPatience ends a request: its caller gives up.
	CallerPatience = 10 * time.Second
	// InFlightMax is how many requests a process has in flight at most by default, as a client
	// with a pool of connections would.
	InFlightMax = 1024
)

// CounterID returns the id of the i-th counter.
func CounterID(i int) string { return fmt.Sprintf("counter-%d", i) }

// Run asks until ctx ends or the node drains, and returns when the last caller has
// its answer. It begins once the node is in a cluster: without one, every process of a slow
// start would ask every counter in every period, and the retries would slow the start down.
func (l *Callers) Run(ctx context.Context) {
	for _, of := l.Turn(); of == 0; _, of = l.Turn() {
		if harness.Pause(ctx, l.Every) != nil {
			return
		}
	}
	var callers sync.WaitGroup
	for i := range l.Counters {
		callers.Go(func() { l.caller(ctx, i) })
	}
	for i := range min(l.Counters, toldCounters) {
		if l.Tell == nil {
			break
		}
		callers.Go(func() { l.teller(ctx, i) })
	}
	callers.Wait()
}

// caller begins a request of a counter at each of this member's turns.
func (l *Callers) caller(ctx context.Context, i int) {
	var requests sync.WaitGroup
	defer requests.Wait()
	retries := &backoff{}
	last := l.Clock.Now()
	for turn := uint64(0); ; turn++ {
		due := l.turnAfter(i, last)
		last = due
		if harness.Pause(ctx, due.Sub(l.Clock.Now())) != nil || l.Leaving() {
			return
		}
		if defect.Active() == defect.Idle && !defect.Every(turn, 3) {
			continue
		}
		if !l.admitRequest() {
			l.notSent.Add(1)
			l.History.Write(history.Record{Op: history.NotSent, Entity: uint32(i), Node: l.Node(), Start: due})
			continue
		}
		requests.Go(func() {
			defer l.inFlight.Add(-1)
			l.request(ctx, i, due, retries)
		})
	}
}

// admitRequest counts one more request in flight, unless there are too many.
func (l *Callers) admitRequest() bool {
	n := l.inFlight.Add(1)
	if n > int64(l.InFlight) {
		l.inFlight.Add(-1)
		return false
	}
	for {
		most := l.inFlightMost.Load()
		if n <= most || l.inFlightMost.CompareAndSwap(most, n) {
			return true
		}
	}
}

const (
	// toldCounters is how many counters get numbered messages from each process, so that
	// their order can be checked.
	toldCounters = 4
	tellPatience = 100 * time.Millisecond
)

// teller sends numbered messages to a counter until ctx ends or the node drains.
// It skips a message that cannot be sent: gaps are allowed, inversions are not.
func (l *Callers) teller(ctx context.Context, i int) {
	for number := uint64(1); harness.Pause(ctx, l.Every/2) == nil && !l.Leaving(); number++ {
		attempt, done := context.WithTimeout(ctx, tellPatience)
		err := l.Tell(attempt, CounterID(i), number)
		done()
		if ctx.Err() != nil || l.Leaving() {
			return // the process ends, and the message with it
		}
		if err != nil {
			l.Tried(fmt.Errorf("tell: %w", err))
		}
	}
}

// turnAfter returns this member's next turn at a counter after an instant. The turns of the
// counters lie between each other.
func (l *Callers) turnAfter(counter int, after clock.Instant) clock.Instant {
	place, of := l.Turn()
	round := l.Every * time.Duration(max(of, 1))
	at := l.Every*time.Duration(place) + l.Every*time.Duration(counter)/time.Duration(l.Counters)
	since := (time.Duration(after) - at) % round
	return after.Add(round - (since+round)%round)
}

// request is one request that was due at an instant, with its retries.
func (l *Callers) request(ctx context.Context, i int, due clock.Instant, retries *backoff) {
	l.asked.Add(1)
	r := history.Record{Op: history.Asked, Entity: uint32(i), Node: l.Node(), Start: due}
	l.History.Write(r)
	r.Op = history.Failed
	patience, cancel := context.WithTimeout(context.Background(), CallerPatience)
	defer cancel()
	for again := false; ; again = true {
		attempt, done := context.WithTimeout(patience, AttemptPatience)
		total, err := l.Ask(attempt, CounterID(i))
		done()
		retries.endAttempt(err == nil, again)
		if err == nil {
			r.Op, r.Value = history.Answered, total
			break
		}
		l.Tried(err)
		if ctx.Err() != nil || l.Leaving() {
			return // the process ends; the caller has not given up
		}
		if retries.awaitRetry(patience, l.inFlight.Load) != nil {
			break
		}
	}
	r.Node, r.End = l.Node(), l.Clock.Now()
	l.History.Write(r)
	if r.Op == history.Answered {
		l.answered.Add(1)
		return
	}
	l.gaveUp.Add(1)
}

// Tried counts a failed attempt.
func (l *Callers) Tried(err error) {
	reason := l.Reason(err)
	if errors.Is(err, context.DeadlineExceeded) {
		reason = "deadline"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tries == nil {
		l.tries = map[string]uint64{}
	}
	l.tries[reason]++
}

// Totals returns the counts so far.
func (l *Callers) Totals() harness.Totals {
	l.mu.Lock()
	tries := maps.Clone(l.tries)
	l.mu.Unlock()
	return harness.Totals{
		Asked: l.asked.Load(), Answered: l.answered.Load(), GaveUp: l.gaveUp.Load(), NotSent: l.notSent.Load(),
		InFlightMost: l.inFlightMost.Load(), Tries: tries,
	}
}
