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
