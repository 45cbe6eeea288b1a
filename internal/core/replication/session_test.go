package replication

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/testsize"
	"github.com/peerage-go/peerage/replicator"
)

// left returns how many keys the session still waits for.
func (s *session) left() int {
	n := len(s.want) + len(s.own)
	for i := range s.asks {
		n += len(s.asks[i].keys)
	}
	return n
}

// noise is text that does not compress well.
func noise(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + rng.IntN(90))
	}
	return string(b)
}

// filling is a world in which a joiner is being filled.
type filling struct {
	*world
	joiner gossip.NodeID
	keys   int
	// values counts the values that were sent to the joiner, by sender; inFlight is
	// how many bytes of them, uncompressed, are under way, and most the highest of it.
	values   map[gossip.NodeID]int
	inFlight int
	most     int
}

func valuesIn(m Message) (values, bytes int) {
	if k, ok := m.(*Packed); ok {
		var p packer
		m, _ = p.unpack(k)
	}
	if v, ok := m.(*Values); ok {
		return len(v.Items), itemsSize(v.Items)
	}
	return 0, 0
}

// newFilling has n members that hold the keys and one more that is about to join.
func newFilling(t *testing.T, n, keys, size int, tweak func(*Config)) *filling {
	f := &filling{world: newWorld(t, 1, n, tweak), joiner: gossip.NodeID(n + 1), keys: keys, values: map[gossip.NodeID]int{}}
	f.hasty = true
	t.Cleanup(func() {
		for _, id := range f.order {
			f.nodes[id].core.checkInvariants()
		}
	})
	for i := 0; i < keys; i += 500 {
		var ops []operation.Op
		for j := i; j < min(i+500, keys); j++ {
			ops = append(ops, addTo(1, fmt.Sprintf("key-%06d", j), noise(f.rng, size)))
		}
		f.update(1, replicator.Local, replicator.Fence{}, ops...)
		f.run(5 * time.Millisecond)
	}
	f.settle(20 * time.Second)
	f.run(time.Second)
	f.posted = func(from, to gossip.NodeID, m Message) {
		if n, bytes := valuesIn(m); to == f.joiner && n > 0 {
			f.values[from] += n
			f.inFlight += bytes
			f.most = max(f.most, f.inFlight)
		}
	}
	f.delivered = func(from, to gossip.NodeID, m Message) {
		if n, bytes := valuesIn(m); to == f.joiner && n > 0 {
			f.inFlight -= bytes
		}
	}
	f.start(f.joiner)
	return f
}

func (f *filling) join() { f.setView(f.next(add(gossip.Joining, f.joiner))) }

func (f *filling) sum() (n int) {
	for _, v := range f.values {
		n += v
	}
	return n
}

// runUntil lets time pass in small steps until the joiner holds n keys.
func (f *filling) runUntil(n int) {
	f.t.Helper()
	for range 100_000 {
		if f.nodes[f.joiner].core.store.keys >= n {
			return
		}
		f.run(50 * time.Microsecond)
	}
	f.t.Fatalf("never held %d keys:\n%s", n, f.states())
}

// A43: 100,000 keys, of which the quick runs have a part.
func TestJoinerIsFilledBySeveralPeersAtOnce(t *testing.T) {
	t.Parallel()
	keys := testsize.Runs(30_000, 30_000, 100_000)
	f := newFilling(t, 5, keys, 60, nil)
	f.join()
	took := f.settle(2 * time.Second)
	t.Logf("%d keys in %v of virtual time, by sender: %v", keys, took, f.values)
	if len(f.values) != sourcesMax {
		t.Errorf("filled by %d peers, want %d", len(f.values), sourcesMax)
	}
	for id, n := range f.values {
		if n < keys/10 {
			t.Errorf("node %v sent %d of %d values", id, n, keys)
		}
	}
	if f.sum() != keys {
		t.Errorf("%d values moved for %d keys", f.sum(), keys)
	}
	f.run(time.Second)
	if c := f.nodes[f.joiner].core; c.members.caughtUp != c.members.epoch {
		t.Errorf("filled and has not caught up: %s", f.states())
	}
}

// A43 with faults: whoever serves and stops to is replaced, whether it crashes, is
// cut off, or answers too late; what it had been asked for is asked once more, and
// nothing else is.
func TestPeerThatStopsServingIsReplaced(t *testing.T) {
	t.Parallel()
	const keys = 12_000
	for _, c := range []struct {
		name string
		// who: the source of the session or one of its helpers.
		source bool
		stop   func(f *filling, id gossip.NodeID)
	}{
		{"helper crashes", false, func(f *filling, id gossip.NodeID) {
			f.crash(id)
			f.step(f.joiner, PeerLost{ID: id})
		}},
		{"helper is cut off", false, func(f *filling, id gossip.NodeID) {
			f.cut = func(a, b gossip.NodeID) bool { return a == id || b == id }
		}},
		{"helper is removed", false, func(f *filling, id gossip.NodeID) {
			f.crash(id)
			f.setView(f.next(remove(id)))
		}},
		{"source crashes", true, func(f *filling, id gossip.NodeID) {
			f.crash(id)
			f.step(f.joiner, PeerLost{ID: id})
		}},
		{"source is cut off", true, func(f *filling, id gossip.NodeID) {
			f.cut = func(a, b gossip.NodeID) bool { return a == id || b == id }
		}},
		{"source is removed", true, func(f *filling, id gossip.NodeID) {
			f.crash(id)
			f.setView(f.next(remove(id)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFilling(t, 5, keys, 60, nil)
			f.join()
			f.runUntil(keys / 3)
			s := &f.nodes[f.joiner].core.sessions.current
			if len(s.sources) != sourcesMax {
				t.Fatalf("%d lanes", len(s.sources))
			}
			id := s.sources[len(s.sources)-1].peer
			if c.source {
				id = s.peer
			}
			c.stop(f, id)
			start := f.now
			f.runUntil(keys)
			took := f.now.Sub(start)
			t.Logf("filled %v after node %v stopped; by sender: %v", took, id, f.values)
			if took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if most := keys + sourcesMax*sourceAsksMax*fetchKeysMax; f.sum() > most {
				t.Errorf("%d values moved for %d keys, want at most %d", f.sum(), keys, most)
			}
			if !c.source && f.nodes[f.joiner].core.Stats().LanesDismissed == 0 {
				t.Error("the helper was not dismissed")
			}
		})
	}
}

// What is under way to a replica that is being filled is bounded by RoundBytes, as
// it is when it has caught up; and yet there is always something under way.
func TestFillKeepsToItsCredit(t *testing.T) {
	t.Parallel()
	const round, frame, keys = 64 << 10, 16 << 10, 5000
	f := newFilling(t, 5, keys, 200, func(c *Config) { c.Limits.RoundBytes, c.Limits.FrameBytes = round, frame })
	f.join()
	took := f.settle(2 * time.Second)
	t.Logf("at most %d bytes under way, filled in %v", f.most, took)
	if f.most > round {
		t.Errorf("%d bytes were under way, the window is %d", f.most, round)
	}
	if f.most < round/2 {
		t.Errorf("no more than %d bytes were ever under way: the window of %d is not used", f.most, round)
	}
}

// A replica that has caught up moves RoundBytes at most in one exchange.
func TestRoundOfOneThatHasCaughtUpIsBounded(t *testing.T) {
	const round, keys = 32 << 10, 1500
	f := newFilling(t, 3, 1, 10, func(c *Config) {
		c.Limits.RoundBytes, c.Limits.FrameBytes, c.Limits.LogEntries = round, 8<<10, 10
	})
	f.crash(f.joiner)
	f.joiner = 3
	f.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	for i := range keys {
		f.update(1, replicator.Local, replicator.Fence{}, addTo(1, fmt.Sprintf("new-%06d", i), noise(f.rng, 200)))
		f.run(100 * time.Microsecond)
	}
	f.run(time.Second)
	f.cut = nil
	sessions, sum := map[uint64]int{}, 0
	f.posted = func(from, to gossip.NodeID, m Message) {
		if _, bytes := valuesIn(m); to == 3 && bytes > 0 {
			sessions[f.nodes[3].core.sessions.current.id] += bytes
			sum += bytes
		}
	}
	f.settle(60 * time.Second)
	for id, bytes := range sessions {
		if bytes > round+2048 {
			t.Errorf("session %d moved %d bytes, a round is %d", id, bytes, round)
		}
	}
	if len(sessions) < sum/round {
		t.Errorf("%d bytes in %d sessions", sum, len(sessions))
	}
}

// falseClaim lets a joiner be filled by members of which each holds something else,
// and returns what it claims to have of its source and does not, after one session.
func falseClaim(t *testing.T, seed uint64) string {
	const keys = 60
	w := newWorld(t, seed, 5, func(c *Config) { c.NoStream, c.FetchKeys = true, 4 })
	w.cut = func(a, b gossip.NodeID) bool { return true }
	for i := range keys {
		for _, id := range w.order {
			if w.rng.IntN(3) > 0 {
				w.update(id, replicator.Local, replicator.Fence{}, addTo(id, fmt.Sprint("key-", i), fmt.Sprint(id)))
			}
		}
	}
	w.cut = nil
	w.start(6)
	w.setView(w.next(add(gossip.Joining, 6)))
	c := w.nodes[6].core
	for range 100_000 {
		if c.sessions.current.peer != 0 {
			break
		}
		w.run(10 * time.Microsecond)
	}
	source, id := w.nodes[c.sessions.current.peer].core, c.sessions.current.id
	// The source alone stays as it is, so that its state is known.
	w.cut = func(a, b gossip.NodeID) bool { return b == source.cfg.Self && a != 6 }
	for range 1_000_000 {
		if c.sessions.current.id != id {
			break
		}
		w.run(10 * time.Microsecond)
	}
	if c.members.byID[source.cfg.Self].synced != c.members.epoch {
		return ""
	}
	for _, k := range source.Keys("") {
		mine := c.Value(k)
		if mine == nil {
			return k
		}
		if changed, _ := mine.Clone().Join(source.Value(k)); changed {
			return k
		}
	}
	return ""
}

// Helpers that hold something else than the source are found out: what they sent is
// merged and does not count, and the claim at the end of the session is true.
func TestHelpersThatHoldSomethingElse(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		if k := falseClaim(t, seed); k != "" {
			t.Fatalf("seed %d: the session claims %q of its source and does not have it", seed, k)
		}
	}
}
