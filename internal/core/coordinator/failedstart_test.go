package coordinator

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// failStart completes a write of shard 0, and has the new home promise that the shard does not
// run there.
func (b *bench) failStart(w Write) *bench {
	b.t.Helper()
	order := one[*protocol.HostShards](b.step(WriteDone{ID: w.ID, Result: OK})).Shards[0]
	return b.stopped(w.Records[0].Home, order.Token, 0)
}

// A host has a shard that its region does not know of, so every start fails. Each attempt costs a
// majority write: they must not follow each other without a pause. The first failure costs no
// time, since a home that begins to drain is no reason to wait.
func TestFailedStartsAreRepeatedWithPauses(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2, 3).settle(nil, nil).ask(2, 0)
	b.failStart(one[Write](b)).failStart(one[Write](b)).none(count[Write])
	if !b.traced(TraceStartFailed) {
		t.Error("not traced")
	}
	attempts, longest := 0, time.Duration(0)
	for last, until := b.now, b.now.Add(time.Minute); b.now.Before(until); {
		b.now = b.c.Deadline()
		b.step(Tick{})
		if w := find[Write](b); len(w) > 0 {
			longest, last = max(longest, b.now.Sub(last)), b.now
			b.failStart(w[0]).none(count[Write])
			attempts++
		}
	}
	if attempts < 5 || attempts > 15 || longest > startRetryMax {
		t.Errorf("%d attempts in a minute, %v between two", attempts, longest)
	}
	// It starts at last, and the next failure is the first one.
	b.now = b.now.Add(startRetryMax)
	b.step(Tick{})
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	if s := &b.c.table.shards[0]; s.phase != hosted || s.wait != nil {
		t.Errorf("in phase %v with %+v", s.phase, s.waitOf())
	}
}

// A node joins or leaves: the shard is placed immediately.
func TestAViewEndsTheWaitAfterFailedStarts(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2, 3).settle(nil, nil).ask(2, 0)
	b.failStart(one[Write](b)).failStart(one[Write](b)).none(count[Write])
	if b.c.Deadline() == clock.Never || b.ask(3, 0) == nil {
		t.Fatal("no deadline")
	}
	b.none(count[Write])
	if w := one[Write](b.view(1, 2)); len(w.Records) != 1 {
		t.Errorf("written %+v", w)
	}
}
