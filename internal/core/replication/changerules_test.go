package replication

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// registerOf is the state of a register that node 2 has written at a time.
func registerOf(at uint64) *crdt.LWWRegister[string] {
	v := &crdt.LWWRegister[string]{}
	v.Set("v", crdt.Stamp{Time: at, Node: 2})
	return v
}

// TestABlindChangeIsMadeOnTheValue checks that a change which does not depend on the value is made on the
// value as it stands, and not on the snapshot on which it was planned: both would give one dot to two
// elements.
func TestABlindChangeIsMadeOnTheValue(t *testing.T) {
	s := newSingle(t, 2, nil)
	s.put("k", "first")
	base := s.Snapshot("k")
	s.put("k", "second")
	out := s.do(Update{ID: 99, Ops: []operation.Op{addTo(1, "k", "third")}, Bases: []*Snapshot{base}, Level: replicator.Local})
	if got := elements(s.Value("k")); out.Reply[0].Err != nil || !slices.Equal(got, []string{"first", "second", "third"}) {
		t.Errorf("%v, and the set has %v, want all three elements", out.Reply[0].Err, got)
	}
}

// TestAWriteIsFencedWhileItAsksForStamps checks that a fenced write fails if a higher term is received
// before the answers to its question for stamps, and that it changes nothing.
func TestAWriteIsFencedWhileItAsksForStamps(t *testing.T) {
	for _, higher := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		id, _ := s.update(majority, replicator.Fence{Group: "g", Term: 7}, stampRegister(1, "v"))
		if higher {
			s.update(replicator.Local, replicator.Fence{Group: "g", Term: 8}, addTo(1, "other", "e"))
		}
		out := s.receive(2, &StampAnswer{Epoch: s.members.epoch, ID: id, Newest: []Newest{{Times: []uint64{7}}}})
		if written := s.Value(registerKey) != nil; written == higher || (len(out.Reply) == 1) != higher {
			t.Errorf("a higher term: %v; written: %v, replies %+v", higher, written, out.Reply)
		}
		if higher && !errors.Is(out.Reply[0].Err, replicator.ErrFenced) {
			t.Errorf("fails with %v, want ErrFenced", out.Reply[0].Err)
		}
	}
}

// TestAWriteLosesToAHigherStampOnly checks that a write with a stamp of its caller's fails if a replica
// holds a higher stamp of the same entry, and not if that stamp is its own.
func TestAWriteLosesToAHigherStampOnly(t *testing.T) {
	mine := crdt.Stamp{Time: 5, Node: 1}
	r := &request{entry: &Entry{Items: []Item{{Key: "k"}}}, fixed: map[string][]operation.Fixed{"k": {{Entry: "e", Stamp: mine}}}}
	for name, c := range map[string]struct {
		refusal Refusal
		fails   bool
	}{
		"a higher stamp":          {Refusal{Entry: "e", Have: crdt.Stamp{Time: 6, Node: 1}}, true},
		"its own stamp":           {Refusal{Entry: "e", Have: mine}, false},
		"a lower stamp":           {Refusal{Entry: "e", Have: crdt.Stamp{Time: 4, Node: 1}}, false},
		"a higher one of another": {Refusal{Entry: "f", Have: crdt.Stamp{Time: 6, Node: 1}}, false},
		"an item that it has not": {Refusal{Item: 1, Entry: "e", Have: crdt.Stamp{Time: 6, Node: 1}}, false},
	} {
		if err := r.overtakenError(&c.refusal, 2); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAChangeIsStaleAgainstAValueOfItsKind checks that a received register is reported as stale if a newer
// one stands in a generation that it joins, and not against a value of another kind or against none.
func TestAChangeIsStaleAgainstAValueOfItsKind(t *testing.T) {
	for name, c := range map[string]struct {
		stands Item
		gen    uint64
		stale  bool
	}{
		"a newer register":                     {Item{Kind: crdt.KindLWWRegister, Bytes: registerOf(9).Append(nil)}, 0, true},
		"a newer one, which an open one joins": {Item{Kind: crdt.KindLWWRegister, Bytes: registerOf(9).Append(nil)}, 7, true},
		"a newer one of a former generation":   {Item{Kind: crdt.KindLWWRegister, Bytes: registerOf(9).Append(nil)}, 2, false},
		"an older register":                    {Item{Kind: crdt.KindLWWRegister, Bytes: registerOf(3).Append(nil)}, 0, false},
		"a set":                                {setItem("k", 2, "e"), 0, false},
		"nothing":                              {Item{}, 0, false},
	} {
		s := newSingle(t, 2, nil)
		from := s.members.byID[2]
		if c.stands.Key = "k"; c.stands.Kind != 0 {
			if err := s.values.mergeItem(from, &c.stands, func(Refusal) {}); err != nil {
				t.Fatal(err)
			}
		}
		var notes []Refusal
		in := Item{Key: "k", Gen: c.gen, Kind: crdt.KindLWWRegister, Bytes: registerOf(5).Append(nil)}
		if err := s.values.mergeItem(from, &in, func(r Refusal) { notes = append(notes, r) }); err != nil {
			t.Fatal(err)
		}
		if (len(notes) == 1) != c.stale || c.stale && notes[0].Have.Time != 9 {
			t.Errorf("over %s: reported %+v, want a report: %v", name, notes, c.stale)
		}
	}
	for _, it := range []*item{nil, {}} {
		staleIn(it, registerOf(5), 0, func(r Refusal) { t.Errorf("%+v is stale against no value", r) })
	}
}

// TestClaimsAboutThisNodeAreBounded checks that a peer's value may show at most claimReserve more changes
// of this node than this node has made, once it has caught up.
func TestClaimsAboutThisNodeAreBounded(t *testing.T) {
	s := newSingle(t, 2, nil)
	s.put("k", "e")
	for seq, want := range map[uint64]bool{s.values.dots + claimReserve: true, s.values.dots + claimReserve + 1: false} {
		fresh := newSingle(t, 2, nil)
		fresh.put("k", "e")
		in := Item{Key: "k", Kind: crdt.KindORSet, Bytes: claim(1, seq)}
		if err := fresh.values.mergeItem(fresh.members.byID[2], &in, func(Refusal) {}); (err == nil) != want {
			t.Errorf("%d changes are claimed after 1: %v, want accepted: %v", seq, err, want)
		}
	}
}

// TestTombstonesReplaceWhatTheyEnd checks that a delta in the own log gets the newer tombstones of its
// entries, also if other entries of the delta have none.
func TestTombstonesReplaceWhatTheyEnd(t *testing.T) {
	s := newSingle(t, 2, nil)
	here, _ := crdt.New(crdt.KindLWWMap)
	here.(*entryMap).Delete("gone", crdt.Stamp{Time: 9, Node: 1})
	in := Item{Key: "m", Kind: crdt.KindLWWMap, Bytes: here.Append(nil)}
	if err := s.values.mergeItem(s.members.byID[2], &in, func(Refusal) {}); err != nil {
		t.Fatal(err)
	}
	delta, _ := crdt.New(crdt.KindLWWMap)
	delta.(*entryMap).Set("gone", "v", crdt.Stamp{Time: 5, Node: 1})
	for i := range 20 {
		delta.(*entryMap).Set(fmt.Sprint("new", i), "v", crdt.Stamp{Time: 5, Node: 1})
	}
	in = s.pruner.replaceOvertaken(Item{Key: "m", Kind: crdt.KindLWWMap, Bytes: delta.Append(nil)}, &Drop{Key: "m", Kind: crdt.KindLWWMap})
	v, err := crdt.Decode(in.Kind, in.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, live := v.(*entryMap).Get("gone"); live || v.(*entryMap).Len() != 20 {
		t.Errorf("the ended entry lives: %v, and %d entries live, want 20 others", live, v.(*entryMap).Len())
	}
}

// TestAComparisonOfPartsReplacesTheFormerOne checks that a read which compares the parts of a value with a
// member again keeps the newest comparison alone.
func TestAComparisonOfPartsReplacesTheFormerOne(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.PartialMin, c.NoGossip = 1, true })
	for i := range 50 {
		s.put("k", fmt.Sprint("element", i))
	}
	id, _ := s.read(majority, replicator.Fence{}, "k")
	r, p := s.table.open[id], s.members.byID[2]
	s.out = &Effects{}
	if !s.reads.compareParts(p, r, 0) {
		t.Fatal("the value is not compared in parts")
	}
	former := r.exchangeWith(2, 0)
	former.answered = true
	if !s.reads.compareParts(p, r, 0) || len(r.exchanges) != 1 || r.exchangeWith(2, 0) == former {
		t.Errorf("%d comparisons, the first answered: %v; want one without an answer", len(r.exchanges), r.exchangeWith(2, 0).answered)
	}
	second := &exchange{peer: 2, index: 1}
	if r.exchanges = append(r.exchanges, second); r.exchangeWith(2, 1) != second || r.exchangeWith(3, 0) != nil {
		t.Error("the comparison of another key, or with another member, is found")
	}
	if s.cfg.PartialMin = 1 << 20; s.reads.compareParts(p, r, 0) {
		t.Error("a value that is no longer large is compared in parts")
	}
}

// TestAQuestionForSeveralKeysFetchesAll checks that only a question for one key asks for the parts that
// differ: of several keys, one may have grown since the question was first asked.
func TestAQuestionForSeveralKeysFetchesAll(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.PartialMin = 1 })
	for i := range 50 {
		s.put("large", fmt.Sprint("element", i))
	}
	for n, want := range map[int][2]int{1: {1, 0}, 2: {0, 1}} {
		s.sessions.current, s.out = session{peer: 2, id: 4}, &Effects{}
		s.sessions.openQuestion(s.at, ask{peer: 2, own: true, keys: []wanted{{key: "large"}, {key: "small"}}[:n]})
		fetches := sentTo[*Fetch](s.out, 2)
		if got := [2]int{len(sentTo[*FetchParts](s.out, 2)), len(fetches)}; got != want || len(fetches) == 1 && !slices.Equal(fetches[0].Keys, []string{"large", "small"}) {
			t.Errorf("%d keys: sends %+v", n, s.out.Send)
		}
	}
}

// TestARequestTriesAgainWithoutNews checks that a request that waits for the lease alone looks for it once
// each ResendAfter until its deadline, also if no event reports the lease.
func TestARequestTriesAgainWithoutNews(t *testing.T) {
	valid, looks := false, 0
	s := newSingle(t, 3, func(c *Config) {
		c.NoGossip, c.LeaseValid = true, func() bool { looks++; return valid }
	})
	id, _ := s.update(majority, replicator.Fence{}, addTo(1, "k", "e"))
	s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1})
	began := s.at
	looks = 0
	for s.Deadline() <= began.Add(10*s.cfg.ResendAfter) {
		s.at = s.Deadline()
		if out := s.do(Tick{}); len(out.Reply) != 0 || s.table.open[id] == nil {
			t.Fatalf("ends without a lease: %+v", out.Reply)
		}
	}
	if looks != 10 {
		t.Errorf("looked for the lease %d times in ten times ResendAfter", looks)
	}
	valid = true
	for s.Deadline() < began.Add(11*s.cfg.ResendAfter) {
		s.at = s.Deadline()
		if out := s.do(Tick{}); len(out.Reply) != 0 {
			t.Errorf("looks for the lease before ResendAfter is over: %+v", out.Reply)
		}
	}
	s.at = began.Add(11 * s.cfg.ResendAfter)
	if out := s.do(Tick{}); len(out.Reply) != 1 || out.Reply[0].Err != nil {
		t.Errorf("replies %+v, want success at the next look", out.Reply)
	}
}

// TestAnItemIsNotLargerThanItsEstimate checks that the estimate of an item's size is at least the length
// of its encoding.
func TestAnItemIsNotLargerThanItsEstimate(t *testing.T) {
	none := len(appendItems(nil, nil))
	for _, in := range []Item{{Key: "k"}, {Key: "k", Gen: 2}, setItem("key", 2, "element"), {Key: "k", Gen: 1 << 30, Kind: crdt.KindORSet, Bytes: make([]byte, 1000)}} {
		if n := len(appendItems(nil, []Item{in})) - none; in.encodedSize() < n {
			t.Errorf("key %q, generation %d, %d bytes: encoded in %d, estimated as %d", in.Key, in.Gen, len(in.Bytes), n, in.encodedSize())
		}
	}
}

// TestOnlyAheadEntriesAreLeftOut checks that a received map keeps its entries whose stamps are not ahead of
// the clocks, although the others are refused.
func TestOnlyAheadEntriesAreLeftOut(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.Wall = func() uint64 { return noon } })
	v, _ := crdt.New(crdt.KindLWWMap)
	v.(*entryMap).Set("present", "v", crdt.Stamp{Time: noon << tickBits, Node: 2})
	v.(*entryMap).Set("ahead", "v", crdt.Stamp{Time: (noon + millis(aheadMax) + 1) << tickBits, Node: 2})
	err := s.values.mergeItem(s.members.byID[2], &Item{Key: "m", Kind: crdt.KindLWWMap, Bytes: v.Append(nil)}, func(Refusal) {})
	if !errors.Is(err, replicator.ErrAhead) {
		t.Errorf("%v, want ErrAhead", err)
	}
	m, ok := s.Value("m").(*entryMap)
	if !ok {
		t.Fatal("no entry is kept")
	}
	_, present := m.Get("present")
	if _, ahead := m.Get("ahead"); !present || ahead {
		t.Errorf("keeps the entry of the present: %v, and the one ahead: %v", present, ahead)
	}
}

// TestForgottenStampsAreJudgedByTheFirstClock checks that the first clock of a member lowers what this node believes of
// forgotten stamps, if these are ahead of it, and leaves them otherwise.
func TestForgottenStampsAreJudgedByTheFirstClock(t *testing.T) {
	far, near := (noon+2*millis(aheadMax))<<tickBits, noon<<tickBits
	for name, c := range map[string]struct{ forgotten, inherited, filed, wantForgotten, wantInherited uint64 }{
		"ahead":                   {far, far, 0, near, near},
		"ahead, little inherited": {far, 5, 0, near, 5},
		"ahead, but filed":        {far, far, near + 9, near + 9, near + 9},
		"not ahead":               {near + 7, near + 7, 0, near + 7, near + 7},
	} {
		s := newSingle(t, 3, func(c *Config) { c.Wall = func() uint64 { return noon } })
		for _, p := range s.members.peers {
			s.clocks.noteClock(p, noon)
		}
		s.barrier.maxForgottenStamp, s.barrier.inherited, s.barrier.filed = c.forgotten, c.inherited, c.filed
		s.out = &Effects{}
		if s.writes.judgeOwn(); s.barrier.maxForgottenStamp != c.wantForgotten || s.barrier.inherited != c.wantInherited {
			t.Errorf("%s: %d and %d, want %d and %d", name, s.barrier.maxForgottenStamp, s.barrier.inherited, c.wantForgotten, c.wantInherited)
		}
	}
}

// TestADurableReplyRestsOnTheDiskAlone checks that only the reply of a durable request waits for the disk,
// and not the messages of later requests.
func TestADurableReplyRestsOnTheDiskAlone(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Keep = true, func(key string) bool { return key == "kept" } })
	s.update(majority, replicator.Fence{}, addTo(1, "kept", "e"))
	out := s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1})
	if len(out.Reply) != 1 || out.Reply[0].Err != nil || !out.Reply[0].Disk {
		t.Fatalf("replies %+v, want one that waits for the disk", out.Reply)
	}
	_, out = s.read(majority, replicator.Fence{}, "other")
	for _, m := range out.Send {
		if m.Disk {
			t.Errorf("%T to %v waits for the disk", m.Msg, m.To)
		}
	}
}

// TestQuestionsFillTheCredit checks that the bytes in flight may be as many as RoundBytes, and that a single
// question may exceed them. A replica that has caught up counts what it has received in the round.
func TestQuestionsFillTheCredit(t *testing.T) {
	for _, caughtUp := range []bool{false, true} {
		s := newSingle(t, 2, func(c *Config) { c.Limits.RoundBytes = 1000 })
		if !caughtUp {
			s.members.caughtUp = 0
		}
		for _, c := range []struct {
			inFlight, received, more int
			want, wantCaughtUp       bool
		}{
			{0, 0, 1001, true, true}, {600, 0, 400, true, true}, {600, 0, 401, false, false}, {0, 600, 400, true, true}, {0, 600, 401, true, false}, {300, 300, 401, true, false},
		} {
			s.sessions.current = session{peer: 2, credit: c.inFlight, bytes: c.received}
			want := c.want
			if caughtUp {
				want = c.wantCaughtUp
			}
			if got := s.sessions.hasCredit(c.more); got != want {
				t.Errorf("caught up: %v, %+v: %v", caughtUp, c, got)
			}
		}
	}
}

// TestQuestionsAreAskedAnewWithoutKeptSets checks that majority reads and questions for stamps begin another
// round when kept sets are dropped, and that writes and requests of other levels go on.
func TestQuestionsAreAskedAnewWithoutKeptSets(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	begin := map[string]func() (RequestID, *Effects){
		"a majority read":       func() (RequestID, *Effects) { return s.read(majority, replicator.Fence{}, "k") },
		"a read of two":         func() (RequestID, *Effects) { return s.read(replicator.To(2), replicator.Fence{}, "k") },
		"a question for stamps": func() (RequestID, *Effects) { return s.update(majority, replicator.Fence{}, stampRegister(1, "v")) },
		"a majority write":      func() (RequestID, *Effects) { return s.update(majority, replicator.Fence{}, addTo(1, "k", "e")) },
	}
	rounds := map[string]uint64{"a majority read": 1, "a question for stamps": 1}
	ids := map[string]RequestID{}
	for name, start := range begin {
		ids[name], _ = start()
	}
	s.out = &Effects{}
	s.requests.askAgain(s.at)
	for name, id := range ids {
		if r := s.table.open[id]; r.round != rounds[name] {
			t.Errorf("%s is in round %d, want %d", name, r.round, rounds[name])
		}
	}
}

// TestASnapshotOfAnotherKindIsNotMerged checks that a change is not applied to a snapshot if the key has been
// written since, or if a value of another kind stands.
func TestASnapshotOfAnotherKindIsNotMerged(t *testing.T) {
	set, register := &crdt.ORSet[string]{}, registerOf(5)
	base := &Snapshot{Value: set, written: 3}
	for name, c := range map[string]struct {
		base *Snapshot
		it   *item
		want bool
	}{
		"merged changes alone":  {base, &item{value: set, written: 3}, true},
		"a change of this node": {base, &item{value: set, written: 4}, false},
		"another kind":          {base, &item{value: register, written: 3}, false},
		"deleted":               {base, &item{written: 3}, false},
		"no key":                {base, nil, false},
		"no value when planned": {&Snapshot{written: 3}, &item{value: set, written: 3}, false},
	} {
		if got := c.base.onlyMerged(c.it); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
