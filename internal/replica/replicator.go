package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/driver"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/replicator"
)

// Replicator holds the keys of one role on one node. All methods are safe for
// concurrent use.
type Replicator struct {
	cfg Config

	// inbox drives the loop. It is closed first when the replicator ends.
	inbox *driver.Driver[job]

	mu     sync.Mutex
	nextID replication.RequestID
	last   figures.Replicator // of the time when it was closed

	quit     chan struct{}
	quitOnce sync.Once
	done     chan struct{}

	turns turns

	diskFailing atomic.Bool
	lost        atomic.Uint64 // a gossip.Epoch

	// running is held by the goroutine that steps the core; it guards loop (loop.go).
	running sync.Mutex
	loop    loop
}

// job is something for the goroutine to do: exactly one of its fields is set.
type job struct {
	event  replication.Event
	waiter *waiter // with event, for a request
	frame  []byte
	from   gossip.NodeID
	call   func()
}

// waiter is a request with a waiting caller.
type waiter struct {
	id      replication.RequestID
	op      string
	level   replicator.Level
	started clock.Instant
	reply   chan replication.Reply
}

// New starts a replicator. It ends with Close.
func New(cfg Config) *Replicator {
	cfg = cfg.withDefaults()
	r := &Replicator{
		cfg: cfg, inbox: driver.New(driver.Config[job]{Clock: cfg.Clock, Frames: cfg.Inbox}),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	r.loop.init(r)
	r.running.Lock() // until the keys of the file are there
	go r.loop.runLoop()
	return r
}

func (c Config) withDefaults() Config {
	if c.WallClock == nil {
		c.WallClock = time.Now
	}
	if c.Clock == nil {
		c.Clock = clock.Runtime()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Inbox <= 0 {
		c.Inbox = 4096
	}
	if c.Seed == 0 {
		c.Seed = uint64(c.Self)
	}
	return c
}

// DiskFailing reports whether durable keys cannot be stored now. Writes of them fail here
// with ErrDurable; everything else works.
func (r *Replicator) DiskFailing() bool { return r.diskFailing.Load() }

// Lost returns the newest view, of those that the replicator has taken in, before which confirmed
// values may be gone from all members, 0 if there is none (replication.Core.Lost).
func (r *Replicator) Lost() gossip.Epoch { return gossip.Epoch(r.lost.Load()) }

// Self returns the incarnation whose dots and counters the replicator writes.
func (r *Replicator) Self() gossip.NodeID { return r.cfg.Self }

// WallTime returns the calendar time by Config.WallClock.
func (r *Replicator) WallTime() time.Time { return r.cfg.WallClock() }

// HandleFrame handles the payload of a frame, without the role. It never blocks: if the
// inbox is full, the frame is dropped and counted, and its sender retransmits it. The
// payload is used only during the call.
func (r *Replicator) HandleFrame(from gossip.NodeID, payload []byte) {
	if r.cfg.Direct && light(payload) && r.direct(&job{frame: payload, from: from}) {
		return
	}
	r.post(job{frame: append([]byte{}, payload...), from: from})
}

// SetView sets a newer view; older ones are ignored.
func (r *Replicator) SetView(v *gossip.View) { r.post(job{event: replication.ViewChanged{View: v}}) }

// PeerLost reports that the connection to a peer broke.
func (r *Replicator) PeerLost(id gossip.NodeID) { r.post(job{event: replication.PeerLost{ID: id}}) }

// PeerUp reports that the connection to a peer is open.
func (r *Replicator) PeerUp(id gossip.NodeID) { r.post(job{event: replication.PeerUp{ID: id}}) }

// LeaseRegained reports that Config.LeaseValid is true again: requests that waited for it
// end now. Without the call they end too, within ResendAfter.
func (r *Replicator) LeaseRegained() { r.post(job{event: replication.LeaseRegained{}}) }

// post queues a job. Frames are bounded by Config.Inbox, requests by the callers
// that wait for them and Limits.Pending; events are few. It returns false when
// the replicator is closed.
func (r *Replicator) post(j job) bool {
	if j.frame != nil {
		return r.inbox.PutFrame(j) || !r.inbox.Closed()
	}
	return r.inbox.Put(j)
}

// call runs f on the goroutine and waits for it. If it returns an error, f has not run
// and never will: f writes what belongs to the caller.
func (r *Replicator) call(ctx context.Context, f func()) error {
	var taken atomic.Bool // by the goroutine, or back by the caller
	ran := make(chan struct{})
	if !r.post(job{call: func() {
		if taken.CompareAndSwap(false, true) {
			defer close(ran)
			f()
		}
	}}) {
		return replicator.ErrClosed
	}
	err := error(replicator.ErrClosed)
	select {
	case <-ran:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-r.done:
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-ran // it has begun, and does not take long
	return nil
}

// Get returns the values of keys at the given level, nil for a key that does not exist.
// Before it returns, it merges here the newer state of other replicas, and sends the
// missing state to stale replicas: of two reads at majority, one after the other, the
// second never sees less. The values are copies.
func (r *Replicator) Get(ctx context.Context, keys []string, level replicator.Level, opts ...replicator.Option) ([]crdt.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reply, err := r.runRequest(ctx, "get", level, func(id replication.RequestID, deadline clock.Instant) replication.Event {
		return replication.Read{ID: id, Keys: keys, Level: level, Deadline: deadline, Fence: replicator.FenceOf(opts)}
	})
	return reply.Values, err
}

// runRequest runs a request.
func (r *Replicator) runRequest(ctx context.Context, op string, level replicator.Level, event func(replication.RequestID, clock.Instant) replication.Event) (replication.Reply, error) {
	w := &waiter{op: op, level: level, started: r.cfg.Clock.Now(), reply: make(chan replication.Reply, 1)}
	patience := r.timeout()
	if d, ok := ctx.Deadline(); ok {
		patience = max(time.Until(d), 1)
	}
	r.mu.Lock()
	r.nextID++
	w.id = r.nextID
	r.mu.Unlock()
	j := job{event: event(w.id, w.started.Add(patience)), waiter: w}
	if !r.direct(&j) && !r.post(j) {
		return replication.Reply{}, replicator.ErrClosed
	}
	select {
	case reply := <-w.reply:
		return reply, reply.Err
	default:
	}
	return r.await(ctx, w, patience)
}

// await waits for a request's reply. The core gives up at the deadline, with the replicas
// that have answered. await does not wait much longer for a replicator that is late.
func (r *Replicator) await(ctx context.Context, w *waiter, patience time.Duration) (replication.Reply, error) {
	late := time.NewTimer(patience + r.grace())
	defer late.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case reply := <-w.reply:
			return reply, reply.Err
		case <-r.done:
			return w.afterClose()
		case <-cancelled:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				cancelled = nil
				continue
			}
			return replication.Reply{}, r.abandonRequest(w, ctx.Err())
		case <-late.C:
			return replication.Reply{}, r.abandonRequest(w, context.DeadlineExceeded)
		}
	}
}

// abandonRequest cancels a request and returns its error.
func (r *Replicator) abandonRequest(w *waiter, why error) error {
	r.post(job{event: replication.Cancel{ID: w.id}, waiter: w})
	if w.op == "get" {
		return why
	}
	return fmt.Errorf("%w: %w", replicator.ErrOutcomeUnknown, why)
}

// grace is how long after its deadline the core's own answer to a request is waited for:
// more than it excuses a deadline that passed while the process did not run.
func (r *Replicator) grace() time.Duration {
	if r.cfg.ResendAfter > 0 {
		return 5 * r.cfg.ResendAfter
	}
	return 250 * time.Millisecond
}

func (w *waiter) afterClose() (replication.Reply, error) {
	select {
	case reply := <-w.reply:
		return reply, reply.Err
	default:
		return replication.Reply{}, replicator.ErrClosed
	}
}

func (r *Replicator) timeout() time.Duration {
	if r.cfg.Timeout > 0 {
		return r.cfg.Timeout
	}
	return 5 * time.Second
}

// View calls f with the local value of key, nil if there is none, without a copy. f must
// not change or keep the value. It runs on the caller's goroutine, delays no other caller,
// and may use the replicator.
func (r *Replicator) View(ctx context.Context, key string, f func(crdt.Value)) error {
	snaps, err := r.snapshots(ctx, []string{key})
	if err != nil {
		return err
	}
	defer r.releaseSnapshots(snaps)
	f(snaps[0].Value)
	return nil
}

// Keys returns the names of all keys that begin with prefix, sorted.
func (r *Replicator) Keys(ctx context.Context, prefix string) (keys []string, err error) {
	err = r.call(ctx, func() { keys = r.loop.core.Keys(prefix) })
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// Subscribe calls f for the key named pattern, or for every key with that prefix if pattern
// ends in "*": first with each value that exists, then after changes. Changes that arrive
// while f runs are coalesced: f sees the newest state, never an older one after a newer
// one. A slow f delays nothing else. A deleted key shows as a nil value. f runs on the
// subscription's own goroutine, one call at a time. cancel ends the subscription and does
// not wait for a running f.
func (r *Replicator) Subscribe(pattern string, f func(operation.Change)) (cancel func()) {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	s := &subscription{name: prefix, prefix: isPrefix, f: f, fetch: r.fetchValue, dirty: map[string]struct{}{},
		wake: signal.NewWake(), quit: make(chan struct{}), done: make(chan struct{})}
	if !r.post(job{call: func() { r.loop.subscribe(s) }}) {
		return func() {}
	}
	return func() {
		s.requestEnd()
		r.post(job{call: func() { r.loop.subs.removeSubscription(s) }})
	}
}

// fetchValue returns a copy of the value of a key. It returns false if quit or the
// replicator ends before.
func (r *Replicator) fetchValue(key string, quit <-chan struct{}) (crdt.Value, bool) {
	got := make(chan crdt.Value, 1)
	posted := r.post(job{call: func() {
		v := r.loop.core.Value(key)
		if v != nil {
			v = v.Clone()
		}
		got <- v
	}})
	if !posted {
		return nil, false
	}
	select {
	case v := <-got:
		return v, true
	case <-quit:
	case <-r.done:
	}
	return nil, false
}

// Stats returns a snapshot.
func (r *Replicator) Stats() (s figures.Replicator) {
	if err := r.call(context.Background(), func() { s = r.loop.snapshot() }); err == nil {
		return s
	}
	<-r.done
	return r.last
}

// Status returns a snapshot of the replicator and of its peers, the most senior first.
func (r *Replicator) Status(ctx context.Context) (s figures.Replicator, peers []figures.Replica, err error) {
	err = r.call(ctx, func() { s, peers = r.loop.snapshot(), r.loop.core.Peers() })
	return s, peers, err
}

// Close ends the replicator and its subscriptions immediately: pending requests return
// ErrClosed. It waits until its goroutines have ended, except for a subscriber's function
// that has not returned. It is idempotent.
func (r *Replicator) Close() error {
	r.inbox.Close()
	r.quitOnce.Do(func() { close(r.quit) })
	<-r.done
	return nil
}
