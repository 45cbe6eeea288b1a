package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

const (
	// retryAfter is the mean time between two retries of a counter after the first failure.
	// It doubles with each retry that fails, up to retryAfterMax.
	retryAfter    = 5 * time.Millisecond
	retryAfterMax = 160 * time.Millisecond
	// releaseEvery is the mean time between two retries of a process once its attempts succeed.
	releaseEvery = 250 * time.Microsecond
)

// A backoff spaces the retries of one counter by all requests of a process. Each request that
// is due makes its first attempt immediately, so a counter that answers again is noticed.
// After a failure the requests retry one after the other, at intervals that double and are
// random by a half. After a success those that still wait retry soon, one after the other. So
// the attempts of a process are bounded by its load and by the number of counters, however
// many requests wait. If each request retried on its own, a cut of 4 s would leave 1,280
// requests of a process that all retry, several times a second.
type backoff struct {
	mu sync.Mutex
	// failed counts the retries that failed since the last success.
	failed int
	// next is when the last retry in line begins.
	next time.Time
	// healed is closed by the next success, nil if no request waits.
	healed chan struct{}
}

// jitter returns a duration between half of d and one and a half of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }

// awaitRetry blocks until the request may retry. It fails when ctx ends. InFlight returns how
// many requests of the process are in flight: after a success they retry over a time in
// proportion to it.
func (b *backoff) awaitRetry(ctx context.Context, inFlight func() int64) error {
	b.mu.Lock()
	now := time.Now()
	if b.next.Before(now) {
		b.next = now
	}
	b.next = b.next.Add(jitter(min(retryAfterMax, retryAfter<<min(b.failed, 10))))
	if b.healed == nil {
		b.healed = make(chan struct{})
	}
	at, healed := b.next, b.healed
	b.mu.Unlock()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-healed:
		return harness.Pause(ctx, rand.N(time.Duration(max(1, inFlight()))*releaseEvery))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endAttempt reports the result of an attempt, which was a retry or the first one of its request.
func (b *backoff) endAttempt(ok, retry bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ok:
		b.failed, b.next = 0, time.Time{}
		if b.healed != nil {
			close(b.healed)
			b.healed = nil
		}
	case retry:
		b.failed++
	}
}
