package crdt

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// One test for each known hazard of replicated data types, by its number, with the
// public bugs that showed it. Number 21, majorities while
// members change, is about quorums: TestMajorityReadAfterMembersJoined in
// internal/core/replication tests it.

const (
	na NodeID = iota + 1
	nb
	nc
	nd
)

func set(elems ...string) string { return unique(elems) }

func reads(t *testing.T, s *ORSet[string], want ...string) {
	t.Helper()
	if got := set(s.Elements()...); got != set(want...) {
		t.Fatalf("set has %s, must have %s", got, set(want...))
	}
}

func copyOf[T Value](v T) T { return v.Clone().(T) }

// GoAkt v4.4.3: A adds x (synced), adds y; B applies the delta and has lost x.
func TestHazard1DeltaClaimsOnlyItsDots(t *testing.T) {
	var a ORSet[string]
	a.Add(na, "x")
	b := copyOf(&a)
	b.Merge(a.Add(na, "y"), nil)
	reads(t, b, "x", "y")
	a.Merge(b, nil)
	reads(t, &a, "x", "y")
}

// Akka #22890, and GoAkt: the delta of a remove emptied the peer.
func TestHazard1RemoveDeltaTakesOnlyWhatItSaw(t *testing.T) {
	var a ORSet[string]
	for _, e := range []string{"x", "y", "z"} {
		a.Add(na, e)
	}
	b := copyOf(&a)
	b.Merge(a.Remove("z"), nil)
	reads(t, b, "x", "y")
}

// delta_crdt_ex #45: of 100,000 additions, 18,429 were seen.
func TestHazard2GapsStayGaps(t *testing.T) {
	var a, b ORSet[string]
	var deltas []*ORSet[string]
	for i := range 2000 {
		deltas = append(deltas, a.Add(na, fmt.Sprint(i)))
	}
	for i := len(deltas) - 1; i >= 0; i -= 3 {
		b.Merge(deltas[i], nil)
	}
	if got := b.Len(); got != 667 {
		t.Fatalf("%d of 667 deltas arrived", got)
	}
	for _, d := range deltas {
		b.Merge(d, nil)
	}
	if !same(&a, &b) || b.Context().Intervals() != 1 {
		t.Fatalf("%d of 2000 elements, %d intervals", b.Len(), b.Context().Intervals())
	}
}

func TestHazard3ChunksClaimOnlyTheirContent(t *testing.T) {
	var a ORSet[string]
	for i := range 1000 {
		a.Add(na, fmt.Sprint(i))
		if i%3 == 0 {
			a.Remove(fmt.Sprint(i / 2))
		}
	}
	var b ORSet[string]
	n := 0
	for chunk := range Chunks(&a, 500) {
		if len(chunk) > 500 {
			t.Fatalf("chunk of %d bytes", len(chunk))
		}
		if n++; n%2 == 0 {
			continue // the transfer loses half, and breaks off
		}
		v, err := Decode(KindORSet, chunk)
		if err != nil {
			t.Fatal(err)
		}
		b.Join(v)
	}
	if n < 10 || b.Len() == 0 || b.Len() >= a.Len() {
		t.Fatalf("%d chunks, %d elements of %d", n, b.Len(), a.Len())
	}
	back := copyOf(&a)
	back.Merge(&b, nil)
	if !same(back, &a) {
		t.Fatal("half a transfer took something from its source")
	}
	b.Merge(&a, nil)
	if !same(&b, &a) {
		t.Fatal("a full state did not repair half a transfer")
	}
}

// riak_dt #82, the seven steps; akka.net #8220 had the same until May 2026.
func TestHazard4BothSidesHaveIt(t *testing.T) {
	var a, b ORSet[string]
	a.Add(na, "z")
	b.Add(nb, "z")
	c := copyOf(&a)
	a.Remove("z")
	a.Merge(&b, nil) // a has b's z, and has removed its own
	b.Merge(c, nil)  // b has both
	b.Remove("z")
	c.Merge(&a, nil)
	a.Merge(&b, nil)
	a.Merge(c, nil)
	b.Merge(&a, nil)
	reads(t, &a)
	reads(t, &b)
}

// claimed returns the highest sequence number of a writer that a value claims.
func claimed(v causalValue, n NodeID) (highest uint64) {
	for writer, seq := range v.Claims() {
		if writer == n {
			highest = max(highest, seq)
		}
	}
	return highest
}

// What a value claims is what its context has, in the form of a delta as in the indexed
// one, and asking for it leaves the value as it is.
func TestClaimsAreTheHighestDots(t *testing.T) {
	var a ORSet[string]
	a.Add(na, "x")
	b := copyOf(&a)
	d := b.Add(nb, "x") // takes the dot of a over
	for range 2 {
		if claimed(d, na) != 1 || claimed(d, nb) != 1 || claimed(d, nc) != 0 {
			t.Errorf("the delta claims %d of a, %d of b", claimed(d, na), claimed(d, nb))
		}
		if d.full != nil {
			t.Fatal("asking has built an index")
		}
	}
	a.Add(na, "y")
	a.Merge(d, nil)
	if claimed(&a, na) != 2 || claimed(&a, nb) != 1 || a.Context().Max(na) != 2 {
		t.Errorf("the set claims %d of a, %d of b", claimed(&a, na), claimed(&a, nb))
	}
	for v := range Split(&a, 1) {
		for n, seq := range v.(causalValue).Claims() {
			if !v.(causalValue).Context().Contains(Dot{n, seq}) {
				t.Errorf("a part claims %v:%d, which is not in it", n, seq)
			}
		}
	}
}

// riak_kv #679, #1027, #1094, sucredb #13: a writer that starts anew must not use the
// name of the old one. The context tells it that someone has.
func TestHazard5ReusedWritersAreSeen(t *testing.T) {
	var a ORSet[string]
	backup := copyOf(&a)
	a.Add(na, "x")
	b := copyOf(&a)
	for _, v := range []causalValue{backup, &Flag{}, &MVRegister[int]{}, &ORMap[string, int]{}, &ORMultiMap[string, int]{}, &PNCounterMap[int]{}} {
		if claimed(v, na) != 0 || v.Context().Max(na) != 0 {
			t.Fatal("an empty value has seen something")
		}
	}
	if backup.Merge(b, nil); claimed(backup, na) != 1 {
		t.Fatal("the writer cannot see that its number was used")
	}
	reborn := &ORSet[string]{}
	reborn.Add(nb, "y") // a new incarnation: nothing is lost
	reborn.Merge(b, nil)
	reads(t, reborn, "x", "y")
}

// riak_kv #1070, #1094: an old delete took a key that was created again.
func TestHazard6OldDeletesDoNotTakeNewContent(t *testing.T) {
	var a ORSet[string]
	a.Add(na, "k")
	old := a.Remove("k")
	again := a.Add(na, "k")
	var b ORSet[string]
	b.Merge(again, nil)
	b.Merge(old, nil)
	b.Merge(old, nil)
	reads(t, &b, "k")
}

// akka.net #8219, #8220; Akka #21647, #22130: pruning while messages are about.
func TestHazard7PruningKeepsContent(t *testing.T) {
	dead := func(n NodeID) bool { return n == nd || n == nc }
	var a ORSet[string]
	a.Add(nd, "stays")
	a.Add(nc, "goes")
	a.Add(na, "live")
	a.Remove("goes")
	b, late := copyOf(&a), copyOf(&a)
	g := a.Garbage(dead)
	if g.Items != 1 || g != b.Garbage(dead) {
		t.Fatalf("garbage %+v and %+v", g, b.Garbage(dead))
	}
	if b.Add(nb, "new"); !a.Prune(g, dead) || !b.Prune(g, dead) {
		t.Fatal("a change elsewhere kept the value from being pruned")
	}
	if a.Prune(g, dead) {
		t.Fatal("pruned twice")
	}
	a.Merge(b, nil)
	a.Merge(late, nil) // a state from before, of one who is slow to prune
	reads(t, &a, "stays", "live", "new")
	a.Remove("stays")
	if g := a.Garbage(dead); g.Items != 2 || !a.Prune(g, dead) {
		t.Fatalf("two prunes at once: %+v", g)
	}
	if n := len(a.Context().Nodes()); n != 2 {
		t.Fatalf("%d writers left", n)
	}
}

// Akka #22130: D's 20 were folded into A, then {D:20} came back.
func TestHazard8FoldedCountsAreNotDoubled(t *testing.T) {
	var a GCounter
	a.Add(na, 37)
	late := (&GCounter{}).Add(nd, 20)
	a.Merge(late)
	b := copyOf(&a)
	delta := a.Fold(nd, na).(*GCounter)
	var c GCounter
	for name, v := range map[string]*GCounter{"heir": &a, "who has only the delta": &c, "peer": b} {
		v.Merge(delta)
		v.Merge(late)
		v.Merge(late)
		if v.Count() != 57 {
			t.Fatalf("%s counts %d", name, v.Count())
		}
	}
	more := (&GCounter{}).Add(nd, 25) // the dead writer had counted on
	b.Merge(more)
	if a.Merge(b); a.Count() != 62 {
		t.Fatalf("with late counts: %d", a.Count())
	}
	a.Fold(nd, na)
	b.Merge(&a)
	dead := func(n NodeID) bool { return n == nd }
	if g := a.Garbage(dead); g != b.Garbage(dead) || !a.Prune(g, dead) || !b.Prune(g, dead) {
		t.Fatalf("not pruned: %+v %+v", g, b.Garbage(dead))
	}
	if !same(&a, b) || a.Count() != 62 || len(a.items) != 1 {
		t.Fatalf("after pruning: %d in %d entries", a.Count(), len(a.items))
	}
	b.Merge(a.Add(na, 1))
	if b.Count() != 63 {
		t.Fatalf("after pruning, one more: %d", b.Count())
	}
}

// Jepsen on Riak: a timestamp from the future pins a value.
func TestHazard9FutureStampsAreRefused(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	var ahead, h HLC
	var m LWWMap[string, string]
	delta := m.Set("k", "v", ahead.Stamp(now.Add(time.Hour), na))
	var skew *SkewError
	if err := h.Admit(delta, now); !errors.As(err, &skew) || skew.AheadMillis != 3_600_000 || skew.MaxMillis != 500 {
		t.Fatalf("admitted: %v", err)
	}
	if h.Last() != 0 {
		t.Fatal("a refused stamp moved the clock")
	}
	h.Clamp = true
	if err := h.Admit(delta, now); err != nil {
		t.Fatal(err)
	}
	if got := h.Last() >> hlcCounterBits; got != 1_000_000_500 {
		t.Fatalf("clamped to %d", got)
	}
	// A clock that goes back does not make stamps go back.
	last := h.Last()
	for range 100_000 {
		if tick := h.Tick(now.Add(-time.Hour)); tick <= last {
			t.Fatal("the clock went back")
		} else {
			last = tick
		}
	}
}

// GoAkt and Pekko: equal stamps with different values fall to whoever joins.
func TestHazard10TiesAreDecidedAlike(t *testing.T) {
	s := Stamp{Time: 1, Node: na}
	var a, b LWWRegister[string]
	a.Set("one", s)
	b.Set("two", s)
	var m, n LWWMap[string, string]
	m.Set("k", "one", s)
	n.Set("k", "two", s)
	n.Set("d", "v", s)
	m.Delete("d", s)
	a2, m2 := copyOf(&a), copyOf(&m)
	a.Merge(&b)
	b.Merge(a2)
	m.Merge(&n, nil)
	n.Merge(m2, nil)
	if !same(&a, &b) || !same(&m, &n) {
		t.Fatal("a tie fell differently on two sides")
	}
}

// delta_crdt used a monotonic clock: not comparable between processes.
func TestHazard11TicksOfTwoProcessesCompare(t *testing.T) {
	var a, b HLC
	first := a.Tick(time.UnixMilli(5000))
	if second := b.Tick(time.UnixMilli(5001)); second <= first {
		t.Fatalf("%d after %d", second, first)
	}
}

// Pekko sends a remove with version 0 for what it has never seen.
func TestHazard12RemoveOfUnseen(t *testing.T) {
	var a ORSet[string]
	before := a.Digest()
	if d := a.Remove("x"); d != nil || a.Digest() != before {
		t.Fatal("removing nothing changed something")
	}
	var m ORMap[string, string]
	var f Flag
	var c PNCounterMap[string]
	if m.Remove("k") != nil || f.Disable() != nil || c.Remove("k") != nil || a.Clear() != nil {
		t.Fatal("removing nothing gave a delta")
	}
}

func TestHazard13AddWins(t *testing.T) {
	var a ORSet[string]
	a.Add(na, "x")
	b := copyOf(&a)
	again := a.Add(na, "x") // re-add against a concurrent remove
	gone := b.Remove("x")
	a.Merge(gone, nil)
	b.Merge(again, nil)
	reads(t, &a, "x")
	reads(t, b, "x")
	if !same(&a, b) {
		t.Fatal("replicas differ")
	}
}

// Pekko's ORMapSpec anomaly; GoAkt: 1 became 10 after a stale peer; riak #92, #98.
func TestHazard14RemovedEntriesStayRemoved(t *testing.T) {
	var a ORMap[string, string]
	a.At("k").Increment(na, 10)
	a.At("k").Add(na, "old")
	a.At("k", "deep").Set(na, "old")
	stale := copyOf(&a)
	a.Remove("k")
	a.At("k").Increment(na, 1)
	a.Merge(stale, nil)
	stale.Merge(&a, nil)
	for _, m := range []*ORMap[string, string]{&a, stale} {
		p := m.At("k")
		if p.Count() != 1 || len(p.Elements()) != 0 || p.At("deep").Exists() {
			t.Fatalf("old content is back: %v", readMap(m, nil))
		}
	}
	var c PNCounterMap[string]
	c.Add(na, "k", 10)
	old := copyOf(&c)
	c.Remove("k")
	c.Add(na, "k", 1)
	c.Merge(old, nil)
	if n, _ := c.Count("k"); n != 1 {
		t.Fatalf("old count is back: %d", n)
	}
}

// Akka #22631, #22648: deltas of ORMap and ORMultiMap were not their changes; #22606:
// nor when they came twice.
func TestHazard15MultiMapDeltas(t *testing.T) {
	var a ORMultiMap[string, string]
	b := copyOf(&a)
	d1, d2 := a.Add(na, "k", "x"), a.Add(na, "k", "y")
	d3, d4 := a.Remove("k", "x"), a.RemoveKey("k")
	d5 := a.Add(na, "k", "z")
	for _, d := range []*ORMultiMap[string, string]{d5, d3, d3, d1, d4, d2, d1, d5} {
		b.Merge(d, nil)
	}
	if !same(&a, b) || unique(b.Values("k")) != set("z") {
		t.Fatalf("values %v", b.Values("k"))
	}
}

// riak_dt #133, GoAkt: digests that depend on order, or on who counts.
func TestHazard16DigestIsOfContent(t *testing.T) {
	var deltas []*ORSet[string]
	var first ORSet[string]
	for i := range 200 {
		deltas = append(deltas, first.Add(NodeID(i%7), fmt.Sprint(i%50)))
	}
	for round := range 20 {
		var s ORSet[string]
		for _, i := range scattered(len(deltas)) {
			s.Merge(deltas[(i+round*13)%len(deltas)], nil)
		}
		if !same(&s, &first) {
			t.Fatal("another order gave another digest or other bytes")
		}
	}
}

// Hazard 17, aliases, is TestNothingIsShared and TestArgumentsAreCopied.

// Akka #23025, Horde #90, #200: deltas and memory grew without bound.
func TestHazard18DeltasStaySmall(t *testing.T) {
	var s ORSet[string]
	sum := &ORSet[string]{}
	for i := range 10_000 {
		sum.Merge(s.Add(na, fmt.Sprint(i%10)), nil)
	}
	if n := len(sum.Append(nil)); n > 120 {
		t.Fatalf("10,000 adds of 10 elements make a delta of %d bytes", n)
	}
	for i := range 50_000 {
		s.Add(na, fmt.Sprint("churn", i))
		s.Remove(fmt.Sprint("churn", i))
	}
	if n, blocks := len(s.Append(nil)), len(s.full.columns[0].blocks); n > 120 || s.full.slots > 100 || blocks > 10 {
		t.Fatalf("churn left %d bytes, %d slots, %d blocks", n, s.full.slots, blocks)
	}
	for i := range 100_000 {
		s.Add(na, fmt.Sprint("bulk", i))
	}
	s.Clear()
	if s.full.slots > 2*pageLen {
		t.Fatalf("an empty set holds %d slots", s.full.slots)
	}
	next := s.Context().Max(na)
	s.Remove("nothing")
	s.Merge(copyOf(&s), nil)
	if s.Context().Max(na) != next {
		t.Fatal("a no-op used a dot")
	}
}

// akka.net #8219: a subscriber saw the map shrink while it was pruned.
func TestHazard19PruningIsNotAChange(t *testing.T) {
	var a LWWMap[string, string]
	a.Set("k", "v", Stamp{Time: 1, Node: na})
	a.Set("gone", "v", Stamp{Time: 1, Node: nb})
	a.Delete("gone", Stamp{Time: 2, Node: nb})
	b := copyOf(&a)
	b.Prune(b.Garbage(nil), nil)
	var ch Changes[string]
	a.Merge(b, &ch)
	b.Merge(&a, &ch)
	if !ch.Empty() || b.Len() != 1 {
		t.Fatalf("subscribers were told of %+v", ch)
	}
	if a.Prune(a.Garbage(nil), nil); a.Tombstones() != 0 {
		t.Fatal("the tombstone is still there")
	}
}

func TestHazard20SaltsTellCollisionsApart(t *testing.T) {
	var a, b ORSet[string]
	a.Add(na, "x")
	b.Add(na, "y")
	b.grown().sum = a.Digest() // as if they collided
	if SaltedDigest(&a, 1) == SaltedDigest(&b, 1) || SaltedDigest(&a, 1) == SaltedDigest(&a, 2) ||
		SaltedDigest(&a, 1) != SaltedDigest(copyOf(&a), 1) {
		t.Fatal("salted digests do not do what they are for")
	}
}

// Indexes of writers differ between processes and stay out of the bytes.
func TestHazard22OrderOfWritersDoesNotShow(t *testing.T) {
	var a, b, da, db ORSet[string]
	nodes := []NodeID{900, 3, 77, 1 << 60, 12, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16}
	var deltas []*ORSet[string]
	for i, n := range nodes {
		deltas = append(deltas, da.Add(n, fmt.Sprint(i)))
	}
	for _, d := range deltas {
		a.Merge(d, nil)
	}
	slices.Reverse(deltas)
	for _, d := range deltas {
		b.Merge(d, nil)
	}
	db.Merge(&b, nil)
	if !same(&a, &b) || !same(&db, &a) {
		t.Fatal("the order in which writers were met shows in the bytes")
	}
}
