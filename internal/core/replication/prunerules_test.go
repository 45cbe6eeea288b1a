package replication

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// TestAStreamLagsOnceItHasStoodStill checks that a stream lags after lagPatience times ResendAfter. The
// time begins when a peer is found ahead, and anew with each entry of the stream.
func TestAStreamLagsOnceItHasStoodStill(t *testing.T) {
	e, _ := newParts(Config{}, 2)
	ae := &antiEntropy{env: e}
	wait := clock.Instant(lagPatience * e.cfg.ResendAfter)
	for i, c := range []struct {
		at           clock.Instant
		mine, theirs uint64
		want         bool
	}{
		{9 * wait, 0, 1, false}, // the first sight of a stream
		{10*wait - 1, 0, 1, false},
		{10 * wait, 0, 1, true},
		{10 * wait, 5, 6, false}, // it has brought entries
		{11*wait - 1, 5, 9, false},
		{11 * wait, 5, 9, true},
		{20 * wait, 5, 5, false}, // the peer is not ahead
		{20 * wait, 5, 6, false}, // and is again, which counts anew
		{21 * wait, 5, 6, true},
		{30 * wait, 7, 6, false},
	} {
		if got := ae.lagsForLong(c.at, Seen{Node: 3, Seen: c.mine}, Seen{Node: 3, Seen: c.theirs}); got != c.want {
			t.Errorf("step %d: lags %v", i, got)
		}
	}
}

// TestACommitOfAnEarlierFloorChangesNothing checks that only the sender's floor and fences are noted.
func TestACommitOfAnEarlierFloorChangesNothing(t *testing.T) {
	for _, floor := range []uint64{3, 4} {
		s := newSingle(t, 3, nil)
		s.put("k", "e")
		s.barrier.floor, s.barrier.empty, s.members.byID[2].floor = 4, false, 2
		out := s.receive(2, &Commit{Floor: floor, Drops: []Drop{{Key: "k", Gen: 1}}, Fences: []replicator.Fence{{Group: "g", Term: 7}}})
		if s.barrier.floor != 4 || s.Value("k") == nil || len(out.Send) != 0 {
			t.Errorf("floor %d: stands at %d, %d messages", floor, s.barrier.floor, len(out.Send))
		}
		if s.members.byID[2].floor != floor || s.Term("g") != 7 {
			t.Errorf("floor %d: the sender stands at %d, the group at term %d", floor, s.members.byID[2].floor, s.Term("g"))
		}
		if s.receive(2, &Commit{Floor: 1}); s.members.byID[2].floor != floor {
			t.Errorf("a late commit takes the sender's floor back to %d", s.members.byID[2].floor)
		}
	}
}

// TestANewcomerTakesOverTheFloor checks that a replica takes over a floor if it is empty, or if it holds
// only own state and the floor is above 1. Its own state stays. A replica without a commit applies the
// first commit.
func TestANewcomerTakesOverTheFloor(t *testing.T) {
	for name, c := range map[string]struct {
		empty   bool
		own, to uint64
		takes   bool
	}{
		"empty":                        {true, 0, 1, true},
		"empty, at a later floor":      {true, 0, 5, true},
		"with own state":               {false, 0, 5, true},
		"the first commit":             {false, 0, 1, false},
		"one that has applied commits": {false, 4, 5, false},
	} {
		s := newSingle(t, 2, nil)
		s.put("k", "e")
		s.barrier.empty, s.barrier.floor, s.barrier.maxForgottenStamp, s.barrier.inherited = c.empty, c.own, 40, 30
		m := &Commit{Floor: c.to, Drops: []Drop{{Key: "k", Gen: 1}}, Sweep: 9, MinGeneration: 8, MaxForgottenStamp: 70}
		out := s.receive(2, m)
		if (s.store.itemOf("k") != nil) != c.takes || s.barrier.floor != c.to || s.barrier.empty || len(s.barrier.last.Drops) != 1 {
			t.Errorf("%s: key kept %v, floor %d, empty %v, last %+v", name, s.store.itemOf("k") != nil, s.barrier.floor, s.barrier.empty, s.barrier.last)
		}
		if s.barrier.minGeneration != 8 || s.barrier.maxForgottenStamp != 70 || c.takes && (s.barrier.sweep != 9 || s.barrier.inherited != 70) {
			t.Errorf("%s: %+v", name, s.barrier)
		}
		if status := sentTo[*Status](out, 2); len(status) != 1 || status[0].Floor != c.to || s.stats.FloorGaps != 0 {
			t.Errorf("%s: sent %v, gaps %d", name, out.Send, s.stats.FloorGaps)
		}
		s.barrier.empty = c.empty
		if s.receive(2, &Commit{Floor: c.to + 2, MaxForgottenStamp: 1}); s.barrier.maxForgottenStamp != 70 || s.barrier.minGeneration != 8 {
			t.Errorf("%s: a later commit takes back to %+v", name, s.barrier)
		}
		if gaps := s.stats.FloorGaps; s.barrier.floor != c.to+2 || gaps != map[bool]uint64{true: 0, false: 1}[c.empty] {
			t.Errorf("%s: floor %d after a gap, counted %d", name, s.barrier.floor, gaps)
		}
	}
}

// TestACommitEndsFreshness checks that a commit ends the freshness of a replica that has just loaded its
// file.
func TestACommitEndsFreshness(t *testing.T) {
	s := newSingle(t, 3, nil)
	s.barrier.fresh = true
	if s.receive(2, &Commit{Floor: 2}); s.barrier.fresh {
		t.Error("fresh after a commit")
	}
}

// TestACommitSendsEntriesInFlightAgain checks that entries in flight are sent again under the new floor,
// since the peer refuses those of the former floor. An entry that was not sent waits for its batch.
func TestACommitSendsEntriesInFlightAgain(t *testing.T) {
	s := newSingle(t, 4, func(c *Config) { c.NoGossip = true })
	s.barrier.empty, s.barrier.floor = false, 4
	s.put("k", "e")
	s.pass(s.cfg.BatchEvery)
	s.receive(3, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1})
	s.members.byID[4].acked, s.members.byID[4].next = 1, 2
	s.put("k", "f")
	out := s.receive(3, &Commit{Floor: 5})
	if got := receivers[*Deltas](out); !slices.Equal(got, ids(2)) {
		t.Errorf("entries are sent to %v", got)
	}
	if m := sentTo[*Deltas](out, 2); len(m) != 1 || m[0].From != 1 || m[0].Floor != 5 || len(m[0].Entries) != 2 {
		t.Errorf("sent %+v", m)
	}
}

// forgetting returns a core with a map of three deleted entries under a durable key, and the
// fingerprints of their deletions by entry.
func forgetting(t *testing.T) (*single, map[string]uint64) {
	s := newSingle(t, 2, func(c *Config) { c.Keep = func(string) bool { return true } })
	for i, entry := range []string{"a", "b", "c"} {
		s.update(replicator.Local, replicator.Fence{}, Mutate("m", crdt.KindLWWMap, 24, func(v crdt.Value) crdt.Value {
			return v.(*entryMap).Delete(entry, crdt.Stamp{Time: uint64(10 * (i + 1)), Node: 1})
		}))
	}
	prints := map[string]uint64{}
	s.store.eachDeletion(func(_ *item, entry string, print uint64) { prints[entry] = print })
	return s, prints
}

// TestASweepForgetsEntriesOneByOne checks that a sweep removes the entries that it names from the value,
// and not from snapshots of the value.
func TestASweepForgetsEntriesOneByOne(t *testing.T) {
	s, prints := forgetting(t)
	snapshot, before := s.Snapshot("m"), s.Digest()
	s.retention.forgetUnder(s.store.itemOf("m"), map[uint64]bool{prints["a"]: true, prints["b"]: true})
	if m := s.Value("m").(*entryMap); m.Tombstones() != 1 || s.store.deletions != 1 || s.stats.Pruned != 2 || s.barrier.maxForgottenStamp != 20 {
		t.Errorf("%d deletions, %d counted, %d pruned, newest forgotten %d", m.Tombstones(), s.store.deletions, s.stats.Pruned, s.barrier.maxForgottenStamp)
	}
	if got := snapshot.Value.(*entryMap).Tombstones(); got != 3 || s.Digest() == before {
		t.Errorf("a snapshot has %d deletions, the digest is the former one: %v", got, s.Digest() == before)
	}
	s.barrier.maxForgottenStamp = 90
	if s.retention.forgetUnder(s.store.itemOf("m"), map[uint64]bool{prints["c"]: true}); s.barrier.maxForgottenStamp != 90 {
		t.Errorf("the newest forgotten stamp falls to %d", s.barrier.maxForgottenStamp)
	}
}

// TestASweepForgetsAKey checks that new keys begin above the generation of a forgotten key.
func TestASweepForgetsAKey(t *testing.T) {
	for before, want := range map[uint64]uint64{0: 3, 5: 5} {
		s := newSingle(t, 2, func(c *Config) { c.Keep = func(string) bool { return true } })
		it := s.store.obtain("k")
		s.store.absorb(it, 3, 0, nil)
		s.barrier.minGeneration = before
		s.retention.forgetUnder(it, nil)
		if s.checkInvariants(); s.barrier.minGeneration != want || s.store.itemOf("k") != nil || s.stats.Pruned != 1 {
			t.Errorf("new keys begin at %d, want %d; key kept %v, %d pruned", s.barrier.minGeneration, want, s.store.itemOf("k") != nil, s.stats.Pruned)
		}
	}
}

// TestAPrepareIsAnsweredInItsViewAlone checks that a replica answers a Prepare only of its leader, in its
// view and at its floor.
func TestAPrepareIsAnsweredInItsViewAlone(t *testing.T) {
	for name, c := range map[string]struct {
		from    gossip.NodeID
		epoch   gossip.Epoch
		floor   uint64
		answers bool
	}{
		"of the leader":       {2, 0, 4, true},
		"of another member":   {3, 0, 4, false},
		"of another view":     {2, 1, 4, false},
		"of a lower floor":    {2, 0, 3, false},
		"of a floor above it": {2, 0, 5, false},
	} {
		s := newSingle(t, 3, nil)
		s.members.voters = ids(2, 1, 3)
		s.put("k", "e")
		s.barrier.floor, s.barrier.empty = 4, true
		s.fences.raise(replicator.Fence{Group: "g", Term: 7})
		out := s.receive(c.from, &Prepare{Epoch: s.members.epoch + c.epoch, Floor: c.floor, Attempt: 6, Drops: []Drop{{Key: "k", Gen: 0}, {Key: "l", Gen: 1}}, Deletions: []uint64{5}})
		all := sentTo[*Prepared](out, c.from)
		if (len(all) == 1) != c.answers || s.barrier.empty == c.answers {
			t.Errorf("%s: answers %d, empty %v", name, len(all), s.barrier.empty)
		}
		if c.answers && (all[0].Attempt != 6 || all[0].Floor != 4 || all[0].MaySweep || len(all[0].Fences) != 1 || !slices.Equal(all[0].Agreed, []bool{true, false, false})) {
			t.Errorf("%s: %+v", name, all[0])
		}
	}
}
