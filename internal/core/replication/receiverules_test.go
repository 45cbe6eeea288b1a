package replication

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// TestAnAcknowledgementRestsOnTheDisk checks that the acknowledgement of entries rests on the disk if
// any of them has a durable key, and refuses the entries of durable keys while the disk fails.
func TestAnAcknowledgementRestsOnTheDisk(t *testing.T) {
	kept, other := &Entry{Items: []Item{setItem("kept", 2, "e")}}, &Entry{Items: []Item{setItem("other", 2, "e")}}
	for name, c := range map[string]struct {
		entries []*Entry
		disk    bool
		refused []uint64
	}{
		"a durable key":      {[]*Entry{kept}, true, []uint64{1}},
		"another":            {[]*Entry{other}, false, nil},
		"both":               {[]*Entry{other, kept}, true, []uint64{2}},
		"both, the other as": {[]*Entry{kept, other}, true, []uint64{1}},
	} {
		for _, failing := range []bool{false, true} {
			s := newSingle(t, 2, func(c *Config) { c.Keep = func(key string) bool { return key == "kept" } })
			want := []uint64(nil)
			if failing {
				s.stream.disk.failure, want = errors.New("full"), c.refused
			}
			out := s.receive(2, &Deltas{Epoch: s.members.epoch, From: 1, Entries: c.entries})
			acks := sentTo[*Ack](out, 2)
			if len(acks) != 1 || out.Send[0].Disk != c.disk {
				t.Fatalf("%s: sends %+v", name, out.Send)
			}
			var refused []uint64
			for _, r := range acks[0].Refused {
				refused = append(refused, r.Seq)
			}
			if !slices.Equal(refused, want) || acks[0].Seen != uint64(len(c.entries)) {
				t.Errorf("%s, failing %v: refuses %v, has seen %d", name, failing, refused, acks[0].Seen)
			}
		}
	}
}

// TestDeltasWithoutEntriesAreNoGap checks that a message without entries, which a peer sends to learn
// what was applied, is acknowledged and opens no gap.
func TestDeltasWithoutEntriesAreNoGap(t *testing.T) {
	s := newSingle(t, 2, nil)
	s.receive(2, &Deltas{Epoch: s.members.epoch, From: 1, Entries: []*Entry{{Items: []Item{setItem("k", 2, "e")}}}})
	acks := sentTo[*Ack](s.receive(2, &Deltas{Epoch: s.members.epoch, From: 9}), 2)
	if len(acks) != 1 || acks[0].Seen != 1 || acks[0].Lo != 0 || s.stats.Gaps != 0 {
		t.Errorf("acknowledges with %+v, %d gaps", acks, s.stats.Gaps)
	}
}

// TestAStampThatIsAheadIsRefusedToItsWriter checks that an item with a stamp ahead of the clocks is
// counted and traced as such, and that the refusal names the item, its time and the clock here.
func TestAStampThatIsAheadIsRefusedToItsWriter(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.Wall = func() uint64 { return noon } })
	register := func(key string, ms uint64) Item {
		v := &crdt.LWWRegister[string]{}
		v.Set("v", crdt.Stamp{Time: ms<<tickBits | 1, Node: 2})
		return Item{Key: key, Kind: crdt.KindLWWRegister, Bytes: v.Append(nil)}
	}
	most := noon + millis(aheadMax)
	before := s.stats
	out := s.receive(2, &Deltas{Epoch: s.members.epoch, From: 1, Entries: []*Entry{{Items: []Item{register("a", most), register("b", most+1)}}}})
	acks := sentTo[*Ack](out, 2)
	if len(acks) != 1 || len(acks[0].Refused) == 0 {
		t.Fatalf("sends %+v", out.Send)
	}
	if r := acks[0].Refused[0]; r.Why != whyAhead || r.Seq != 1 || r.Item != 1 || r.Have.Time != (most+1)<<tickBits || r.Wall != noon {
		t.Errorf("refuses with %+v", r)
	}
	if s.stats.Ahead != before.Ahead+1 || s.stats.Refused != before.Refused || s.Value("a") == nil || s.Value("b") != nil {
		t.Errorf("counts %d ahead, %d refused", s.stats.Ahead-before.Ahead, s.stats.Refused-before.Refused)
	}
	if !slices.ContainsFunc(out.Trace, func(e TraceEvent) bool { return e.Kind == TraceAhead && e.Key == "b" && e.Peer == 2 }) {
		t.Errorf("traces %+v", out.Trace)
	}
}

// TestAStaleItemIsNamedByItsNumber checks that the refusal of an older stamp names its item of the entry.
func TestAStaleItemIsNamedByItsNumber(t *testing.T) {
	s := newSingle(t, 2, nil)
	s.update(replicator.Local, replicator.Fence{}, fixedIn("b", "new", crdt.Stamp{Time: 9 << tickBits, Node: 1}))
	v := &crdt.LWWRegister[string]{}
	v.Set("old", crdt.Stamp{Time: 5 << tickBits, Node: 2})
	items := []Item{setItem("a", 2, "e"), {Key: "b", Kind: crdt.KindLWWRegister, Bytes: v.Append(nil)}}
	acks := sentTo[*Ack](s.receive(2, &Deltas{Epoch: s.members.epoch, From: 1, Entries: []*Entry{{Items: items}}}), 2)
	if len(acks) != 1 || len(acks[0].Refused) != 1 || acks[0].Refused[0].Item != 1 || acks[0].Refused[0].Why != whyStale {
		t.Errorf("acknowledges with %+v", acks)
	}
}

// TestNothingReceivedLeavesAReplicaEmpty checks that a replica which has received no item still counts as
// empty, and that the first item ends that.
func TestNothingReceivedLeavesAReplicaEmpty(t *testing.T) {
	s := newSingle(t, 2, nil)
	s.barrier.empty = true
	if s.values.mergeItems(s.members.byID[2], nil); !s.barrier.empty {
		t.Error("no items end it")
	}
	if s.values.mergeItems(s.members.byID[2], []Item{setItem("k", 2, "e")}); s.barrier.empty {
		t.Error("an item does not end it")
	}
	if s.values.mergeItems(s.members.byID[2], nil); s.barrier.empty {
		t.Error("no items make it empty again")
	}
}

// TestAFetchIsAnsweredUpToItsCredit checks that an answer has at least one value, and then as many as the
// asker's credit and the frame have room for. Keys that do not exist take no room.
func TestAFetchIsAnsweredUpToItsCredit(t *testing.T) {
	large := strings.Repeat("x", 500)
	s := newSingle(t, 2, nil)
	for _, key := range []string{"a", "b", "c"} {
		s.put(key, large)
	}
	one := full(s.store.itemOf("a"))
	// The second value is sent if the first one and its bound fit.
	two := one.encodedSize() + s.store.itemOf("b").bytes + len("b") + 12
	for name, c := range map[string]struct {
		keys            []string
		credit, frame   int
		answered, items int
	}{
		"no credit":            {[]string{"a", "b", "c"}, 0, 1 << 20, 1, 1},
		"room for one":         {[]string{"a", "b", "c"}, two - 1, 1 << 20, 1, 1},
		"room for two":         {[]string{"a", "b", "c"}, two, 1 << 20, 2, 2},
		"a frame for one":      {[]string{"a", "b", "c"}, 1 << 20, two - 1, 1, 1},
		"a frame for two":      {[]string{"a", "b", "c"}, 1 << 20, two + 100, 2, 2},
		"keys without a value": {[]string{"none", "a", "none", "none", "b"}, one.encodedSize(), 1 << 20, 4, 1},
	} {
		s.cfg.Limits.FrameBytes = c.frame
		before, out := s.stats.ValuesSent, &Effects{}
		s.out = out
		s.sessions.onFetch(s.members.byID[2], &Fetch{Session: 3, Ask: 4, Keys: c.keys, Credit: c.credit})
		all := sentTo[*Values](out, 2)
		if len(all) != 1 || all[0].Answered != c.answered || len(all[0].Items) != c.items || all[0].Session != 3 || all[0].Ask != 4 {
			t.Errorf("%s: answers %+v", name, all)
		}
		if s.stats.ValuesSent != before+uint64(c.items) {
			t.Errorf("%s: counts %d values", name, s.stats.ValuesSent-before)
		}
	}
}

// TestAPackedMessageIsBoundedBeforeItIsInflated checks that at most packRawMax is inflated, also if
// the packed bytes could hold as much.
func TestAPackedMessageIsBoundedBeforeItIsInflated(t *testing.T) {
	var k packer
	if _, err := k.unpack(&Packed{Of: tagRepair, Raw: packRawMax + 1, Data: make([]byte, packRawMax/packRatioMax+1)}); !errors.Is(err, ErrPacked) || k.r != nil {
		t.Errorf("%v, inflates %v", err, k.r != nil)
	}
}

// TestACommitRewritesTheEntriesOfOpenWrites checks that a write in flight goes on with the entry that the
// own log then has, and that a write which has ended keeps its entry.
func TestACommitRewritesTheEntriesOfOpenWrites(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.update(majority, replicator.Fence{}, addTo(1, "k", "e"))
	s.update(majority, replicator.Fence{}, addTo(1, "l", "e"))
	open, ended := s.table.writes[0], s.table.writes[1]
	ended.done = true
	was := ended.entry
	s.pruner.rewriteLog(map[string]*Drop{"k": {Key: "k", Gen: 1}, "l": {Key: "l", Gen: 1}})
	if open.entry != s.stream.log.entries[0] || len(open.entry.Items) != 0 {
		t.Errorf("the open write goes on with %+v", open.entry)
	}
	if ended.entry != was || len(was.Items) != 1 {
		t.Errorf("the write that has ended has %+v", ended.entry)
	}
}

// TestARepairHasTheValuesThatSomeMemberLacks checks that a majority read sends no value that all members
// which answered hold, and none that does not exist.
func TestARepairHasTheValuesThatSomeMemberLacks(t *testing.T) {
	s := newSingle(t, 3, nil)
	s.put("equal", "e")
	s.put("stale", "e")
	keys := []string{"equal", "stale", "none"}
	prints := []uint64{s.store.print("equal"), s.store.print("stale"), 0}
	r := &request{keys: keys, prints: prints, held: map[gossip.NodeID][]uint64{2: prints, 3: {prints[0], 7, 7}}}
	if out := s.reads.repairsFor(r); len(out) != 1 || out[0].Key != "stale" {
		t.Errorf("repairs %+v", out)
	}
}

// TestAComparisonIsAnsweredOnce checks that a second answer about the parts of a value changes nothing.
func TestAComparisonIsAnsweredOnce(t *testing.T) {
	s, id := newReading(t, replicator.Fence{})
	r := s.table.open[id]
	x := &exchange{peer: 2, index: 0}
	r.exchanges = append(r.exchanges, x)
	s.receive(2, &PartsResult{Epoch: s.members.epoch, ID: id, Round: r.round, Index: 0, Differ: []byte{1}})
	s.receive(2, &PartsResult{Epoch: s.members.epoch, ID: id, Round: r.round, Index: 0, Differ: []byte{2}})
	if !x.answered || !slices.Equal(x.differ, []byte{1}) {
		t.Errorf("answered %v, differs in %v", x.answered, x.differ)
	}
}

// TestTimesOfTheFirstEraAreThoseOfTheValue checks that the floor of later eras does not hold in the first.
func TestTimesOfTheFirstEraAreThoseOfTheValue(t *testing.T) {
	e, ms := newParts(Config{}, 1)
	vs := newValues(e, ms)
	v := &crdt.LWWRegister[string]{}
	v.Set("v", crdt.Stamp{Time: 5, Node: 1})
	if got := vs.newestTime(&item{value: v}, ""); got != 5 {
		t.Errorf("in the first era the newest time is %d", got)
	}
	if got := vs.newestTime(&item{value: v, era: 1}, ""); got != eraTimes {
		t.Errorf("in the second era the newest time is %d", got)
	}
}

// TestAnUpdateThatChangesNothingEnds checks that an update without operations, and one that returns a nil
// pointer as its change, end immediately and send nothing.
func TestAnUpdateThatChangesNothingEnds(t *testing.T) {
	none := Mutate("k", crdt.KindORSet, 9, func(crdt.Value) crdt.Value { return (*crdt.ORSet[string])(nil) })
	for name, ops := range map[string][]operation.Op{"no operation": nil, "a nil pointer": {none}} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		level := majority
		if ops != nil {
			level = replicator.Local
		}
		_, out := s.update(level, replicator.Fence{}, ops...)
		if len(out.Reply) != 1 || out.Reply[0].Err != nil || len(out.Send) != 0 || len(out.Changed) != 0 || len(s.table.open) != 0 {
			t.Errorf("%s: replies %+v, sends %+v, changes %v", name, out.Reply, out.Send, out.Changed)
		}
	}
}

// TestAPeerBehindIsSentTheCommitWhateverItsSweep checks that the floors are compared before the sweeps: a
// peer at a lower floor gets the commit that it lacks, and one at a higher floor is asked for it.
func TestAPeerBehindIsSentTheCommitWhateverItsSweep(t *testing.T) {
	for _, sweep := range []uint64{5, 7} {
		for floor, want := range map[uint64][2]int{3: {1, 0}, 5: {0, 1}} {
			s := newSingle(t, 2, nil)
			s.barrier.floor, s.barrier.sweep, s.out = 4, 6, &Effects{}
			accepts := s.antiEntropy.checkPruneFloor(s.members.byID[2], floor, sweep)
			status := sentTo[*Status](s.out, 2)
			if got := [2]int{len(sentTo[*Commit](s.out, 2)), len(status)}; accepts || got != want || len(status) > 0 && status[0].Reply {
				t.Errorf("floor %d, sweep %d: accepts %v, sends %+v", floor, sweep, accepts, s.out.Send)
			}
		}
	}
}
