package replication

import (
	"errors"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// deletion is an op that deletes a key.
func deletion(key string) operation.Op { return operation.Op{Key: key, Delete: true} }

// stampOf is an op that sets the register of a key.
func stampOf(key string) operation.Op {
	op := stampRegister(1, "v")
	op.Key = key
	return op
}

// TestOpsOfOneUpdateFollowEachOther checks that each op of an update is applied to what the ops
// before it have left, and that a deletion stays deleted for members, whatever follows it.
func TestOpsOfOneUpdateFollowEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		before, ops []operation.Op
		gen         uint64
		live        bool
	}{
		"a deletion, a change":                {[]operation.Op{addTo(1, "k", "e")}, []operation.Op{deletion("k"), addTo(1, "k", "f")}, 2, true},
		"a deletion, a change, a deletion":    {[]operation.Op{addTo(1, "k", "e")}, []operation.Op{deletion("k"), addTo(1, "k", "f"), deletion("k")}, 4, false},
		"a change, a deletion":                {[]operation.Op{addTo(1, "k", "e")}, []operation.Op{addTo(1, "k", "f"), deletion("k")}, 2, false},
		"a deletion, a stamped change":        {[]operation.Op{stampRegister(1, "v")}, []operation.Op{deletion(registerKey), stampRegister(1, "w")}, 2, true},
		"a change of no key, then a deletion": {nil, []operation.Op{addTo(1, "k", "e"), deletion("k")}, 2, false},
		"both, in an open generation":         {[]operation.Op{stampOf("kept")}, []operation.Op{deletion("kept"), stampOf("kept")}, 8, true},
	} {
		s := newSingle(t, 2, func(c *Config) { c.NoGossip, c.Keep = true, func(key string) bool { return key == "kept" } })
		s.barrier.minGeneration = 6
		if len(c.before) > 0 {
			s.update(replicator.Local, replicator.Fence{}, c.before...)
		}
		_, out := s.update(replicator.Local, replicator.Fence{}, c.ops...)
		key := c.ops[len(c.ops)-1].Key
		it := s.store.itemOf(key)
		if out.Reply[0].Err != nil || it.gen != c.gen || (it.value != nil) != c.live || !slices.Equal(out.Changed, []string{key}) {
			t.Errorf("%s: %v, generation %d, live %v, changes %v", name, out.Reply[0].Err, it.gen, it.value != nil, out.Changed)
		}
	}
}

// TestADeletionIsAboveThatOfAMember checks that a deletion at a level opens a generation above the one
// in which a member has deleted the key, and that it is written although the key does not exist here.
func TestADeletionIsAboveThatOfAMember(t *testing.T) {
	for name, c := range map[string]struct {
		here   bool
		answer Newest
		gen    uint64 // 0 if nothing is written
	}{
		"live here, deleted there":        {true, Newest{Gen: 2}, 4},
		"live in both":                    {true, Newest{Live: true}, 2},
		"live there":                      {false, Newest{Live: true}, 2},
		"live there, deleted once before": {false, Newest{Gen: 2, Live: true}, 4},
		"deleted there":                   {false, Newest{Gen: 2}, 0},
		"unknown in both":                 {false, Newest{}, 0},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		if c.here {
			s.put("k", "e")
			s.pass(s.cfg.BatchEvery)
		}
		id, _ := s.update(majority, replicator.Fence{}, deletion("k"))
		out := s.receive(2, &StampAnswer{Epoch: s.members.epoch, ID: id, Newest: []Newest{c.answer}})
		r := s.table.open[id]
		if written := r.entry != nil; written != (c.gen > 0) || written && r.entry.Items[0].Gen != c.gen {
			t.Errorf("%s: writes %+v", name, r.entry)
		}
		if slices.Contains(out.Changed, "k") != (c.gen > 0) || c.gen == 0 && len(receivers[*ReadRequest](out)) != 1 {
			t.Errorf("%s: changes %v, sends %v", name, out.Changed, out.Send)
		}
	}
}

// TestStampsWrittenWithoutAClockAreJudgedLater checks that a replica remembers to judge its stamps if
// it has written some before a member has sent its clock, and has a clock itself.
func TestStampsWrittenWithoutAClockAreJudgedLater(t *testing.T) {
	stamped := stampRegister(1, "v")
	fixed := fixedIn(registerKey, "v", crdt.Stamp{Time: 5 << tickBits, Node: 1})
	for name, c := range map[string]struct {
		op       operation.Op
		wall     bool
		reported bool
		before   bool
		unjudged bool
	}{
		"a stamped change":           {stamped, true, false, false, true},
		"a stamp of the caller":      {fixed, true, false, false, true},
		"a change without stamps":    {addTo(1, "k", "e"), true, false, false, false},
		"a member has sent a clock":  {stamped, true, true, false, false},
		"this node has no clock":     {stamped, false, false, false, false},
		"there are some from before": {stamped, true, true, true, true},
	} {
		s := newSingle(t, 3, func(cfg *Config) {
			if cfg.NoGossip = true; c.wall {
				cfg.Wall = func() uint64 { return noon }
			}
		})
		s.clocks.peersReported, s.clocks.unjudged = c.reported, c.before
		s.out = &Effects{}
		op := plannedOp{Op: c.op}
		plan, _, err := decide(&op, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.writes.applyOne(&op, plan, nil, Newest{Times: []uint64{0}})
		if s.clocks.unjudged != c.unjudged {
			t.Errorf("%s: unjudged %v", name, s.clocks.unjudged)
		}
		s.out = nil
	}
}

// TestMixedKeysAreRefusedInOneUpdate checks that an update of a durable key and another one fails, and
// that both kinds may be changed one after the other.
func TestMixedKeysAreRefusedInOneUpdate(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.Keep = func(key string) bool { return key == "kept" } })
	if _, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, "kept", "e"), addTo(1, "k", "e")); !errors.Is(out.Reply[0].Err, replicator.ErrMixed) || s.Value("k") != nil || s.Value("kept") != nil {
		t.Errorf("both: %v", out.Reply[0].Err)
	}
	for _, key := range []string{"k", "kept"} {
		if _, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, key, "e")); out.Reply[0].Err != nil {
			t.Errorf("%s: %v", key, out.Reply[0].Err)
		}
	}
	if s.stats.Updates != 3 {
		t.Errorf("%d updates are counted", s.stats.Updates)
	}
}

// TestADeletedKeyHasOneKindInAnUpdate checks that two kinds for one deleted key fail in one update.
func TestADeletedKeyHasOneKindInAnUpdate(t *testing.T) {
	s := newSingle(t, 3, nil)
	s.put("k", "e")
	s.deleteKey("k")
	if _, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, "k", "e"), count(1, "k", 1)); !errors.Is(out.Reply[0].Err, replicator.ErrKind) || s.Value("k") != nil {
		t.Errorf("%v", out.Reply[0].Err)
	}
}

// TestTheFirstErrorOfAPlanIsReported checks that a node without numbers for its changes still reports
// the errors of plans, and that only values in which its own numbers end are refused.
func TestTheFirstErrorOfAPlanIsReported(t *testing.T) {
	s := newSingle(t, 3, nil)
	s.put("k", "e")
	s.values.dots = ownDotsMax
	if _, out := s.update(replicator.Local, replicator.Fence{}, count(1, "k", 1)); !errors.Is(out.Reply[0].Err, replicator.ErrKind) {
		t.Errorf("another kind: %v", out.Reply[0].Err)
	}
	for _, key := range []string{"k", "new"} {
		if _, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, key, "f")); out.Reply[0].Err != nil {
			t.Errorf("%s: %v", key, out.Reply[0].Err)
		}
	}
}

// TestAnEntryInFlightIsNotOfferedAgain checks that offering an entry that is in flight sends nothing:
// neither the entry nor those that wait for their batch.
func TestAnEntryInFlightIsNotOfferedAgain(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	id, out := s.update(majority, replicator.Fence{}, addTo(1, "k", "e"))
	if got := receivers[*Deltas](out); !slices.Equal(got, ids(2)) {
		t.Fatalf("offered to %v", got)
	}
	s.put("l", "e")
	out = &Effects{}
	s.out = out
	s.writes.offerEntry(s.at, s.table.open[id], false)
	s.out = nil
	if p := s.members.byID[2]; len(out.Send) != 0 || p.next != 2 {
		t.Errorf("sends %+v, next %d", out.Send, p.next)
	}
}

// TestWhatAnAcknowledgementShows checks that an acknowledgement moves the stream on, by the entries up
// to Seen, by the range that the peer holds, and by those that it acknowledges.
func TestWhatAnAcknowledgementShows(t *testing.T) {
	for name, c := range map[string]struct {
		ack   Ack
		acked uint64
	}{
		"all that it has seen":                  {Ack{Seen: 3}, 3},
		"what it acknowledges after":            {Ack{Seen: 1, From: 2, To: 3}, 3},
		"a range that it holds":                 {Ack{Seen: 1, Lo: 2, Hi: 3}, 3},
		"a range, and one that it acknowledges": {Ack{Seen: 1, Lo: 3, Hi: 3, From: 2, To: 2}, 2},
		"a range after a gap":                   {Ack{Seen: 1, Lo: 3, Hi: 3}, 1},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		for _, key := range []string{"a", "b", "c"} {
			s.put(key, "e")
		}
		s.pass(s.cfg.BatchEvery)
		c.ack.Epoch = s.members.epoch
		if s.receive(2, &c.ack); s.members.byID[2].acked != c.acked {
			t.Errorf("%s: acknowledged up to %d, want %d", name, s.members.byID[2].acked, c.acked)
		}
	}
}

// TestAnAcknowledgementIsNoAnswerToARead checks that a late acknowledgement of the entry of an update
// does not count for the read that confirms its ops without effect.
func TestAnAcknowledgementIsNoAnswerToARead(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.put("k", "e")
	s.pass(s.cfg.BatchEvery)
	idle := Mutate("k", crdt.KindORSet, 0, func(crdt.Value) crdt.Value { return nil })
	id, _ := s.update(majority, replicator.Fence{}, idle, addTo(1, "l", "e"))
	ack := &Ack{Epoch: s.members.epoch, From: 2, To: 2, Seen: 2}
	if s.receive(2, ack); s.table.open[id].phase != reading {
		t.Fatalf("phase %d", s.table.open[id].phase)
	}
	for _, from := range ids(2, 3) {
		if out := s.receive(from, ack); len(out.Reply) != 0 || len(s.table.open[id].answers) != 0 {
			t.Errorf("an acknowledgement of %v counts: %v", from, s.table.open[id].answers)
		}
	}
	if out := s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{s.store.print("k")}}); len(out.Reply) != 1 || out.Reply[0].Err != nil {
		t.Errorf("replies %+v", out.Reply)
	}
}

// TestAReadAloneEndsInItsStep checks that a read that this node fulfils alone ends in its step, and
// that the values of a local read are copies of those here. Both are counted.
func TestAReadAloneEndsInItsStep(t *testing.T) {
	for n, level := range map[gossip.NodeID]replicator.Level{1: majority, 3: replicator.Local} {
		s := newSingle(t, n, func(c *Config) { c.NoGossip = true })
		s.put("k", "e")
		_, out := s.read(level, replicator.Fence{}, "k", "none")
		if len(out.Reply) != 1 || out.Reply[0].Err != nil || len(out.Reply[0].Values) != 2 || out.Reply[0].Values[1] != nil {
			t.Fatalf("%d members: replies %+v", n, out.Reply)
		}
		v := out.Reply[0].Values[0]
		if v == s.Value("k") || !slices.Equal(elements(v), []string{"e"}) || s.stats.Reads != 1 || len(s.table.open) != 0 {
			t.Errorf("%d members: read %v, counted %d", n, elements(v), s.stats.Reads)
		}
	}
}

// TestAReadShowsWhatIsHere checks that the question of a read has the fingerprints of its keys.
func TestAReadShowsWhatIsHere(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.put("k", "e")
	_, out := s.read(majority, replicator.Fence{}, "none", "k")
	m := sentTo[*ReadRequest](out, 2)
	if len(m) != 1 || !slices.Equal(m[0].Prints, []uint64{0, s.store.print("k")}) || m[0].Prints[1] == 0 {
		t.Errorf("asks %+v", m)
	}
}

// TestARepairThatComesLateChangesNoAnswer checks that a confirmation of a repair does not count while a
// read reads, and does not replace an answer that counts.
func TestARepairThatComesLateChangesNoAnswer(t *testing.T) {
	s, id := newReading(t, replicator.Fence{})
	s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}})
	for _, from := range ids(2, 3) {
		if out := s.receive(from, &RepairAck{Epoch: s.members.epoch + 1, ID: id}); len(out.Reply) != 0 {
			t.Errorf("ends: %+v", out.Reply)
		}
	}
	if out := s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}}); len(out.Reply) != 1 || out.Reply[0].Err != nil {
		t.Errorf("replies %+v, answers %v", out.Reply, s.table.open[id])
	}
}

// TestValuesOfARepairAreCounted checks that a repair is merged, counted and confirmed.
func TestValuesOfARepairAreCounted(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	out := s.receive(2, &Repair{ID: 7, Items: []Item{setItem("k", 2, "e"), setItem("l", 2, "e")}})
	if m := sentTo[*RepairAck](out, 2); len(m) != 1 || m[0].ID != 7 || s.stats.ValuesReceived != 2 || len(out.Changed) != 2 {
		t.Errorf("confirms %+v, counts %d", m, s.stats.ValuesReceived)
	}
}

// TestARepairHasAllThatAReadReturns checks that a read of several keys which repairs one member sends
// the values that this member lacks and those that another one lacked.
func TestARepairHasAllThatAReadReturns(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	s.put("a", "e")
	s.put("b", "e")
	s.pass(s.cfg.BatchEvery)
	id, _ := s.read(majority, replicator.Fence{}, "a", "b")
	s.pass(s.cfg.SpreadMax)
	a, b := s.store.print("a"), s.store.print("b")
	s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{a, b}})
	out := s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0, b}})
	if m := sentTo[*Repair](out, 3); len(m) != 1 || len(m[0].Items) != 1 || m[0].Items[0].Key != "a" {
		t.Errorf("repairs %+v", m)
	}
	out = s.receive(4, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{a, 0}})
	if m := sentTo[*Repair](out, 4); len(m) != 1 || len(m[0].Items) != 2 {
		t.Errorf("repairs %+v", m)
	}
}

// TestAnEraBeginsWithoutAChange checks that an op which begins an era of a key, and changes nothing
// else, is reported and moves the fingerprint.
func TestAnEraBeginsWithoutAChange(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.NoGossip = true })
	s.update(replicator.Local, replicator.Fence{}, stampRegister(1, "v"))
	it := s.store.itemOf(registerKey)
	for era := range uint8(3) {
		print, out := it.print, &Effects{}
		s.out, s.steps = out, s.steps+1
		op := plannedOp{Op: stampRegister(1, "v")}
		none := operation.Plan{Stamped: func(crdt.Value, []uint64, uint64) crdt.Value { return nil }}
		if in := s.writes.applyOne(&op, none, it, Newest{Era: era, Times: []uint64{0}}); in != nil {
			t.Errorf("era %d: writes %+v", era, in)
		}
		if began := era > 0; it.era != era || (it.print != print) != began || slices.Equal(out.Changed, []string{registerKey}) != began {
			t.Errorf("era %d: in %d, changes %v, another fingerprint %v", era, it.era, out.Changed, it.print != print)
		}
		s.out = nil
	}
}

// newLargeRead returns a core that reads a large value at a majority of five. Node 2 holds another
// state of it.
func newLargeRead(t *testing.T) (*single, RequestID) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip, c.PartialMin = true, 100 })
	s.put("k", string(make([]byte, 200)))
	s.pass(s.cfg.BatchEvery)
	id, _ := s.read(majority, replicator.Fence{}, "k")
	return s, id
}

// TestALateAnswerThatWithholdsIsRepaired checks that a member which withholds a large value, and answers
// once a read repairs, is compared with and then sent the parts that it lacks.
func TestALateAnswerThatWithholdsIsRepaired(t *testing.T) {
	s, id := newLargeRead(t)
	s.pass(s.cfg.SpreadMax)
	s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}})
	s.receive(4, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}})
	if s.table.open[id].phase != repairing {
		t.Fatal("does not repair")
	}
	out := s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{8}, Withheld: []int{0}})
	asked := sentTo[*ReadParts](out, 2)
	if len(asked) != 1 || len(receivers[*Repair](out)) != 0 {
		t.Fatalf("sends %+v", out.Send)
	}
	out = s.receive(2, &PartsResult{Epoch: s.members.epoch, ID: id, Differ: []byte{255}})
	if m := sentTo[*Repair](out, 2); len(m) != 1 || len(m[0].Items) != 1 {
		t.Errorf("repairs %+v", out.Send)
	}
}

// TestAComparisonOfAnEarlierRoundIsNotUsed checks that a read which asks anew compares parts anew: the
// member may hold another state now.
func TestAComparisonOfAnEarlierRoundIsNotUsed(t *testing.T) {
	s, id := newLargeRead(t)
	if out := s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{8}, Withheld: []int{0}}); len(sentTo[*ReadParts](out, 2)) != 1 {
		t.Fatalf("sends %+v", out.Send)
	}
	s.receive(2, &PartsResult{Epoch: s.members.epoch, ID: id, Differ: []byte{0}})
	s.out = &Effects{}
	s.requests.askAfterRemoval(s.at)
	s.out = nil
	s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Round: 1, Prints: []uint64{s.store.print("k")}})
	out := s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Round: 1, Prints: []uint64{9}})
	if len(sentTo[*ReadParts](out, 2)) != 1 || len(receivers[*Repair](out)) != 0 {
		t.Errorf("sends %+v", out.Send)
	}
}
