package bench

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listenRaw serves the raw limits, and returns their address.
func listenRaw(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serveRaw(l)
	return l.Addr().String()
}

func TestRawLimitsCountWhatArrived(t *testing.T) {
	addr := listenRaw(t)
	// 1,001 frames of 4 senders are 250 of each; all of them arrive or the run fails.
	if rate, err := rawOneWay(addr, 4, 1001); err != nil || rate <= 0 {
		t.Errorf("one way: %v /s, %v", rate, err)
	}
	times, err := rawPingPong(addr, 20*time.Millisecond)
	if err != nil || len(times) == 0 {
		t.Fatalf("ping-pong: %d round trips, %v", len(times), err)
	}
	sum := time.Duration(0)
	for _, d := range times {
		if d <= 0 {
			t.Fatalf("a round trip of %v", d)
		}
		sum += d
	}
	if sum > 10*time.Second {
		t.Errorf("%d round trips, one after the other, took %v", len(times), sum)
	}
	if rate, err := rawPipelined(addr, 8, 20*time.Millisecond); err != nil || rate <= 0 {
		t.Errorf("pipelined: %v /s, %v", rate, err)
	}
}

func TestRawLimitsFailWithoutAPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	addr := l.Addr().String()
	_, one := rawOneWay(addr, 1, 1)
	_, two := rawPingPong(addr, time.Millisecond)
	_, three := rawPipelined(addr, 1, time.Millisecond)
	if one == nil || two == nil || three == nil {
		t.Errorf("at a closed port: %v, %v, %v", one, two, three)
	}
}

func TestRawLimitsInOneProcess(t *testing.T) {
	if rate := rawQueue(10_000); rate <= 0 {
		t.Errorf("a queue passes %v messages a second", rate)
	}
	if times := rawSwitch(100); len(times) != 100 || times[99] <= 0 {
		t.Errorf("%d round trips between goroutines, the last of %v", len(times), times[len(times)-1])
	}
}

func TestACallerThatFailsFailsTheRate(t *testing.T) {
	var calls atomic.Uint64
	r := perSecond(4, 10*time.Millisecond, func(int) func() error {
		return func() error { calls.Add(1); return nil }
	})
	if n := calls.Load(); r.err != nil || r.n <= 0 || r.n > float64(n)/0.01 {
		t.Errorf("%d calls are %v a second: %v", n, r.n, r.err)
	}
	lost := errors.New("lost")
	r = perSecond(2, time.Millisecond, func(i int) func() error {
		return func() error {
			if i == 1 {
				return lost
			}
			return nil
		}
	})
	if !errors.Is(r.err, lost) {
		t.Errorf("one of two callers fails: %v", r.err)
	}
}

// The entities of a cluster of one: each tell is handled before its time counts.
func TestLocalMeasuresCountHandledMessages(t *testing.T) {
	l, err := startLocal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.node.Close()
	rate, err := l.tells(t.Context(), 10, 1000)
	if handled := l.ints.Stats().Handled; err != nil || rate <= 0 || handled != 1010 { // and one first ask of each
		t.Errorf("%v /s with %d messages handled: %v", rate, handled, err)
	}
	if times, err := l.askTimes(t.Context(), 50); err != nil || len(times) != 50 || times[49] <= 0 {
		t.Errorf("%d times of 50 asks: %v", len(times), err)
	}
	entities := l.ints.Stats().Entities
	if _, err := l.idle(t.Context(), 500); err != nil || l.ints.Stats().Entities-entities != 501 {
		t.Errorf("%d entities rest, want 500 and the first: %v", l.ints.Stats().Entities-entities, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.tells(ctx, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// A cold start measures the time and the bytes until each node has all homes.
func TestAColdStartAnswersEveryNode(t *testing.T) {
	b, _ := newSuite(t)
	if err := measureColdStart(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(b.rows) != 2 {
		t.Fatalf("%+v", b.rows)
	}
	for i, want := range []string{"cold start of 100 shards x 3 nodes, every node has all homes", "cold start of 100 shards x 3 nodes, bytes sent per shard and node"} {
		if r := b.rows[i]; r.Name != want || r.Value <= 0 {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	if !strings.HasPrefix(b.rows[0].Note, "300 asks answered") {
		t.Errorf("the note is %q", b.rows[0].Note)
	}
}

func TestEachShardGetsAnID(t *testing.T) {
	n, err := startCold(t.Context(), "", 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	defer n.node.Close()
	for shard, id := range idPerShard(n.ints, 20) {
		if int(n.ints.ShardOf(id)) != shard || id == "" {
			t.Errorf("%q is in shard %d, want %d", id, n.ints.ShardOf(id), shard)
		}
	}
	if err := n.node.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent, err := n.sent(); err != nil || sent != 0 {
		t.Errorf("a node without peers has sent %v bytes: %v", sent, err)
	}
}
