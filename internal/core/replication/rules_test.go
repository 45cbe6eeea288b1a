package replication

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

const (
	// noon is a reading of a wall clock in milliseconds, now the time of the Instants.
	noon = uint64(1_800_000_000_000)
	now  = clock.Instant(5_000_000_000)
)

// clocksOf returns the clocks of a replica whose own wall clock shows own, 0 for none, and
// whose peers have reported theirs.
func clocksOf(own uint64, peers ...uint64) *clocks {
	e := &env{now: now, out: &Effects{}}
	e.cfg.Wall = func() uint64 { return own }
	ck := &clocks{env: e, members: &members{env: e}}
	for i, wall := range peers {
		p := &peer{id: gossip.NodeID(i + 2)}
		ck.members.peers = append(ck.members.peers, p)
		ck.noteClock(p, wall)
	}
	return ck
}

// TestAClockThatWasNeverSetCountsAsNone: one before the year 2000, and one that stamps cannot
// hold.
func TestAClockThatWasNeverSetCountsAsNone(t *testing.T) {
	for wall, want := range map[uint64]bool{0: false, wallMin - 1: false, wallMin: true, noon: true, timeMax>>tickBits - 1: true, timeMax >> tickBits: false} {
		if got := clocksOf(wall).ownWall() == wall; got != want && wall != 0 {
			t.Errorf("own clock %d counts %v", wall, got)
		}
		ck := clocksOf(noon, wall)
		if p := ck.members.peers[0]; p.clocked != want || ck.clockKnown != want || !ck.peersReported {
			t.Errorf("a peer's clock %d counts %v", wall, p.clocked)
		}
	}
	ck := clocksOf(noon)
	ck.cfg.Wall = nil
	p := &peer{id: 2}
	ck.unjudged = true
	if ck.noteClock(p, noon) || p.clocked || ck.peersReported || ck.ownWall() != 0 || ck.stampWall() != 0 || ck.judgingWall() != 0 {
		t.Error("a replica without a clock takes one of a peer")
	}
}

// TestClocksMoveWithTime: a reading stays as far above the time of the Instants as it was.
func TestClocksMoveWithTime(t *testing.T) {
	ck := clocksOf(0, noon, noon+20, noon+10)
	ck.now = ck.now.Add(7_000_000)
	if got := ck.readings(); !slices.Equal(got, []uint64{noon + 7, noon + 17, noon + 27}) {
		t.Errorf("readings %v", got)
	}
	ck.members.peers = nil
	if got := ck.readings(); !slices.Equal(got, []uint64{noon + 17}) {
		t.Errorf("of members that have left: %v, want their lower median", got)
	}
}

// TestStampsFollowTheLowerMedian: the own clock, at most half a second above it; without an own
// clock the lower median.
func TestStampsFollowTheLowerMedian(t *testing.T) {
	lead := millis(stampLead)
	for name, c := range map[string]struct {
		own   uint64
		peers []uint64
		stamp uint64
		judge uint64
	}{
		"alone":                     {noon, nil, noon, noon},
		"behind one":                {noon, []uint64{noon + 9000}, noon, noon},
		"far ahead of one":          {noon + 9000, []uint64{noon}, noon + lead, noon + 9000},
		"a little ahead of one":     {noon + lead - 1, []uint64{noon}, noon + lead - 1, noon + lead - 1},
		"wrong among three":         {noon + 9000, []uint64{noon, noon + 1}, noon + 1 + lead, noon + 1},
		"of four, the lower median": {noon + 3, []uint64{noon, noon + 1, noon + 2}, noon + 3, noon + 1},
		"no own clock":              {0, []uint64{noon, noon + 5}, noon, noon},
		"no clock at all":           {0, nil, 0, 0},
	} {
		ck := clocksOf(c.own, c.peers...)
		if stamp, judge := ck.stampWall(), ck.judgingWall(); stamp != c.stamp || judge != c.judge {
			t.Errorf("%s: stamps by %d, want %d; judges by %d, want %d", name, stamp, c.stamp, judge, c.judge)
		}
	}
}

// TestAStampIsTooFarAMinuteAhead: and none is without a clock.
func TestAStampIsTooFarAMinuteAhead(t *testing.T) {
	most := noon + millis(aheadMax)
	if tooFar(most<<tickBits, noon) || !tooFar((most+1)<<tickBits, noon) || tooFar(timeMax-1, 0) {
		t.Error("a stamp may be a minute ahead, and no more")
	}
}

// TestOwnStampsAreJudgedOnce: by the first clock that a peer reports.
func TestOwnStampsAreJudgedOnce(t *testing.T) {
	ck := clocksOf(noon, noon)
	ck.unjudged = true
	if !ck.isMuted() {
		t.Error("a replica that is not judged sends entries")
	}
	if !ck.noteClock(ck.members.peers[0], 0) || ck.noteClock(ck.members.peers[0], noon) || ck.isMuted() {
		t.Error("own stamps must be judged once")
	}
	ck.unjudged, ck.members.peers = true, nil
	if ck.isMuted() {
		t.Error("a replica without peers is muted")
	}
}

// TestTheClockThatEndsAnEra: of two clocks the later one, of three the lower median, and alone
// the own one.
func TestTheClockThatEndsAnEra(t *testing.T) {
	clocked, silent := []*peer{{}, {clocked: true}}, []*peer{{}}
	for name, c := range map[string]struct {
		own      uint64
		peers    []*peer
		readings []uint64
		want     uint64
	}{
		"alone":                       {5, nil, []uint64{5, 9}, 5},
		"with a peer without a clock": {5, silent, []uint64{5, 9}, 5},
		"alone, without a clock":      {0, nil, []uint64{9}, 9},
		"of two":                      {5, clocked, []uint64{5, 9}, 9},
		"of one":                      {0, clocked, []uint64{9}, 9},
		"of three":                    {5, clocked, []uint64{5, 9, 11}, 9},
		"of four":                     {5, clocked, []uint64{5, 9, 11, 12}, 9},
		"of none":                     {0, clocked, nil, 0},
	} {
		if got := eraClock(c.own, c.peers, c.readings); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestNewestTimesOfAKey: a later generation replaces them, a later era lifts them.
func TestNewestTimesOfAKey(t *testing.T) {
	for name, c := range map[string]struct{ n, o, want Newest }{
		"an earlier generation": {Newest{Gen: 2, Times: []uint64{5}}, Newest{Gen: 1, Live: true, Times: []uint64{9}}, Newest{Gen: 2, Times: []uint64{5}}},
		"a later one":           {Newest{Gen: 1, Live: true, Era: 3, Times: []uint64{9}}, Newest{Gen: 2, Era: 1, Times: []uint64{5}}, Newest{Gen: 2, Era: 1, Times: []uint64{5}}},
		"the same":              {Newest{Times: []uint64{9, 2}}, Newest{Live: true, Times: []uint64{5, 6}}, Newest{Live: true, Times: []uint64{9, 6}}},
		"fewer times":           {Newest{Live: true, Times: []uint64{9, 2}}, Newest{Times: []uint64{5}}, Newest{Live: true, Times: []uint64{9, 2}}},
		"a later open one":      {Newest{Gen: 2, Live: true, Times: []uint64{9, 2}}, Newest{Gen: 3, Live: true, Times: []uint64{5, 6}}, Newest{Gen: 3, Live: true, Times: []uint64{9, 6}}},
		"an open one, deleted":  {Newest{Gen: 2, Times: []uint64{9}}, Newest{Gen: 3, Live: true, Times: []uint64{5}}, Newest{Gen: 3, Live: true, Times: []uint64{5}}},
		"below an open one":     {Newest{Gen: 3, Live: true, Times: []uint64{5}}, Newest{Live: true, Times: []uint64{9}}, Newest{Gen: 3, Live: true, Times: []uint64{9}}},
		"a later era":           {Newest{Times: []uint64{0x900}}, Newest{Era: 1, Times: []uint64{8}}, Newest{Era: 1, Times: []uint64{9}}},
		"an earlier era":        {Newest{Era: 1, Times: []uint64{8}}, Newest{Times: []uint64{0x900}}, Newest{Era: 1, Times: []uint64{9}}},
	} {
		c.n.mergeNewest(c.o)
		if c.n.Gen != c.want.Gen || c.n.Era != c.want.Era || c.n.Live != c.want.Live || !slices.Equal(c.n.Times, c.want.Times) {
			t.Errorf("%s: %+v, want %+v", name, c.n, c.want)
		}
	}
}

// TestAnEraBegins: where the next stamp would be ahead of the clock, up to the last era.
func TestAnEraBegins(t *testing.T) {
	most := (noon+millis(aheadMax)+1)<<tickBits - 2
	for name, c := range map[string]struct {
		n    Newest
		want bool
	}{
		"not ahead":      {Newest{Times: []uint64{1, most}}, false},
		"ahead":          {Newest{Times: []uint64{1, most + 1}}, true},
		"the last era":   {Newest{Era: eraMax, Times: []uint64{most + 1}}, false},
		"the one before": {Newest{Era: eraMax - 1, Times: []uint64{most + 1}}, true},
		"no times":       {Newest{}, false},
	} {
		era := c.n.Era
		if got := c.n.beginEra(noon); got != c.want || (c.n.Era == era+1) != c.want {
			t.Errorf("%s: begins %v, era %d", name, got, c.n.Era)
		}
		for _, at := range c.n.Times {
			if c.want && at < eraTimes {
				t.Errorf("%s: time %d, at least %d", name, at, uint64(eraTimes))
			}
		}
	}
}

// fencesOf returns fences that have room for two groups.
func fencesOf() *fences {
	e := &env{out: &Effects{}}
	return &fences{env: e, members: &members{env: e, epoch: gossip.FirstEpoch(9)}, max: 2}
}

// TestTermsOnlyGrow: a lower term does not pass, an equal one does, and the table is bounded.
func TestTermsOnlyGrow(t *testing.T) {
	s := fencesOf()
	if s.raise(replicator.Fence{}) || s.terms != nil || s.full(replicator.Fence{}) {
		t.Error("no fence takes a place")
	}
	for i, c := range []struct {
		f      replicator.Fence
		higher uint64
		ok     bool
	}{
		{replicator.Fence{Group: "a", Term: 5}, 0, true},
		{replicator.Fence{Group: "a", Term: 4}, 5, false},
		{replicator.Fence{Group: "a", Term: 5}, 0, true},
		{replicator.Fence{Group: "a", Term: 6}, 0, true},
		{replicator.Fence{Group: "b", Term: 1}, 0, true},
		{replicator.Fence{}, 0, true},
	} {
		if higher, ok := s.pass(c.f); higher != c.higher || ok != c.ok {
			t.Errorf("step %d: passes %v, barred by %d", i, ok, higher)
		}
	}
	if s.raise(replicator.Fence{Group: "a", Term: 6}) || !s.raise(replicator.Fence{Group: "a", Term: 7}) {
		t.Error("a known group must be raised by a higher term only")
	}
	if third := (replicator.Fence{Group: "c", Term: 1}); s.raise(third) || !s.full(third) || s.full(replicator.Fence{Group: "a", Term: 9}) {
		t.Error("there is room for a third group, or none for a known one")
	}
	if got := s.sortedFences(); !slices.Equal(got, []replicator.Fence{{Group: "a", Term: 7}, {Group: "b", Term: 1}}) {
		t.Errorf("fences %v", got)
	}
}

// TestFarTermsAreRefused: far beyond the own view, or, where terms are epochs, beyond the
// sender's view.
func TestFarTermsAreRefused(t *testing.T) {
	own := gossip.FirstEpoch(9)
	for name, c := range map[string]struct {
		epochs     bool
		term, held gossip.Epoch
		refused    bool
		far        uint64
	}{
		"of our view":                 {true, own, 0, false, 0},
		"of a later view":             {true, own + 1, 0, true, 0},
		"of the sender's":             {true, own + 1, own + 1, true, 0},
		"beyond the sender's":         {true, own + 2, own + 1, true, 1},
		"below a sender that is late": {true, own, own - 1, false, 0},
		"a number of the application": {false, own + 2, own + 1, false, 0},
		"far beyond":                  {false, gossip.FirstEpoch(9 + gossip.GenerationsAhead + 1), 0, true, 1},
		"as far as it may be":         {false, gossip.FirstEpoch(9 + gossip.GenerationsAhead), 0, false, 0},
	} {
		s := fencesOf()
		s.epochs = c.epochs
		if got := s.refuseTerm(3, "g", uint64(c.term), c.held); got != c.refused || s.stats.FarTerms != c.far || uint64(len(s.out.Trace)) != c.far {
			t.Errorf("%s: refused %v, %d far", name, got, s.stats.FarTerms)
		}
		s.out.Trace = nil
		s.raiseAll(3, c.held, []replicator.Fence{{Group: "g", Term: uint64(c.term)}})
		if got := s.terms["g"] == 0; got != c.refused {
			t.Errorf("%s: has term %d", name, s.terms["g"])
		}
		if higher, ok := s.checkTerm(3, c.held, replicator.Fence{Group: "g", Term: uint64(c.term)}); ok == c.refused || higher != 0 {
			t.Errorf("%s: passes %v, barred by %d", name, ok, higher)
		}
	}
}

// TestABarredTermIsCountedAndTraced: as refused, and a new one as raised.
func TestABarredTermIsCountedAndTraced(t *testing.T) {
	s := fencesOf()
	for i, c := range []struct {
		term   uint64
		kind   TraceKind
		higher uint64
		ok     bool
	}{{5, TraceFenceRaised, 0, true}, {5, "", 0, true}, {4, TraceFenceRefused, 5, false}, {6, TraceFenceRaised, 0, true}} {
		s.out.Trace = nil
		higher, ok := s.checkTerm(3, 0, replicator.Fence{Group: "g", Term: c.term})
		kind := TraceKind("")
		if len(s.out.Trace) > 0 {
			kind = s.out.Trace[0].Kind
		}
		if higher != c.higher || ok != c.ok || kind != c.kind {
			t.Errorf("step %d: passes %v, barred by %d, traced %q", i, ok, higher, kind)
		}
	}
	if s.stats.FencedHere != 1 {
		t.Errorf("%d refused, want 1", s.stats.FencedHere)
	}
}

// TestReadsOfLaterViewsAreHeld: up to a bound, and only those whose term is of their view.
func TestReadsOfLaterViewsAreHeld(t *testing.T) {
	var h heldReads
	h.keepRead(3, &ReadRequest{Epoch: 5, Fence: replicator.Fence{Group: "g", Term: 6}})
	if len(h) != 0 {
		t.Error("holds a read with a forged term")
	}
	for range heldReadsMax + 3 {
		h.keepRead(3, &ReadRequest{Epoch: 5, Fence: replicator.Fence{Group: "g", Term: 5}})
	}
	if all := h.takeReads(); len(all) != heldReadsMax || len(h) != 0 || all[0].From != 3 {
		t.Errorf("holds %d reads, and %d after they were taken", len(all), len(h))
	}
}

// TestTargetsMeetEveryQuorum: of the most senior that are linked, and none that has answered.
func TestTargetsMeetEveryQuorum(t *testing.T) {
	qs := []quorum{{members: ids(1, 2, 3, 4, 5), need: 3}, {members: ids(4, 5, 6), need: 2}}
	for name, c := range map[string]struct {
		have, down, want []gossip.NodeID
	}{
		"none has answered":   {nil, nil, ids(1, 2, 3, 4, 5)},
		"one has":             {ids(4), nil, ids(1, 2, 5)},
		"one is not linked":   {ids(1), ids(2), ids(3, 4, 5)},
		"too few are linked":  {ids(1), ids(2, 3, 4, 6), ids(5, 2, 4)},
		"all that are needed": {ids(1, 4, 5), nil, nil},
	} {
		in := func(set []gossip.NodeID) func(gossip.NodeID) bool {
			return func(id gossip.NodeID) bool { return slices.Contains(set, id) }
		}
		if got := targets(qs, in(c.have), func(id gossip.NodeID) bool { return !in(c.down)(id) }); !slices.Equal(got, c.want) {
			t.Errorf("%s: asks %v, want %v", name, got, c.want)
		}
	}
	e := shortfall(replicator.All, qs, func(id gossip.NodeID) bool { return id < 4 })
	if e.Need != 3 || e.Got != 3 || !slices.Equal(e.Missing, ids(4, 5, 6)) {
		t.Errorf("%+v, the second quorum lacks 4 to 6", e)
	}
}
