package activation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// Host runs the entities of one type for one incarnation of a node. All methods
// are safe for concurrent use. None but Close waits for user code.
type Host[C, Req, Resp any] struct {
	cfg    Config[C, Req, Resp]
	shards []atomic.Pointer[Shard[C, Req, Resp]]

	// mu serialises StartShard, StopShard, Abandon and Close; the data path never
	// takes it.
	mu     sync.Mutex
	closed bool
	info   hostInfo
	cancel context.CancelFunc

	mailboxes sync.Pool
	workers   sync.Pool
	queues    [queues]runQueue[C, Req, Resp]
	// wake is set while awaitLease runs for the parked instances.
	wake atomic.Bool
	// work counts goroutines and timers' functions.
	work sync.WaitGroup
	// began is the time from which the creation of instances is measured.
	began time.Time
	// sweeps counts the sweeps for idle instances: the clock of instance.used.
	sweeps atomic.Uint32
	stop   chan struct{}
	// hosted counts shards.
	hosted   atomic.Int32
	failures failureLog
	// blocked folds the log lines about calls that block.
	blocked loglimit.Folder
	// keeps is set once an instance was a Snapshotter.
	keeps atomic.Bool
}

// ErrClosed: the Host is closed.
var ErrClosed = errors.New("activation: host closed")

// NewHost returns a Host without shards. Close it.
func NewHost[C, Req, Resp any](cfg Config[C, Req, Resp]) *Host[C, Req, Resp] {
	h := &Host[C, Req, Resp]{
		cfg:    cfg,
		shards: make([]atomic.Pointer[Shard[C, Req, Resp]], cfg.Shards),
		stop:   make(chan struct{}),
		began:  time.Now(),
	}
	h.info = hostInfo{typ: cfg.Type, node: cfg.Node, logger: cfg.Logger}
	h.info.parent, h.cancel = context.WithCancel(context.Background())
	h.mailboxes.New = func() any { return new(mailbox[Req]) }
	h.workers.New = func() any { return newWorker[C, Req, Resp](cfg.Type, cfg.Context) }
	for i := range h.queues {
		h.queues[i].host = h
	}
	if cfg.Passivation.Limit > 0 {
		h.work.Go(h.shrink)
	}
	if cfg.IdleTimeout > 0 {
		h.work.Go(h.sweepEvery)
	}
	if cfg.BlockedAfter > 0 {
		h.work.Go(h.watch)
	}
	return h
}

// Shard returns the shard if it is hosted here, nil otherwise. The shard may be stopping;
// then Deliver fails.
func (h *Host[C, Req, Resp]) Shard(number ShardID) *Shard[C, Req, Resp] {
	if number >= ShardID(len(h.shards)) {
		return nil
	}
	return h.shards[number].Load()
}

// StartShard begins to host a shard under a token and returns it. The Host keeps states,
// which were transferred from the shard's former owner and may be nil. StartShard is
// idempotent. A shard that still runs under another token must be stopped or abandoned
// first.
func (h *Host[C, Req, Resp]) StartShard(number ShardID, token Token, states map[string][]byte) (*Shard[C, Req, Resp], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	if number >= ShardID(len(h.shards)) {
		return nil, fmt.Errorf("activation: shard %d of %d", number, len(h.shards))
	}
	if old := h.shards[number].Load(); old != nil {
		if old.info.token == token {
			return old, nil
		}
		return nil, fmt.Errorf("activation: shard %d runs under token %v, not %v", number, old.info.token, token)
	}
	s := newShard(h, number, token, states)
	h.shards[number].Store(s)
	h.hosted.Add(1)
	return s, nil
}

// Abandon drops every instance of every shard without running user code. When it returns,
// no handler will begin. The contexts of running handlers have ended, and their asks fail
// with failure.Abandoned.
func (h *Host[C, Req, Resp]) Abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.shards {
		if s := h.shards[i].Load(); s != nil {
			s.abandonAll()
		}
	}
}

// AbandonShard does for one shard what Abandon does for all.
func (h *Host[C, Req, Resp]) AbandonShard(number ShardID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.Shard(number); s != nil {
		s.abandonAll()
	}
}

// Close abandons everything and waits until the Host's goroutines have ended. A
// handler that ignores its context holds it up until ctx ends: then Close fails with an
// *UnfinishedError. Idempotent.
func (h *Host[C, Req, Resp]) Close(ctx context.Context) error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if first {
		h.calls(time.Now()) // from here on running calls have an age
		h.Abandon()
		h.cancel()
		close(h.stop)
	}
	ended := make(chan struct{})
	go func() {
		h.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		left := h.Running(true)
		if len(left) == 0 {
			return nil // only goroutines of the Host are left
		}
		slices.SortStableFunc(left, func(a, b Running) int { return cmp.Compare(b.For, a.For) })
		return &UnfinishedError{Handlers: left, Cause: ctx.Err()}
	}
}

// Count returns how many shards are hosted here.
func (h *Host[C, Req, Resp]) Count() int {
	n := 0
	for i := range h.shards {
		if h.shards[i].Load() != nil {
			n++
		}
	}
	return n
}

// callEvery calls f once each interval until f returns false, or the Host is closed.
func (h *Host[C, Req, Resp]) callEvery(interval time.Duration, f func() (again bool)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		if !f() {
			return
		}
	}
}

// removeShard removes a shard that has ended from the table.
func (h *Host[C, Req, Resp]) removeShard(s *Shard[C, Req, Resp]) {
	if h.shards[s.info.number].CompareAndSwap(s, nil) {
		h.hosted.Add(-1)
	}
}

// UnfinishedError lists the calls that had not returned when Close's context ended.
type UnfinishedError struct {
	// Handlers are in order of For, longest first, with the stacks of some of them.
	Handlers []Running
	Cause    error
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("activation: %d handlers still run: %v", len(e.Handlers), e.Cause)
}

// Unwrap returns the Cause.
func (e *UnfinishedError) Unwrap() error { return e.Cause }
