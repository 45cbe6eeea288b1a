package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// load asks counters again and again: one caller per counter, which retries
// until it has an answer or its patience ends.
type load struct {
	counters int
	// every is the time between two asks of one counter by any process. The members take
	// turns, by the clock that all processes of a machine share. So each counter is asked
	// in every period, and a counter without an answer did not answer.
	every time.Duration
	// turn is this member's place among so many.
	turn func() (place, of int)
	// leaving is true once the node drains: nothing new is asked then.
	leaving func() bool
	ask     func(ctx context.Context, id string) (total uint64, err error)
	// tell sends the number-th message to a counter, and waits for no answer.
	tell    func(ctx context.Context, id string, number uint64) error
	reason  func(error) string
	node    func() uint64
	clock   clock.Clock
	history *history.Writer

	asked, answered, gaveUp atomic.Uint64
	mu                      sync.Mutex
	tries                   map[string]uint64
}

const (
	// attemptPatience ends an attempt that hangs; the caller tries again.
	attemptPatience = 2 * time.Second
	callerPatience  = 10 * time.Second
	// retryAfter is the pause before an attempt that follows a failed one.
	retryAfter = 5 * time.Millisecond
)

func counterID(i int) string { return fmt.Sprintf("counter-%d", i) }

// run asks until ctx ends or the node drains, and returns when the last caller has
// its answer.
func (l *load) run(ctx context.Context) {
	var callers sync.WaitGroup
	for i := range l.counters {
		callers.Go(func() { l.caller(ctx, i) })
	}
	for i := range min(l.counters, toldCounters) {
		callers.Go(func() { l.teller(ctx, i) })
	}
	callers.Wait()
}

func (l *load) caller(ctx context.Context, i int) {
	for ctx.Err() == nil {
		if pause(ctx, l.untilTurn(i)) != nil || l.leaving() {
			return
		}
		l.request(ctx, i)
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
func (l *load) teller(ctx context.Context, i int) {
	for number := uint64(1); pause(ctx, l.every/2) == nil && !l.leaving(); number++ {
		attempt, done := context.WithTimeout(ctx, tellPatience)
		err := l.tell(attempt, counterID(i), number)
		done()
		if ctx.Err() != nil || l.leaving() {
			return // the process ends, and the message with it
		}
		if err != nil {
			l.tried(fmt.Errorf("tell: %w", err))
		}
	}
}

// untilTurn returns how long it is to this member's next turn at a counter. The turns of
// the counters lie between each other.
func (l *load) untilTurn(counter int) time.Duration {
	place, of := l.turn()
	round := l.every * time.Duration(max(of, 1))
	at := l.every*time.Duration(place) + l.every*time.Duration(counter)/time.Duration(l.counters)
	since := (time.Duration(l.clock.Now()) - at) % round
	return round - (since+round)%round
}

// request is one request of one caller, with its retries.
func (l *load) request(ctx context.Context, i int) {
	l.asked.Add(1)
	start := l.clock.Now()
	r := history.Record{Op: history.Asked, Entity: uint32(i), Node: l.node(), Start: start}
	l.history.Write(r)
	r.Op = history.Failed
	patience, cancel := context.WithTimeout(context.Background(), callerPatience)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(patience, attemptPatience)
		total, err := l.ask(attempt, counterID(i))
		done()
		if err == nil {
			r.Op, r.Value = history.Answered, total
			break
		}
		l.tried(err)
		if ctx.Err() != nil || l.leaving() {
			return // the process ends; the caller has not given up
		}
		if pause(patience, retryAfter) != nil {
			break
		}
	}
	r.Node, r.End = l.node(), l.clock.Now()
	l.history.Write(r)
	if r.Op == history.Answered {
		l.answered.Add(1)
		return
	}
	l.gaveUp.Add(1)
}

func (l *load) tried(err error) {
	reason := l.reason(err)
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

func (l *load) totals() loadTotals {
	l.mu.Lock()
	tries := maps.Clone(l.tries)
	l.mu.Unlock()
	return loadTotals{Asked: l.asked.Load(), Answered: l.answered.Load(), GaveUp: l.gaveUp.Load(), Tries: tries}
}
