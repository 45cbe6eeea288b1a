package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/replicator"
)

// Application code runs outside the replicator
//
// The plans of an update, and the functions of View, run on their caller's goroutine, on
// snapshots (replication.Snapshot): no lock is held, so they delay only their caller, and may use
// the replicator. The core applies a plan if its key is as the snapshot shows it,
// or if only merges have come meanwhile; else the plans run anew.
//
// An update that had to begin anew takes its turn: updates of the same keys that wait for
// the same kind of level run one after the other from then on, in the order in which they
// came, so that many writers of one key do not make each other start over. Updates at
// Local have turns of their own, and never wait for one that waits for other replicas.

// updateAttemptsMax bounds how often the plans of one update run.
const updateAttemptsMax = 8

// turnMax bounds the wait for one update that has its turn: its function may be slow, or
// be waiting for this very update.
const turnMax = time.Second

// Update changes the keys of ops, all or none, here first and then at as many replicas as
// level requires. It blocks until the level is reached, the update is rejected, or the
// context's deadline passes. nil means that the level was reached while this node held a
// lease.
//
// The plans run on the caller's goroutine, on snapshots of the keys, and may run several
// times: they should have no effects of their own. They may use the replicator, but an
// update of one of the same keys within a plan fails with ErrContended: either that update
// or the one that runs the plan.
func (r *Replicator) Update(ctx context.Context, ops []operation.Op, level replicator.Level, opts ...replicator.Option) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fence := replicator.FenceOf(opts)
	t := r.turns.turnFor(ops, level)
	defer t.endTurn()
	for attempt := range updateAttemptsMax {
		if attempt > 0 {
			if err := t.waitTurn(ctx); err != nil {
				return err
			}
		}
		decided, bases, blind, err := r.decide(ctx, ops)
		if err != nil {
			return err
		}
		if !blind && t.isBehind() {
			r.releaseSnapshots(bases) // another update has waited for longer
			continue
		}
		_, err = r.runRequest(ctx, "update", level, func(id replication.RequestID, deadline clock.Instant) replication.Event {
			return replication.Update{ID: id, Ops: decided, Bases: bases, Level: level, Deadline: deadline, Fence: fence}
		})
		if !errors.Is(err, replicator.ErrContended) {
			return err
		}
	}
	return fmt.Errorf("%w: the keys changed here while each of %d attempts was being decided", replicator.ErrContended, updateAttemptsMax)
}

// decide runs the plans on snapshots, and returns ops that carry the outcome, with the
// snapshots that they depend on. Blind reports that none depends on its snapshot.
func (r *Replicator) decide(ctx context.Context, ops []operation.Op) (decided []operation.Op, bases []*replication.Snapshot, blind bool, err error) {
	names := make([]string, len(ops))
	for i := range ops {
		names[i] = ops[i].Key
	}
	snaps, err := r.snapshots(ctx, names)
	if err != nil {
		return nil, nil, false, err
	}
	decided, bases, blind = slices.Clone(ops), make([]*replication.Snapshot, len(ops)), true
	for i := range ops {
		op := &decided[i]
		if op.Delete || op.Plan == nil {
			continue
		}
		p, err := contained(op, snaps[i])
		if err != nil {
			r.releaseSnapshots(append(snaps, bases...))
			return nil, nil, false, err
		}
		blind = blind && p.Blind
		op.Plan = func(crdt.Value) (operation.Plan, error) { return p, nil }
		bases[i], snaps[i] = snaps[i], nil
	}
	if slices.ContainsFunc(snaps, func(s *replication.Snapshot) bool { return s != nil && s.Value != nil }) {
		r.releaseSnapshots(snaps) // of keys that need none
	}
	return decided, bases, blind, nil
}

// contained turns a panic of the caller's function into an error.
func contained(op *operation.Op, s *replication.Snapshot) (p operation.Plan, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("%w: key %q: panic: %v", replicator.ErrPlan, op.Key, x)
		}
	}()
	return replication.Decide(op, s)
}

// snapshots returns snapshots of keys, which the caller must release.
func (r *Replicator) snapshots(ctx context.Context, keys []string) (snaps []*replication.Snapshot, err error) {
	take := func() {
		for _, k := range keys {
			snaps = append(snaps, r.loop.core.Snapshot(k))
		}
	}
	if r.running.TryLock() {
		defer r.running.Unlock()
		if r.inbox.Closed() {
			return nil, replicator.ErrClosed
		}
		take()
		return snaps, nil
	}
	err = r.call(ctx, take)
	return snaps, err
}

func (r *Replicator) releaseSnapshots(snaps []*replication.Snapshot) {
	free := func() {
		for _, s := range snaps {
			s.Release()
		}
	}
	if r.running.TryLock() {
		free()
		r.running.Unlock()
		return
	}
	r.post(job{call: free})
}

// turns orders updates of the same keys that got into each other's way. The zero turns is
// ready to use.
//
// Invariant: queues has no empty queue; the first of a queue has its turn.
type turns struct {
	mu     sync.Mutex
	queues map[turnKey][]*turn
}

// turnKey is what updates take turns for.
type turnKey struct {
	key   string
	alone bool
}

// turn is the place of one update in the queues of its keys.
type turn struct {
	in     *turns
	keys   []turnKey
	waited bool
	// moved is set when an update before it has ended.
	moved signal.Wake
}

func (ts *turns) turnFor(ops []operation.Op, level replicator.Level) *turn {
	t := &turn{in: ts}
	for i := range ops {
		k := turnKey{ops[i].Key, level == replicator.Local || level == replicator.To(1)}
		if !slices.Contains(t.keys, k) {
			t.keys = append(t.keys, k)
		}
	}
	return t
}

// isBehind reports whether further updates have their turn or wait for it, and this one does
// neither.
func (t *turn) isBehind() bool {
	if t.waited {
		return false
	}
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	return slices.ContainsFunc(t.keys, func(k turnKey) bool { return len(t.in.queues[k]) > 0 })
}

// waitTurn waits for the turn, if it has not come yet.
func (t *turn) waitTurn(ctx context.Context) error {
	if t.waited {
		return nil
	}
	t.waited = true
	t.moved = signal.NewWake()
	t.in.mu.Lock()
	if t.in.queues == nil {
		t.in.queues = map[turnKey][]*turn{}
	}
	// In all queues within one step: of two updates, one is ahead everywhere.
	for _, k := range t.keys {
		t.in.queues[k] = append(t.in.queues[k], t)
	}
	t.in.mu.Unlock()
	tooLong := time.NewTimer(turnMax)
	defer tooLong.Stop()
	for !t.come() {
		select {
		case <-t.moved:
			tooLong.Reset(turnMax)
		case <-tooLong.C:
			return fmt.Errorf("%w: another update of the same key has been running for %v", replicator.ErrContended, turnMax)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", replicator.ErrContended, ctx.Err())
		}
	}
	return nil
}

func (t *turn) come() bool {
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	return !slices.ContainsFunc(t.keys, func(k turnKey) bool { return t.in.queues[k][0] != t })
}

// endTurn gives the turn, or the place in the queues, up.
func (t *turn) endTurn() {
	if !t.waited {
		return
	}
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	for _, k := range t.keys {
		q := slices.DeleteFunc(t.in.queues[k], func(o *turn) bool { return o == t })
		if t.in.queues[k] = q; len(q) == 0 {
			delete(t.in.queues, k)
			continue
		}
		for _, o := range q {
			o.moved.Set()
		}
	}
}
