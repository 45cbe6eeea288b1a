package replication

import (
	"errors"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// TestAReadIsAnsweredWithWhatDiffers checks that an answer has the fingerprints of all keys, the values
// that differ, and the numbers of large values that the asker holds in another state.
func TestAReadIsAnsweredWithWhatDiffers(t *testing.T) {
	for _, durable := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) {
			c.PartialMin = 200
			c.Keep = func(key string) bool { return durable && key == "small" }
		})
		for _, key := range []string{"equal", "small", "large", "largeHere"} {
			s.put(key, "e")
		}
		for _, key := range []string{"large", "largeHere"} {
			s.put(key, string(make([]byte, 300)))
		}
		m := &ReadRequest{Epoch: s.members.epoch, ID: 9, Round: 4, Keys: []string{"equal", "none", "small", "large", "largeHere"}, Prints: []uint64{s.store.print("equal"), 8, 8, 8, 8}, Large: []int{2, 3}}
		before := s.stats.ValuesSent
		out := s.receive(2, m)
		all := sentTo[*ReadResult](out, 2)
		if len(all) != 1 || out.Send[0].Disk != durable {
			t.Fatalf("durable %v: answers %+v", durable, out.Send)
		}
		r := all[0]
		for i, key := range m.Keys {
			if r.Prints[i] != s.store.print(key) {
				t.Errorf("%s: fingerprint %d", key, r.Prints[i])
			}
		}
		if len(r.Items) != 2 || r.Items[0].Key != "small" || r.Items[1].Key != "largeHere" || !slices.Equal(r.Withheld, []int{3}) || s.stats.ValuesSent != before+2 {
			t.Errorf("sends %d values, withholds %v, counts %d", len(r.Items), r.Withheld, s.stats.ValuesSent-before)
		}
		if r.ID != 9 || r.Round != 4 || r.Epoch != s.members.epoch || r.Higher != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestAFencedReadIsRefusedOrHeld checks that a fenced read is refused with the higher term, or held until
// its view is adopted.
func TestAFencedReadIsRefusedOrHeld(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.Epochs = true })
	own := s.members.epoch
	s.fences.raise(replicator.Fence{Group: "g", Term: 7})
	refused := sentTo[*ReadResult](s.receive(2, &ReadRequest{Epoch: own, ID: 9, Fence: replicator.Fence{Group: "g", Term: 6}, Keys: []string{"k"}, Prints: []uint64{8}}), 2)
	if len(refused) != 1 || refused[0].Higher != 7 || refused[0].Prints != nil {
		t.Errorf("refused with %+v", refused)
	}
	early := &ReadRequest{Epoch: own + 1, ID: 9, Fence: replicator.Fence{Group: "g", Term: uint64(own) + 1}, Keys: []string{"k"}, Prints: []uint64{8}}
	if out := s.receive(2, early); len(out.Send) != 0 || len(s.reads.held) != 1 {
		t.Errorf("a read of the next view: sent %v, %d held", out.Send, len(s.reads.held))
	}
	v := *s.members.view
	v.Epoch++
	if out := s.do(ViewChanged{View: &v}); len(sentTo[*ReadResult](out, 2)) != 1 || len(s.reads.held) != 0 {
		t.Errorf("in that view: %d answers, %d held", len(sentTo[*ReadResult](out, 2)), len(s.reads.held))
	}
}

// newReading returns a core that reads k at a majority of five; nodes 2 and 3 have been asked.
func newReading(t *testing.T, f replicator.Fence) (*single, RequestID) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	id, _ := s.read(majority, f, "k")
	return s, id
}

// TestAnswersToAReadThatCount checks that an answer counts if its node was asked, in the round of the
// read, and if it has a fingerprint for each key and values that can be applied.
func TestAnswersToAReadThatCount(t *testing.T) {
	f := replicator.Fence{Group: "g", Term: 7}
	far := uint64(gossip.FirstEpoch(1 + gossip.GenerationsAhead + 1))
	for name, c := range map[string]struct {
		fence  replicator.Fence
		from   gossip.NodeID
		edit   func(*ReadResult)
		counts bool
		fenced bool
	}{
		"in order":                 {from: 2, edit: func(*ReadResult) {}, counts: true},
		"fenced, in order":         {fence: f, from: 2, edit: func(*ReadResult) {}, counts: true},
		"of another request":       {from: 2, edit: func(m *ReadResult) { m.ID++ }},
		"of a node that was not":   {from: 4, edit: func(*ReadResult) {}},
		"of another round":         {from: 2, edit: func(m *ReadResult) { m.Round++ }},
		"too many fingerprints":    {from: 2, edit: func(m *ReadResult) { m.Prints = []uint64{0, 0} }},
		"no fingerprint":           {from: 2, edit: func(m *ReadResult) { m.Prints = nil }},
		"a value that is nonsense": {from: 2, edit: func(m *ReadResult) { m.Items = []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: []byte("x")}} }},
		"withholds what is not":    {from: 2, edit: func(m *ReadResult) { m.Withheld = []int{1} }},
		"withholds what is equal":  {from: 2, edit: func(m *ReadResult) { m.Withheld = []int{0} }, counts: true},
		"the same term":            {fence: f, from: 2, edit: func(m *ReadResult) { m.Higher = 7 }, counts: true},
		"a higher term":            {fence: f, from: 2, edit: func(m *ReadResult) { m.Higher = 8 }, fenced: true},
		"a far term":               {fence: f, from: 2, edit: func(m *ReadResult) { m.Higher = far }},
		"unfenced, a term":         {from: 2, edit: func(m *ReadResult) { m.Higher = 8 }, counts: true},
		"unfenced, a far term":     {from: 2, edit: func(m *ReadResult) { m.Higher = far }, counts: true},
	} {
		s, id := newReading(t, c.fence)
		m := &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}}
		c.edit(m)
		out := s.receive(c.from, m)
		if s.stats.ValuesReceived != uint64(len(m.Items)) {
			t.Errorf("%s: counts %d values", name, s.stats.ValuesReceived)
		}
		if fenced := len(out.Reply) == 1 && errors.Is(out.Reply[0].Err, replicator.ErrFenced); fenced != c.fenced || fenced && s.Term("g") != 8 {
			t.Errorf("%s: replies %+v, term %d", name, out.Reply, s.Term("g"))
		}
		if c.fenced {
			continue
		}
		if _, counted := s.table.open[id].answers[c.from]; counted != c.counts {
			t.Errorf("%s: counts %v", name, counted)
		}
		out = s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}})
		if (len(out.Reply) == 1) != c.counts {
			t.Errorf("%s: ends with the next answer: %v", name, len(out.Reply) == 1)
		}
	}
}

// TestAReadRepairsAndCountsLateAnswers checks that a read with enough answers also counts late answers of
// any round that hold its values. It sends the values to the remaining nodes.
func TestAReadRepairsAndCountsLateAnswers(t *testing.T) {
	s, id := newReading(t, replicator.Fence{})
	s.pass(s.cfg.SpreadMax)
	item := setItem("k", 9, "e")
	answer := func(from gossip.NodeID, round uint64, print uint64, items ...Item) *Effects {
		return s.receive(from, &ReadResult{Epoch: s.members.epoch, ID: id, Round: round, Prints: []uint64{print}, Items: items})
	}
	answer(2, 0, 1, item)
	if got := receivers[*Repair](answer(3, 0, 0)); !slices.Equal(got, ids(2, 3)) || s.stats.Repairs != 2 {
		t.Fatalf("repairs %v, counts %d", got, s.stats.Repairs)
	}
	if out := answer(3, 0, s.store.print("k")); len(out.Reply)+len(out.Send) != 0 || s.table.open[id].held[3][0] != 0 {
		t.Errorf("an answer given twice: %+v", out)
	}
	if out := s.receive(5, &RepairAck{Epoch: s.members.epoch, ID: id}); len(out.Reply) != 0 || len(s.table.open[id].answers) != 0 {
		t.Error("a node that has not answered confirms a repair")
	}
	if out := s.receive(2, &RepairAck{Epoch: s.members.epoch, ID: id}); len(out.Reply) != 0 {
		t.Error("ends with two of five")
	}
	out := answer(4, 6, s.store.print("k"))
	if len(out.Reply) != 1 || out.Reply[0].Err != nil || !slices.Equal(elements(out.Reply[0].Values[0]), []string{"e"}) {
		t.Errorf("replies %+v", out.Reply)
	}
}

// TestResultsOfReadsDontMoveWrites checks that a write waits for stamps, then for acknowledgements.
func TestResultsOfReadsDontMoveWrites(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	id, _ := s.update(majority, replicator.Fence{}, stampRegister(1, "v"))
	for range 2 {
		for _, from := range ids(2, 3) {
			if out := s.receive(from, &ReadResult{Epoch: s.members.epoch, ID: id}); len(out.Reply)+len(out.Send) != 0 || len(s.table.open[id].answers) != 0 {
				t.Errorf("phase %d: %+v", s.table.open[id].phase, out)
			}
		}
		for _, from := range ids(2, 3) {
			s.receive(from, &StampAnswer{Epoch: s.members.epoch, ID: id, Newest: []Newest{{Times: []uint64{7}}}})
		}
	}
	if r := s.table.open[id]; r.phase != writing {
		t.Errorf("phase %d", r.phase)
	}
}

// TestPartsOfValuesThatCannotBeCompared checks that no parts are returned of a deleted value, of a value
// of another generation or kind, or for too many parts.
func TestPartsOfValuesThatCannotBeCompared(t *testing.T) {
	v, _ := crdt.New(crdt.KindORSet)
	v.(*crdt.ORSet[string]).Add(1, "e")
	here := func() *item { return &item{key: "k", gen: 3, value: v} }
	grain := v.(partialValue).Grain()
	ask := func(edit func(*FetchParts)) *FetchParts {
		m := &FetchParts{Key: "k", Gen: 3, Kind: crdt.KindORSet, Grain: grain, Sums: make([]uint64, 8)}
		edit(m)
		return m
	}
	for name, c := range map[string]struct {
		it    *item
		m     *FetchParts
		parts int
	}{
		"comparable":         {here(), ask(func(*FetchParts) {}), 8},
		"as many as may be":  {here(), ask(func(m *FetchParts) { m.Sums = make([]uint64, partsMax) }), partsMax},
		"more":               {here(), ask(func(m *FetchParts) { m.Sums = make([]uint64, partsMax+1) }), 0},
		"none":               {here(), ask(func(m *FetchParts) { m.Sums = nil }), 0},
		"another generation": {here(), ask(func(m *FetchParts) { m.Gen = 2 }), 0},
		"another kind":       {here(), ask(func(m *FetchParts) { m.Kind = crdt.KindGSet }), 0},
		"deleted":            {&item{key: "k", gen: 3}, ask(func(m *FetchParts) { m.Kind = 0 }), 0},
	} {
		in, differ := partsBeyond(c.it, c.m)
		if (in != nil) != (c.parts > 0) || len(differ) != (c.parts+7)/8 {
			t.Errorf("%s: %v, %d bytes of bitmap", name, in != nil, len(differ))
		}
	}
	sums := v.(partialValue).PartSums(8, grain)
	in, differ := partsBeyond(here(), ask(func(m *FetchParts) { m.Sums = slices.Clone(sums) }))
	if empty, err := crdt.Decode(in.Kind, in.Bytes); err != nil || len(elements(empty)) != 0 || differ[0] != 0 {
		t.Errorf("equal parts are sent: %v, %v", differ, err)
	}
	in, differ = partsBeyond(here(), ask(func(*FetchParts) {}))
	for i, sum := range sums {
		if differ[0]>>i&1 != 0 != (sum != 0) {
			t.Errorf("part %d differs: %08b, has the sum %d", i, differ[0], sum)
		}
	}
	if whole, err := crdt.Decode(in.Kind, in.Bytes); err != nil || len(elements(whole)) != 1 || in.Gen != 3 || in.Key != "k" {
		t.Errorf("%+v, %v", in, err)
	}
}
