//go:build !race

// The race detector allocates: these tests say nothing under it.

package sharding

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// allocs returns how many allocations the whole process makes for each of n rounds.
func allocs(n int, round func()) float64 {
	var before, after runtime.MemStats
	round()
	runtime.ReadMemStats(&before)
	for range n {
		round()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

const allocBatch = 64

// batch tells an entity some messages and asks it one: when that is answered, the
// others were handled.
func batch[M any](t *testing.T, ctx context.Context, ref Ref[M, M], msg M) {
	for range allocBatch {
		if err := ref.Tell(ctx, msg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ref.Ask(ctx, msg); err != nil {
		t.Fatal(err)
	}
}

// A told message costs no allocation of its own on its way to an entity of this
// node. The slack is for what runs beside it.
func TestLocalTellAllocatesNothing(t *testing.T) {
	r := alone(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := r.Ask(ctx, "x", 1, Retry()); err != nil {
		t.Fatal(err)
	}
	ref := r.Ref("x")
	each := allocs(500, func() { batch(t, ctx, ref, 1) }) / allocBatch
	t.Logf("%.3f allocations a message", each)
	if each > 0.2 {
		t.Errorf("a local Tell allocates %.2f times", each)
	}
}

// A Tell between two nodes over TCP allocates on neither side, but for the shared memory
// that payloads lie in, an Ask and its answer at most twice on each; both sides are in
// this process. The slack is for what runs beside it.
func TestRemoteMessagesAllocateTwiceASide(t *testing.T) {
	r := tcpPair(t, firstByte)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	body := make([]byte, 100)
	if _, err := r.Ask(ctx, "x", body, Retry()); err != nil {
		t.Fatal(err)
	}
	ref := r.Ref("x")
	tell := allocs(200, func() { batch(t, ctx, ref, body) }) / allocBatch
	ask := allocs(2000, func() {
		if _, err := ref.Ask(ctx, body); err != nil {
			t.Fatal(err)
		}
	})
	limited := allocs(2000, func() {
		if _, err := ref.Ask(context.Background(), body, Within(time.Minute)); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.2f allocations a Tell, %.2f an Ask and its answer, %.2f within a time limit", tell, ask, limited)
	if limited > ask+0.1 {
		t.Errorf("an Ask within a time limit allocates %.2f times, one without %.2f", limited, ask)
	}
	if tell > 0.8 || ask > 4 {
		t.Errorf("a remote Tell allocates %.2f times on both sides together, an Ask and its answer %.2f; want at most 0.8 and 4", tell, ask)
	}
}
