package replication

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// TestAReplicaThatHasJustJoinedLosesNoValue checks that a replica that creates a durable key before
// it has met the key's value adds to that value, although the cluster has forgotten deletions of
// other keys since the value was created.
func TestAReplicaThatHasJustJoinedLosesNoValue(t *testing.T) {
	for name, level := range map[string]replicator.Level{"local": replicator.Local, "majority": majority} {
		d := newDisks(t, 3)
		d.files[3] = &simFile{}
		d.boot(0, 1, 2)
		d.do(0, replicator.All, d.put(0, "keep/a", "old"), d.set(0, "old", "e"), d.put(0, "keep/b", "e"))
		d.do(1, replicator.All, operation.Op{Key: "keep/b", Delete: true})
		d.run(2 * testRetain)
		if n := d.tombs(); n != 0 || d.core(0).barrier.minGeneration == 0 {
			t.Fatalf("%d deletions are remembered, forgotten up to generation %d", n, d.core(0).barrier.minGeneration)
		}
		d.cutOff(3)
		d.boot(3)
		d.run(100 * time.Millisecond)
		if d.core(3).Value("keep/a") != nil {
			t.Fatal("the replica that joins has met the value")
		}
		d.do(3, level, d.put(3, "keep/a", "new"), d.set(3, "new", "e"))
		d.dropKind = nil
		if got := d.keys(); got != "keep/a[new old] keep/m[new:e old:e]" {
			t.Errorf("level %s: %s", name, got)
		}
		d.do(2, replicator.All, gone)
		if got := d.keys(); got != "keep/m[new:e old:e]" {
			t.Errorf("level %s, after the deletion: %s", name, got)
		}
	}
}

// TestAWriteJoinsAnOpenGenerationElsewhere checks that a write above the stamps of others is in
// their open generation, and that it keeps the value that was here.
func TestAWriteJoinsAnOpenGenerationElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		here func(s *single)
		want []string
	}{
		"no value":   {func(*single) {}, []string{"a:1"}},
		"a value":    {func(s *single) { s.update(replicator.Local, replicator.Fence{}, setIn(1, "m", "b", "1", 1, 1)) }, []string{"a:1", "b:1"}},
		"a deletion": {func(s *single) { s.put("m", "e"); s.deleteKey("m") }, []string{"a:1"}},
		"a value in a gap": {func(s *single) {
			s.put("m", "e")
			s.deleteKey("m")
			s.update(replicator.Local, replicator.Fence{}, setIn(1, "m", "b", "1", 1, 1))
		}, []string{"a:1", "b:1"}},
	} {
		s := newSingle(t, 3, nil)
		c.here(s)
		op := setBy(1, "m", "a", "1")
		id, out := s.update(majority, replicator.Fence{}, op)
		asks := sentTo[*StampQuery](out, 2)
		if len(asks) != 1 {
			t.Fatalf("%s: asks %+v, replies %+v", name, asks, out.Reply)
		}
		s.receive(2, &StampAnswer{Epoch: s.members.epoch, ID: id, Newest: []Newest{{Gen: 7, Live: true, Times: []uint64{3}}}})
		if it := s.store.itemOf("m"); it == nil || it.gen != 7 || !slices.Equal(contents(it.value), c.want) {
			t.Errorf("%s: %+v", name, it)
		}
	}
}

// TestStatesOfAllGenerationsConverge checks that replicas which exchange their states become equal,
// whatever the order, and that a value in the highest generation is kept, as is every value that
// joins it if no deletion is among the states.
func TestStatesOfAllGenerationsConverge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		var states []Item
		var all []string
		deleted, high := false, uint64(0)
		for i := range 2 + rng.IntN(4) {
			in := Item{Key: "k", Gen: uint64(rng.IntN(8))}
			if in.Gen%2 == 0 && rng.IntN(3) == 0 {
				deleted = true
			} else {
				e := string(rune('a' + i))
				in.Kind, in.Bytes = crdt.KindORSet, (&crdt.ORSet[string]{}).Add(crdt.NodeID(i+1), e).Append(nil)
				all, high = append(all, e), max(high, in.Gen)
			}
			states = append(states, in)
		}
		replicas := make([]*store, 3)
		for r := range replicas {
			replicas[r] = &store{}
			for _, i := range rng.Perm(len(states)) {
				take(t, replicas[r], states[i])
			}
		}
		for range 3 {
			for _, to := range rng.Perm(3) {
				for _, from := range rng.Perm(3) {
					take(t, replicas[to], full(replicas[from].itemOf("k")))
				}
			}
		}
		first := replicas[0].itemOf("k")
		for _, s := range replicas {
			it := s.itemOf("k")
			if s.root != first.print || it.gen != first.gen {
				t.Fatalf("round %d: %v lead to %v and %v", round, states, full(first), full(it))
			}
			if isOpen(high) && !deleted && !slices.Equal(contents(it.value), all) {
				if lost := slices.ContainsFunc(states, func(in Item) bool { return in.Gen%2 == 0 && in.Gen > 0 }); !lost {
					t.Fatalf("round %d: %v lead to %v, want %v", round, states, contents(it.value), all)
				}
			}
		}
	}
}

// take merges a state into a replica's store.
func take(t *testing.T, s *store, in Item) {
	t.Helper()
	var v crdt.Value
	if in.Kind != 0 {
		var err error
		if v, err = crdt.Decode(in.Kind, in.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	s.absorb(s.obtain(in.Key), in.Gen, in.Era, v)
}
