package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// deleteKey deletes a key at level Local.
func (s *single) deleteKey(key string) {
	s.t.Helper()
	s.update(replicator.Local, replicator.Fence{}, operation.Op{Key: key, Delete: true})
}

// preparing returns a leader of three that has just sent a Prepare for the deletion of k.
func preparing(t *testing.T, tweak func(*Config)) (*single, *Prepare) {
	s := newSingle(t, 3, func(c *Config) {
		c.NoGossip, c.NoStream = true, true
		if tweak != nil {
			tweak(c)
		}
	})
	s.put("k", "e")
	s.deleteKey("k")
	out := s.pass(s.cfg.PruneEvery)
	if got := receivers[*Prepare](out); !slices.Equal(got, ids(2, 3)) {
		t.Fatalf("asks %v", got)
	}
	return s, sentTo[*Prepare](out, 2)[0]
}

// answerTo agrees to all of a Prepare.
func (s *single) answerTo(m *Prepare) *Prepared {
	return &Prepared{Epoch: s.members.epoch, Floor: m.Floor, Attempt: m.Attempt, Agreed: slices.Repeat([]bool{true}, len(m.Drops)+len(m.Deletions)), MaySweep: m.Sweeps}
}

// TestARoundOfForgetting checks that a round commits the deletions to which all members agree, once all
// have answered its attempt in its view and at its floor.
func TestARoundOfForgetting(t *testing.T) {
	s, m := preparing(t, nil)
	if len(m.Drops) != 1 || m.Drops[0].Key != "k" || m.Drops[0].Gen != 2 || m.Floor != 0 || m.Sweeps || m.Epoch != s.members.epoch {
		t.Fatalf("asks for %+v", m)
	}
	for name, edit := range map[string]func(m *Prepared){
		"another attempt": func(m *Prepared) { m.Attempt++ },
		"another view":    func(m *Prepared) { m.Epoch++ },
		"another floor":   func(m *Prepared) { m.Floor++ },
		"too few lines":   func(m *Prepared) { m.Agreed = nil },
		"too many lines":  func(m *Prepared) { m.Agreed = []bool{true, true} },
	} {
		a := s.answerTo(m)
		edit(a)
		if out := s.receive(2, a); len(out.Send) != 0 || len(s.pruner.pruneRound.answered) != 0 {
			t.Errorf("%s counts", name)
		}
	}
	a := s.answerTo(m)
	a.Fences = []replicator.Fence{{Group: "g", Term: 7}}
	if out := s.receive(2, a); len(out.Send) != 0 || s.barrier.floor != 0 || s.Term("g") != 7 {
		t.Errorf("with one of two answers: %d messages, floor %d, term %d", len(out.Send), s.barrier.floor, s.Term("g"))
	}
	s.pruner.idleRounds = 3
	out := s.receive(3, s.answerTo(m))
	commit := sentTo[*Commit](out, 2)
	if got := receivers[*Commit](out); !slices.Equal(got, ids(2, 3)) || len(commit[0].Drops) != 1 || commit[0].Floor != 1 || len(commit[0].Fences) != 1 {
		t.Errorf("commits %+v to %v", commit, got)
	}
	if s.store.itemOf("k") != nil || s.barrier.floor != 1 || s.pruner.idleRounds != 0 || s.stats.Rounds != 1 || s.stats.Pruned != 1 || s.pruner.pruneRound.attempt != 0 {
		t.Errorf("floor %d, idle rounds %d, stats %+v", s.barrier.floor, s.pruner.idleRounds, s.stats)
	}
	if out = s.receive(3, s.answerTo(m)); len(out.Send) != 0 {
		t.Error("an answer after the round counts")
	}
}

// TestARoundWithoutAgreementForgetsNothing checks that any member may keep any deletion.
func TestARoundWithoutAgreementForgetsNothing(t *testing.T) {
	for _, refuses := range ids(2, 3) {
		s, m := preparing(t, nil)
		for _, id := range ids(2, 3) {
			a := s.answerTo(m)
			a.Agreed[0] = id != refuses
			if out := s.receive(id, a); len(out.Send) != 0 {
				t.Errorf("%v refuses: sends %v", refuses, out.Send)
			}
		}
		if s.store.itemOf("k") == nil || s.barrier.floor != 0 || s.pruner.idleRounds != 1 || s.stats.Rounds != 0 {
			t.Errorf("%v refuses: floor %d, idle rounds %d", refuses, s.barrier.floor, s.pruner.idleRounds)
		}
	}
}

// TestALeaderWaitsForAllMembers checks that a leader begins a round only if all members are reachable
// and at its floor, and that it ends an unanswered round after twice the wait.
func TestALeaderWaitsForAllMembers(t *testing.T) {
	s, m := preparing(t, nil)
	out := s.pass(s.cfg.PruneEvery)
	next := sentTo[*Prepare](out, 2)
	if len(next) != 1 || next[0].Attempt == m.Attempt || s.pruner.idleRounds != 1 {
		t.Fatalf("asks %+v, idle rounds %d", next, s.pruner.idleRounds)
	}
	if s.receive(2, s.answerTo(m)); len(s.pruner.pruneRound.answered) != 0 {
		t.Error("an answer to the former round counts")
	}
	s.members.byID[3].floor = 5
	if out = s.pass(s.cfg.PruneEvery); len(out.Send) != 0 {
		t.Errorf("sends %v before its time", out.Send)
	}
	if out = s.pass(s.cfg.PruneEvery); len(receivers[*Prepare](out)) != 0 || !slices.Equal(receivers[*Commit](out), ids(3)) || s.pruner.idleRounds != 3 {
		t.Errorf("a member at another floor: sends %v, idle rounds %d", out.Send, s.pruner.idleRounds)
	}
	s.members.byID[3].floor, s.members.byID[3].down, s.pruner.idleRounds = 0, true, 0
	if out = s.pass(time.Minute); len(out.Send) != 0 || s.pruner.idleRounds != 1 {
		t.Errorf("a member that is lost: sends %v, idle rounds %d", out.Send, s.pruner.idleRounds)
	}
}

// TestWhenTheNextRoundIsDue checks that only a leader has rounds, if a bucket is suspect, keys expire or
// a sweep is due. Rounds without effect double the wait, up to sixteen times.
func TestWhenTheNextRoundIsDue(t *testing.T) {
	for rounds, want := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 4: 16 * time.Second, 9: 16 * time.Second} {
		s := newSingle(t, 1, nil)
		s.pruner.idleRounds, s.store.suspects, s.pruner.pruneAt = rounds, 1, clock.Never
		if s.pruner.planPrune(5); s.pruner.pruneAt != clock.Instant(5).Add(want) {
			t.Errorf("after %d idle rounds: due in %v", rounds, s.pruner.pruneAt.Sub(5))
		}
		if s.pruner.planPrune(6); s.pruner.pruneAt != clock.Instant(5).Add(want) {
			t.Error("a later look puts the round off")
		}
		s.store.suspects = 0
		if s.pruner.planPrune(6); s.pruner.pruneAt != clock.Never {
			t.Errorf("without a reason: due at %d", s.pruner.pruneAt)
		}
		s.cfg.Expire = []replicator.Expiry{{After: time.Hour}}
		if s.pruner.planPrune(6); s.pruner.pruneAt != clock.Instant(6).Add(want) {
			t.Errorf("keys expire: due in %v", s.pruner.pruneAt.Sub(6))
		}
		s.members.voters = ids(2, 1)
		if s.pruner.planPrune(6); s.pruner.pruneAt != clock.Never {
			t.Error("a member that does not lead plans a round")
		}
	}
}

// TestAReplicaAgreesToForgetEqualState checks that a replica agrees to forget generations that it has
// deleted, and garbage that is equal to its own.
func TestAReplicaAgreesToForgetEqualState(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.Keep = func(key string) bool { return key == "kept" } })
	s.put("live", "e")
	for range 2 {
		s.put("dead", "e")
		s.deleteKey("dead")
	}
	s.put("kept", "e")
	s.deleteKey("kept")
	s.put("set", "e")
	s.update(replicator.Local, replicator.Fence{}, removeFrom("set", "e"))
	garbage := s.Value("set").(prunableValue).Garbage(s.members.isDead)
	other := garbage
	other.Items++
	for name, c := range map[string]struct {
		d    Drop
		want bool
	}{
		"its generations":           {Drop{Key: "dead", Gen: 4}, true},
		"fewer":                     {Drop{Key: "dead", Gen: 2}, true},
		"more":                      {Drop{Key: "dead", Gen: 6}, false},
		"of a key that lives":       {Drop{Key: "live", Gen: 2}, false},
		"of none":                   {Drop{Key: "none", Gen: 0}, false},
		"of a durable key":          {Drop{Key: "kept", Gen: 2}, false},
		"its garbage":               {Drop{Key: "set", Kind: crdt.KindORSet, Garbage: garbage}, true},
		"other garbage":             {Drop{Key: "set", Kind: crdt.KindORSet, Garbage: other}, false},
		"garbage of another kind":   {Drop{Key: "set", Kind: crdt.KindORMap, Garbage: garbage}, false},
		"garbage of another era":    {Drop{Key: "set", Kind: crdt.KindORSet, Era: 1, Garbage: garbage}, false},
		"garbage of a deleted key":  {Drop{Key: "dead", Kind: crdt.KindORSet, Garbage: garbage}, false},
		"shares of living writers":  {Drop{Key: "set", Kind: crdt.KindORSet, Writers: []crdt.NodeID{2}}, false},
		"shares, of another value":  {Drop{Key: "set", Kind: crdt.KindORSet, Writers: []crdt.NodeID{9}}, false},
		"garbage of no key":         {Drop{Key: "none", Kind: crdt.KindORSet, Garbage: garbage}, false},
		"garbage of a key that was": {Drop{Key: "live", Kind: crdt.KindORSet, Garbage: other}, false},
	} {
		if got := s.pruner.agreesTo(&c.d); got != c.want {
			t.Errorf("%s: agrees %v", name, got)
		}
	}
}

// TestALineOfACommit checks that a line removes the agreed deletions from a key. It removes the key
// itself if no state is left, or if the key was written before these deletions.
func TestALineOfACommit(t *testing.T) {
	for name, c := range map[string]struct {
		gen    uint64
		live   bool
		drop   uint64
		left   bool
		want   uint64
		pruned uint64
	}{
		"deleted":                  {2, false, 2, false, 0, 1},
		"deleted again since":      {3, false, 2, true, 1, 1},
		"created again":            {2, true, 2, true, 0, 1},
		"created and deleted":      {3, true, 2, true, 1, 1},
		"written before, alive":    {1, true, 2, false, 0, 0},
		"deleted before, once":     {1, false, 2, false, 0, 0},
		"nothing to take, a value": {0, true, 0, true, 0, 1},
	} {
		s := newSingle(t, 2, nil)
		it := s.store.obtain("k")
		s.store.absorb(it, c.gen, 0, nil)
		if c.live {
			v, _ := crdt.New(crdt.KindORSet)
			v.(*crdt.ORSet[string]).Add(1, "e")
			s.store.absorb(it, c.gen, 0, v)
		}
		s.values.out = &Effects{}
		s.pruner.applyDrop(&Drop{Key: "k", Gen: c.drop})
		s.pruner.applyDrop(&Drop{Key: "none", Gen: 1})
		s.checkInvariants()
		if it = s.store.itemOf("k"); (it != nil) != c.left || it != nil && it.gen != c.want || s.stats.Pruned != c.pruned {
			t.Errorf("%s: %+v, %d pruned", name, it, s.stats.Pruned)
		}
	}
}

// TestFramesOfOtherFloors checks that frames of another floor are refused, and that the side behind
// catches up.
func TestFramesOfOtherFloors(t *testing.T) {
	for name, c := range map[string]struct {
		peer, floor, sweep uint64 // the sender's floor so far, that of the frame, its sweep
		fresh              bool
		accepts            bool
		commit, status     int
		reply              bool
	}{
		"level":                  {0, 4, 6, false, true, 0, 0, false},
		"behind":                 {0, 3, 6, false, false, 1, 0, false},
		"behind, and was not":    {4, 3, 6, false, false, 0, 0, false},
		"ahead":                  {0, 5, 6, false, false, 0, 1, false},
		"at a lower sweep":       {0, 4, 5, false, false, 0, 1, false},
		"at a higher sweep":      {0, 4, 7, false, false, 0, 1, true},
		"level, fresh here":      {0, 4, 6, true, false, 0, 1, true},
		"behind, fresh here":     {0, 3, 5, true, false, 0, 1, true},
		"behind, it was further": {5, 3, 6, false, false, 0, 0, false},
	} {
		s := newSingle(t, 2, nil)
		s.barrier.floor, s.barrier.sweep, s.barrier.fresh = 4, 6, c.fresh
		p := s.members.byID[2]
		p.floor, s.out = c.peer, &Effects{}
		got := s.antiEntropy.checkPruneFloor(p, c.floor, c.sweep)
		status := sentTo[*Status](s.out, 2)
		if got != c.accepts || len(sentTo[*Commit](s.out, 2)) != c.commit || len(status) != c.status || c.status > 0 && status[0].Reply != c.reply {
			t.Errorf("%s: accepts %v, sends %+v", name, got, s.out.Send)
		}
		if p.floor != max(c.peer, c.floor) || (s.stats.Unlevel == 1) == c.accepts {
			t.Errorf("%s: the peer stands at %d, %d frames refused", name, p.floor, s.stats.Unlevel)
		}
	}
}

// TestIdleKeysAreDeletedByTheirLongestPrefix checks that the leader deletes a key which was idle for the
// time of its longest prefix.
func TestIdleKeysAreDeletedByTheirLongestPrefix(t *testing.T) {
	expire := []replicator.Expiry{{Prefix: "a", After: time.Minute}, {Prefix: "ab", After: time.Hour}, {Prefix: "ac", After: 0}}
	s := newSingle(t, 2, func(c *Config) { c.Expire, c.PruneEvery = expire, 100*time.Hour })
	for _, key := range []string{"a", "ab", "ac", "b", "a gone"} {
		s.put(key, "e")
	}
	s.deleteKey("a gone")
	first := s.stream.log.last()
	sweep := func(at time.Duration, want ...string) {
		t.Helper()
		s.out, s.now = &Effects{}, clock.Instant(1).Add(at)
		s.pruner.deleteIdle(s.now)
		var gone []string
		for _, e := range s.out.Trace {
			gone = append(gone, e.Key)
		}
		slices.Sort(gone)
		if slices.Sort(want); !slices.Equal(gone, want) || len(s.out.Changed) != len(want) {
			t.Errorf("after %v: %v expire, want %v", at, gone, want)
		}
	}
	sweep(time.Minute - 1)
	s.members.voters = ids(2, 1)
	sweep(time.Minute)
	s.members.voters = ids(1, 2)
	if s.stream.log.last() != first {
		t.Error("an entry without items was logged")
	}
	sweep(time.Minute, "a")
	if s.Value("a") != nil || s.stats.Expired != 1 || s.stream.log.last() != first+1 || s.store.itemOf("a").gen != 2 {
		t.Errorf("%d expired, %d entries", s.stats.Expired, s.stream.log.last()-first)
	}
	if e := s.stream.log.entryAt(first + 1); len(e.Items) != 1 || e.Items[0].Key != "a" || e.Items[0].Gen != 2 {
		t.Errorf("logged %+v", e)
	}
	sweep(time.Hour - 1)
	sweep(time.Hour, "ab")
	s.cfg.Expire = nil
	sweep(100 * time.Hour)
	// A key that was restored is idle from the first look on.
	s.cfg.Expire = expire
	s.put("a", "again")
	s.store.itemOf("a").changedAt = 0
	s.do(Tick{})
	sweep(200 * time.Hour)
	sweep(200*time.Hour+time.Minute, "a")
}

// TestALookAtTheStoreIsBounded checks that a look at the store ends after a number of keys, and that the
// next look begins behind these keys.
func TestALookAtTheStoreIsBounded(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) {
		c.NoGossip, c.PruneEvery = true, 100*time.Hour
		c.Expire = []replicator.Expiry{{Prefix: "", After: time.Minute}}
	})
	const keys = 3 * dropsMax
	for i := range keys {
		v, _ := crdt.New(crdt.KindGSet)
		s.store.absorb(s.store.obtain(fmt.Sprint("k", i)), 0, 0, v)
	}
	s.out, s.now = &Effects{}, clock.Instant(1)
	s.pruner.deleteIdle(s.now) // sees the keys for the first time
	if s.pruner.idleCursor != 0 {
		t.Fatalf("the cursor is at %d after a whole look", s.pruner.idleCursor)
	}
	s.now = s.now.Add(time.Minute)
	s.pruner.deleteIdle(s.now)
	expired := s.stats.Expired
	if expired < dropsMax || expired > dropsMax+50 || s.pruner.idleCursor == 0 {
		t.Errorf("%d keys expire in one look, cursor at %d", expired, s.pruner.idleCursor)
	}
	s.pruner.deleteIdle(s.now)
	s.pruner.deleteIdle(s.now)
	if s.stats.Expired != keys {
		t.Errorf("%d of %d keys expired after three looks", s.stats.Expired, keys)
	}
	drops := s.pruner.droppable(s.now)
	if len(drops) != dropsMax || s.pruner.cursor == 0 {
		t.Errorf("%d lines in one round, cursor at %d", len(drops), s.pruner.cursor)
	}
	for range 4 {
		s.pruner.droppable(s.now)
	}
	if s.store.suspects == 0 {
		t.Error("no bucket is suspect, although its keys can be forgotten")
	}
	for i := range keys {
		s.store.removeItem(s.store.itemOf(fmt.Sprint("k", i)))
	}
	if drops = s.pruner.droppable(s.now); len(drops) != 0 || s.store.suspects != 0 {
		t.Errorf("%d lines of an empty store, %d buckets are suspect", len(drops), s.store.suspects)
	}
}

// TestWhenDifferencesMustBePulled checks that a replica pulls differences that streams will not remove.
func TestWhenDifferencesMustBePulled(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(s *single)
		vector []Seen
		want   bool
	}{
		"equal streams":          {func(*single) {}, nil, true},
		"an equal stream":        {func(s *single) { s.stream.tracks[3] = &track{seen: 5} }, []Seen{{3, 5, 5}}, true},
		"a stream that it lacks": {func(s *single) { s.stream.tracks[3] = &track{seen: 5} }, nil, false},
		"one that lags":          {func(s *single) { s.stream.tracks[3] = &track{seen: 4} }, []Seen{{3, 5, 5}}, false},
		"the peer lags":          {func(s *single) { s.stream.tracks[3] = &track{seen: 6} }, []Seen{{3, 5, 5}}, false},
		"another top":            {func(s *single) { s.stream.tracks[3] = &track{seen: 5, lo: 7, hi: 8} }, []Seen{{3, 5, 5}}, false},
		"of a node that is gone": {func(s *single) { s.stream.tracks[9] = &track{seen: 4} }, []Seen{{9, 4, 5}}, true},
		"gone, and all is here":  {func(s *single) { s.stream.tracks[9] = &track{seen: 5} }, []Seen{{9, 4, 5}}, false},
		"three that differed":    {func(s *single) { s.members.byID[2].differed, s.stream.tracks[3] = 3, &track{seen: 4} }, []Seen{{3, 5, 5}}, true},
		"two that differed":      {func(s *single) { s.members.byID[2].differed, s.stream.tracks[3] = 2, &track{seen: 4} }, []Seen{{3, 5, 5}}, false},
		"streams are off":        {func(s *single) { s.cfg.NoStream, s.stream.tracks[3] = true, &track{seen: 4} }, []Seen{{3, 5, 5}}, true},
		"not caught up":          {func(s *single) { s.members.caughtUp, s.stream.tracks[3] = 0, &track{seen: 4} }, []Seen{{3, 5, 5}}, true},
		"the peer's state is here": {func(s *single) {
			s.members.caughtUp, s.members.byID[2].joined, s.stream.tracks[3] = 0, s.members.epoch, &track{seen: 4}
		}, []Seen{{3, 5, 5}}, false},
		"one level, one that lags":  {func(s *single) { s.stream.tracks[3], s.stream.tracks[2] = &track{seen: 4}, &track{seen: 1} }, []Seen{{3, 5, 5}, {2, 1, 1}}, false},
		"lags, its end reached us?": {func(s *single) { s.stream.tracks[2] = &track{seen: 1} }, []Seen{{2, 1, 2}}, false},
	} {
		s := newSingle(t, 3, nil)
		c.edit(s)
		if got := s.antiEntropy.mustPull(s.at, &Status{Vector: c.vector}, s.members.byID[gossip.NodeID(2)]); got != c.want {
			t.Errorf("%s: pulls %v", name, got)
		}
	}
}
