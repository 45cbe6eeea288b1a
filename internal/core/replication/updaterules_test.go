package replication

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// growing adds an element to the set of a key, and says by how much it grows.
func growing(key, e string, growth int) operation.Op {
	return Mutate(key, crdt.KindORSet, growth, func(v crdt.Value) crdt.Value { return v.(*crdt.ORSet[string]).Add(1, e) })
}

// TestUpdatesAreBoundedExactly checks that an update at a limit is made, and that an update above it
// changes nothing. An update that does not grow is made at any size.
func TestUpdatesAreBoundedExactly(t *testing.T) {
	limits := Limits{KeyBytes: 4, Keys: 2, ValueBytes: 100, TotalBytes: 1000, RequestBytes: 150}
	for name, c := range map[string]struct {
		edit  func(s *single)
		ops   []operation.Op
		limit string
	}{
		"a long name":              {func(*single) {}, []operation.Op{growing("1234", "e", 9)}, ""},
		"a longer one":             {func(*single) {}, []operation.Op{growing("12345", "e", 9)}, "KeyBytes"},
		"the last key":             {func(s *single) { s.put("a", "e") }, []operation.Op{growing("b", "e", 9)}, ""},
		"one too many":             {func(s *single) { s.put("a", "e"); s.put("b", "e") }, []operation.Op{growing("c", "e", 9)}, "Keys"},
		"both in one update":       {func(s *single) { s.put("a", "e") }, []operation.Op{growing("b", "e", 9), growing("c", "e", 9)}, "Keys"},
		"known keys":               {func(s *single) { s.put("a", "e"); s.put("b", "e") }, []operation.Op{growing("a", "f", 9), growing("b", "f", 9)}, ""},
		"a known one beyond them":  {func(s *single) { s.put("a", "e"); s.store.keys = 3 }, []operation.Op{growing("a", "f", 9)}, ""},
		"a large value":            {func(*single) {}, []operation.Op{growing("a", "e", 100)}, ""},
		"a larger one":             {func(*single) {}, []operation.Op{growing("a", "e", 101)}, "ValueBytes"},
		"a value that becomes one": {func(s *single) { s.put("a", "e"); s.store.itemOf("a").bytes = 90 }, []operation.Op{growing("a", "f", 11)}, "ValueBytes"},
		"one that does not grow":   {func(s *single) { s.put("a", "e"); s.store.itemOf("a").bytes = 900 }, []operation.Op{growing("a", "f", 0)}, ""},
		"a large request":          {func(*single) {}, []operation.Op{growing("a", "e", 75), growing("b", "e", 75)}, ""},
		"a larger request":         {func(*single) {}, []operation.Op{growing("a", "e", 75), growing("b", "e", 76)}, "RequestBytes"},
		"the last room":            {func(s *single) { s.store.bytes = 950 }, []operation.Op{growing("a", "e", 50)}, ""},
		"more than that":           {func(s *single) { s.store.bytes = 950 }, []operation.Op{growing("a", "e", 51)}, "TotalBytes"},
		"no growth, no room":       {func(s *single) { s.put("a", "e"); s.store.bytes = 2000 }, []operation.Op{growing("a", "f", 0)}, ""},
	} {
		s := newSingle(t, 2, func(c *Config) { c.Limits = limits })
		c.edit(s)
		before, out := s.stats.LimitErrors, &Effects{}
		s.Step(s.at, Update{ID: 99, Ops: c.ops, Level: replicator.Local}, out)
		limit := ""
		if err := (*replicator.Error)(nil); errors.As(out.Reply[0].Err, &err) {
			if limit = err.Limit; err.Got != err.Max+1 {
				t.Errorf("%s: %d of at most %d", name, err.Got, err.Max)
			}
		}
		if limit != c.limit || (len(out.Changed) > 0) == (c.limit != "") || (s.stats.LimitErrors > before) != (c.limit != "") {
			t.Errorf("%s: %v, changes %v", name, out.Reply[0].Err, out.Changed)
		}
	}
}

// TestKindsOfNewKeysInOneUpdate checks that two kinds for one new key fail, and so does another kind than
// that of a key.
func TestKindsOfNewKeysInOneUpdate(t *testing.T) {
	s := newSingle(t, 2, nil)
	for i, c := range []struct {
		ops []operation.Op
		err error
	}{
		{[]operation.Op{addTo(1, "k", "e"), count(1, "k", 1)}, replicator.ErrKind},
		{[]operation.Op{addTo(1, "k", "e"), addTo(1, "k", "f"), count(1, "l", 1)}, nil},
		{[]operation.Op{count(1, "k", 1)}, replicator.ErrKind},
		{[]operation.Op{{Key: "k", Delete: true}}, nil},
		{[]operation.Op{count(1, "k", 1)}, nil},
	} {
		if _, out := s.update(replicator.Local, replicator.Fence{}, c.ops...); !errors.Is(out.Reply[0].Err, c.err) {
			t.Errorf("step %d: %v, want %v", i, out.Reply[0].Err, c.err)
		}
	}
	if got := s.Value("k").(*crdt.GCounter).Count(); got != 1 {
		t.Errorf("the counter shows %d", got)
	}
}

// TestDeletionsOfOneKey checks that the deletion of a live key opens an even generation, and that the
// deletion of a key without a value is not logged.
func TestDeletionsOfOneKey(t *testing.T) {
	s := newSingle(t, 2, nil)
	none := s.stream.log.last()
	if s.deleteKey("k"); s.stream.log.last() != none || s.store.itemOf("k") != nil {
		t.Error("the deletion of no key is logged")
	}
	s.put("k", "e")
	at := s.stream.log.last()
	s.deleteKey("k")
	it := s.store.itemOf("k")
	if e := s.stream.log.entryAt(at + 1); it.gen != 2 || it.value != nil || it.written != it.version || len(e.Items) != 1 || e.Items[0].Gen != 2 || e.Items[0].Kind != 0 {
		t.Errorf("%+v, logged %+v", it, e)
	}
	if s.deleteKey("k"); it.gen != 2 || s.stream.log.last() != at+1 {
		t.Errorf("deleted again: generation %d", it.gen)
	}
	del := operation.Op{Key: "k", Delete: true}
	s.put("k", "e")
	if s.update(replicator.Local, replicator.Fence{}, del, del); it.gen != 4 {
		t.Errorf("deleted twice in one update: generation %d", it.gen)
	}
}

// TestANewDurableKeyBeginsAboveForgottenGenerations checks this, and that keys that are not durable begin
// at 0.
func TestANewDurableKeyBeginsAboveForgottenGenerations(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.Keep = func(key string) bool { return key == "kept" } })
	s.barrier.minGeneration = 6
	s.put("kept", "e")
	s.put("other", "e")
	if kept, other := s.store.itemOf("kept").gen, s.store.itemOf("other").gen; kept != 7 || other != 0 {
		t.Errorf("begin in generations %d and %d", kept, other)
	}
}

// TestAnUpdateThatChangesNothing checks that an update without effect reports no change, and that it is
// read back above level Local.
func TestAnUpdateThatChangesNothing(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.NoStream = true, true })
	s.put("k", "e")
	at := s.stream.log.last()
	idle := Mutate("k", crdt.KindORSet, 0, func(crdt.Value) crdt.Value { return nil })
	if _, out := s.update(replicator.Local, replicator.Fence{}, idle); len(out.Changed) != 0 || s.stream.log.last() != at || out.Reply[0].Err != nil {
		t.Errorf("%+v", out)
	}
	id, out := s.update(majority, replicator.Fence{}, idle, idle)
	if m := sentTo[*ReadRequest](out, 2); len(m) != 1 || !slices.Equal(m[0].Keys, []string{"k"}) {
		t.Fatalf("reads back %+v", m)
	}
	if out = s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{s.store.print("k")}}); len(out.Reply) != 1 || out.Reply[0].Err != nil || out.Reply[0].Values != nil {
		t.Errorf("replies %+v", out.Reply)
	}
	// A part with an effect is written first.
	id, _ = s.update(majority, replicator.Fence{}, idle, addTo(1, "l", "e"))
	if r := s.table.open[id]; r.phase != writing || r.seq != at+1 {
		t.Errorf("phase %d, entry %d", r.phase, r.seq)
	}
	if out = s.receive(2, &Ack{Epoch: s.members.epoch, From: at + 1, To: at + 1, Seen: at + 1}); len(out.Reply) != 0 || s.table.open[id].phase != reading {
		t.Errorf("replies %+v after its write", out.Reply)
	}
}

// TestAcknowledgementsOfAWrite checks that an acknowledgement counts for a write if it covers the entry
// and has no refusal that counts.
func TestAcknowledgementsOfAWrite(t *testing.T) {
	f := replicator.Fence{Group: "g", Term: 7}
	far := uint64(gossip.FirstEpoch(1 + gossip.GenerationsAhead + 1))
	for name, c := range map[string]struct {
		from, to uint64
		refusals []Refusal
		done     bool
		err      error
	}{
		"its entry":                {2, 2, nil, true, nil},
		"a run with it":            {1, 3, nil, true, nil},
		"up to it":                 {1, 2, nil, true, nil},
		"the one before":           {1, 1, nil, false, nil},
		"the one behind":           {3, 3, nil, false, nil},
		"refused without a reason": {2, 2, []Refusal{{Seq: 2}}, false, nil},
		"another one is refused":   {1, 3, []Refusal{{Seq: 1}, {Seq: 3}}, true, nil},
		"fenced":                   {2, 2, []Refusal{{Seq: 2, Higher: 8}}, true, replicator.ErrFenced},
		"fenced by a far term":     {2, 2, []Refusal{{Seq: 2, Higher: far}}, false, nil},
		"a newer stamp stands":     {2, 2, []Refusal{{Seq: 2, Why: whyStale}}, true, nil},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		s.put("a", "e")
		id, _ := s.update(majority, f, addTo(1, "k", "e"))
		s.put("b", "e")
		if s.table.open[id].seq != 2 {
			t.Fatal("not the second entry")
		}
		s.pass(s.cfg.BatchEvery)
		out := s.receive(2, &Ack{Epoch: s.members.epoch, From: c.from, To: c.to, Refused: c.refusals})
		if (len(out.Reply) == 1) != c.done || c.done && !errors.Is(out.Reply[0].Err, c.err) {
			t.Errorf("%s: replies %+v", name, out.Reply)
		}
		if want := map[bool]uint64{true: 8, false: 7}[c.err != nil]; s.Term("g") != want {
			t.Errorf("%s: term %d", name, s.Term("g"))
		}
	}
}

// TestARefusalOfAStampEndsAWriteOnceAllRefuse checks that a write waits while any member may accept its
// stamp.
func TestARefusalOfAStampEndsAWriteOnceAllRefuse(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.update(majority, replicator.Fence{}, fixedIn("k", "v", crdt.Stamp{Time: 5 << tickBits, Node: 1}))
	ahead := []Refusal{{Seq: 1, Why: whyAhead, Have: crdt.Stamp{Time: 5 << tickBits}, Wall: 3}}
	ack := &Ack{Epoch: s.members.epoch, From: 1, To: 1, Refused: ahead}
	if out := s.receive(2, ack); len(out.Reply) != 0 {
		t.Fatalf("ends with %v", out.Reply[0].Err)
	}
	out := s.receive(3, ack)
	var err *replicator.Error
	if len(out.Reply) != 1 || !errors.As(out.Reply[0].Err, &err) || err.Code != replicator.ErrAhead || err.Key != "k" || err.Wall != 3 || err.Node != 3 {
		t.Errorf("replies %+v", out.Reply)
	}
}

// TestAnEntryIsOfferedToThoseThatItNeeds checks that an entry is sent with the entries before it, past a
// full window, and again to members whose answer may have been lost.
func TestAnEntryIsOfferedToThoseThatItNeeds(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	s.put("a", "e")
	_, out := s.update(majority, replicator.Fence{}, addTo(1, "k", "e"))
	if got := receivers[*Deltas](out); !slices.Equal(got, ids(2, 3)) {
		t.Fatalf("offered to %v", got)
	}
	if m := sentTo[*Deltas](out, 2); len(m) != 1 || m[0].From != 1 || len(m[0].Entries) != 2 {
		t.Errorf("sends %+v", m)
	}
	p := s.members.byID[2]
	p.acked, p.next = 0, windowEntries+1
	for s.stream.log.last() < windowEntries+10 {
		s.stream.log.appendEntry(&Entry{})
	}
	p.acked, p.next = 1, windowEntries+2
	_, out = s.update(majority, replicator.Fence{}, addTo(1, "k", "f"))
	last := s.stream.log.last()
	if m := sentTo[*Deltas](out, 2); len(m) != 1 || m[0].From != last || len(m[0].Entries) != 1 || m[0].Epoch != s.members.epoch || p.next != windowEntries+2 {
		t.Errorf("past a full window: %+v, next %d", m, p.next)
	}
	p.acked, p.next = last, last+1
	r := s.table.writes[len(s.table.writes)-1]
	s.out = &Effects{}
	if s.writes.offerEntry(s.at, r, true); len(sentTo[*Deltas](s.out, 2)) != 1 || sentTo[*Deltas](s.out, 2)[0].From != last {
		t.Errorf("to one that may have answered: %+v", s.out.Send)
	}
}

// TestStampsOfTheCallerAreChecked checks that a malformed stamp and a stamp ahead of the clocks fail. A
// stamp that loses against the value here fails unless it yields.
func TestStampsOfTheCallerAreChecked(t *testing.T) {
	e, ms := newParts(Config{Wall: func() uint64 { return noon }}, 1)
	vs := newValues(e, ms)
	ws := &writes{env: e, members: ms, clocks: vs.clocks, values: vs, store: vs.store}
	st := func(ms uint64, seq uint64) crdt.Stamp { return crdt.Stamp{Time: ms << tickBits, Node: 1, Seq: seq} }
	v, _ := crdt.New(crdt.KindLWWMap)
	v.(*entryMap).Set("live", "v", st(noon, 5))
	v.(*entryMap).Delete("gone", st(noon, 5))
	it := &item{key: "m", value: v}
	most := noon + millis(aheadMax)
	for name, c := range map[string]struct {
		f    operation.Fixed
		it   *item
		want error
	}{
		"newer":                     {operation.Fixed{Entry: "live", Value: "w", Stamp: st(noon, 6)}, it, nil},
		"older":                     {operation.Fixed{Entry: "live", Value: "v", Stamp: st(noon, 4)}, it, replicator.ErrStale},
		"older, yields":             {operation.Fixed{Entry: "live", Value: "v", Stamp: st(noon, 4), Yield: true}, it, nil},
		"the same":                  {operation.Fixed{Entry: "live", Value: "v", Stamp: st(noon, 5)}, it, nil},
		"the same stamp, another":   {operation.Fixed{Entry: "live", Value: "w", Stamp: st(noon, 5)}, it, replicator.ErrStale},
		"the same stamp, a delete":  {operation.Fixed{Entry: "live", Value: "v", Stamp: st(noon, 5), Delete: true}, it, replicator.ErrStale},
		"the same delete":           {operation.Fixed{Entry: "gone", Stamp: st(noon, 5), Delete: true}, it, nil},
		"a value where it ended":    {operation.Fixed{Entry: "gone", Stamp: st(noon, 5)}, it, replicator.ErrStale},
		"of no key":                 {operation.Fixed{Entry: "live", Value: "w", Stamp: st(1, 1)}, nil, nil},
		"of a deleted key":          {operation.Fixed{Entry: "live", Value: "w", Stamp: st(1, 1)}, &item{key: "m"}, nil},
		"a minute ahead":            {operation.Fixed{Entry: "live", Stamp: st(most, 1)}, it, nil},
		"more":                      {operation.Fixed{Entry: "live", Stamp: st(most+1, 1)}, it, replicator.ErrAhead},
		"more, yields":              {operation.Fixed{Entry: "live", Stamp: st(most+1, 1), Yield: true}, it, replicator.ErrAhead},
		"malformed":                 {operation.Fixed{Entry: "live", Stamp: crdt.Stamp{Time: timeMax}}, it, replicator.ErrAhead},
		"an entry that never stood": {operation.Fixed{Entry: "none", Value: "w", Stamp: st(1, 1)}, it, nil},
	} {
		op := &plannedOp{Op: operation.Op{Key: "m", Kind: crdt.KindLWWMap}}
		err := ws.checkFixed(op, &operation.Plan{Fixed: []operation.Fixed{c.f}}, c.it)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestWhenTheNextSweepIsDue: a sixteenth of Retain after the last one, less the time that ran before
// the start; earlier with too many deletions, and never without any.
func TestWhenTheNextSweepIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		retain            time.Duration
		deletions, agreed int
		ran               time.Duration
		want              time.Duration // -1 for never
	}{
		"no deletion":                   {16 * time.Hour, 0, 0, 0, -1},
		"agreed ones":                   {16 * time.Hour, 0, 1, 0, time.Hour},
		"one":                           {16 * time.Hour, 1, 0, 0, time.Hour},
		"after a restart":               {16 * time.Hour, 1, 0, 20 * time.Minute, 40 * time.Minute},
		"as many as may be":             {16 * time.Hour, 5, 0, 0, time.Hour},
		"too many":                      {16 * time.Hour, 6, 0, 0, time.Minute},
		"too many, in a short time":     {16 * time.Second, 6, 0, 0, time.Second},
		"for ever":                      {-1, 1, 0, 0, -1},
		"for ever, as many as there be": {-1, 5, 1, 0, -1},
		"for ever, too many":            {-1, 6, 0, 0, time.Minute},
	} {
		s := newSingle(t, 1, func(cfg *Config) { cfg.Retain, cfg.Limits.Tombstones = c.retain, 5 })
		rt := s.retention
		s.store.deletions, rt.sweptAt, rt.ranBefore = c.deletions, 100, c.ran
		for i := range c.agreed {
			rt.agreed[uint64(i)] = 1
		}
		want := clock.Never
		if c.want >= 0 {
			want = clock.Instant(100).Add(c.want)
		}
		if got := rt.nextSweep(); got != want {
			t.Errorf("%s: due at %d, want %d", name, got, want)
		}
	}
}

// TestWhoAgreesToASweep: a replica that holds all agreed deletions, and whose entries from before the
// last sweep have arrived everywhere.
func TestWhoAgreesToASweep(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *single)
		want bool
	}{
		"all is there":              {func(*single) {}, true},
		"fresh":                     {func(s *single) { s.barrier.fresh = true }, false},
		"deletions are missing":     {func(s *single) { s.members.byID[3].swept = 4 }, false},
		"they were taken over":      {func(s *single) { s.retention.kept = 3 }, true},
		"an entry is missing":       {func(s *single) { s.members.byID[3].acked = 6 }, false},
		"a later entry is missing":  {func(s *single) { s.members.byID[3].acked = 7 }, true},
		"a write waits":             {func(s *single) { s.table.writes = []*request{{seq: 7}} }, false},
		"a later write waits":       {func(s *single) { s.table.writes = []*request{{seq: 8}} }, true},
		"a write that is over":      {func(s *single) { s.table.writes = []*request{{seq: 7, done: true}} }, true},
		"without a view, kept less": {func(s *single) { s.members.view, s.retention.kept = nil, 4 }, false},
	} {
		s := newSingle(t, 3, nil)
		s.barrier.sweep, s.retention.kept, s.retention.mark = 5, 5, 7
		for _, p := range s.members.peers {
			p.swept, p.acked = 5, 9
		}
		c.edit(s)
		if c.want == false && name == "deletions are missing" {
			s.retention.kept = 4
		}
		if got := s.retention.maySweep(); got != c.want {
			t.Errorf("%s: agrees %v", name, got)
		}
	}
}

// TestHeadersOfFiles: a file is taken as it was written, and is fresh if it has keys.
func TestHeadersOfFiles(t *testing.T) {
	for _, keys := range []int{0, 2} {
		e, ms := newParts(Config{Keep: func(string) bool { return true }, Wall: func() uint64 { return noon }}, 2)
		rt := newRetention(newStream(e, ms))
		for i := range keys {
			rt.store.obtain(fmt.Sprint("k", i))
		}
		in := Memory{Sweep: 5, MinGeneration: 6, MaxForgottenStamp: 7, Ran: 1500, Agreed: []AgreedDeletion{{9, 4}, {3, 5}}}
		rt.loadFile(1, in)
		if rt.barrier.fresh != (keys > 0) || rt.clocks.unjudged != (keys > 0) || rt.filed != (keys > 0) || len(rt.restored) != keys || rt.reported == nil {
			t.Errorf("%d keys: fresh %v, unjudged %v, filed %v", keys, rt.barrier.fresh, rt.clocks.unjudged, rt.filed)
		}
		if b := rt.barrier; b.sweep != 5 || b.minGeneration != 6 || b.maxForgottenStamp != 7 || b.inherited != 7 || b.filed != 7 {
			t.Errorf("%+v", b)
		}
		out := rt.fileHeader(clock.Instant(1).Add(time.Second))
		if out.Sweep != 5 || out.MinGeneration != 6 || out.MaxForgottenStamp != 7 || out.Ran != 2500 {
			t.Errorf("%+v", out)
		}
		if got := rt.listAgreed(); !slices.Equal(got, []AgreedDeletion{{3, 5}, {9, 4}}) {
			t.Errorf("agreed %v", got)
		}
		if got := rt.oldDeletions(4 + sweepsKept); !slices.Equal(got, []uint64{9}) || len(rt.oldDeletions(3+sweepsKept)) != 0 {
			t.Errorf("forgets %v", got)
		}
	}
}

// TestAStandingRaisesTheSweep: of a replica at the own floor or below, and what was forgotten there.
func TestAStandingRaisesTheSweep(t *testing.T) {
	for name, c := range map[string]struct {
		floor, sweep uint64
		caughtUp     bool
		want         uint64
		inherited    uint64
	}{
		"level":             {4, 9, true, 9, 30},
		"a lower sweep":     {4, 5, true, 6, 30},
		"at a higher floor": {5, 9, true, 6, 30},
		"a newcomer here":   {4, 9, false, 9, 70},
	} {
		s := newSingle(t, 2, nil)
		s.barrier.floor, s.barrier.sweep, s.barrier.maxForgottenStamp, s.barrier.inherited, s.barrier.minGeneration = 4, 6, 40, 30, 8
		if s.put("k", strings.Repeat("e", 3)); !c.caughtUp {
			s.members.caughtUp = 0
		}
		s.retention.mark, s.retention.ranBefore = 0, time.Minute
		s.retention.now = 77
		s.retention.onStanding(s.members.byID[2], &Status{Floor: c.floor, Sweep: c.sweep, MinGeneration: 9, MaxForgottenStamp: 70})
		b := s.barrier
		if b.sweep != c.want || b.maxForgottenStamp != 70 || b.inherited != c.inherited || b.minGeneration != map[bool]uint64{true: 9, false: 8}[c.floor <= 4] {
			t.Errorf("%s: %+v", name, *b)
		}
		if raised := c.want > 6; raised != (s.retention.sweptAt == 77) || raised != (s.retention.mark == 1) || raised != (s.retention.ranBefore == 0) {
			t.Errorf("%s: swept at %d, mark %d", name, s.retention.sweptAt, s.retention.mark)
		}
	}
}
