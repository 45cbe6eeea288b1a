package replication

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// TestTheDefaultsOfConfig checks that each field has a default, and that no setting of the caller is
// replaced.
func TestTheDefaultsOfConfig(t *testing.T) {
	got := Config{}.withDefaults()
	want := Limits{KeyBytes: 512, Keys: 1_000_000, Tombstones: 100_000, ValueBytes: 16 << 20, TotalBytes: 1 << 30, RequestOps: 4096, RequestBytes: 16 << 20,
		Pending: 16384, LogBytes: 4 << 20, LogEntries: 16384, FrameBytes: 256 << 10, RoundBytes: 4 << 20, FenceGroups: 1024, Transfers: 4}
	if got.Limits != want {
		t.Errorf("%+v", got.Limits)
	}
	times := []time.Duration{got.Timeout, got.SpreadMax, got.BatchEvery, got.ResendAfter, got.GossipEvery, got.PruneEvery, got.Retain, got.overEvery}
	if !slices.Equal(times, []time.Duration{5 * time.Second, 50 * time.Millisecond, 3 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond, time.Second, 168 * time.Hour, time.Minute}) {
		t.Errorf("%v", times)
	}
	if got.FetchKeys != 1024 || got.PartialMin != 32<<10 {
		t.Errorf("%d keys of one Fetch, parts from %d bytes", got.FetchKeys, got.PartialMin)
	}
	if set := (Config{Timeout: 7, Retain: -1, Limits: Limits{KeyBytes: 5000, Keys: 8}}).withDefaults(); set.Timeout != 7 || set.Retain != -1 || set.Limits.KeyBytes != keyBytesMax || set.Limits.Keys != 8 {
		t.Errorf("%+v", set)
	}
}

// TestAStatusOfAPeer checks that the figures in a Status replace older figures of the peer.
func TestAStatusOfAPeer(t *testing.T) {
	s := newSingle(t, 3, nil)
	p, e := s.members.byID[2], s.members.epoch
	s.put("k", "e")
	s.pass(s.cfg.BatchEvery)
	m := s.statusOf(17)
	m.CaughtUp, m.Dots, m.Fences, m.Vector = e, 8, []replicator.Fence{{Group: "g", Term: 7}}, []Seen{{Node: 1, Seen: 1, Top: 1}}
	if s.receive(2, m); p.caughtUp != e || p.keys != 17 || p.dots != 8 || p.acked != 1 || s.Term("g") != 7 {
		t.Errorf("%+v, term %d", p, s.Term("g"))
	}
	late := s.statusOf(3)
	late.CaughtUp, late.Dots = e-1, 2
	if s.receive(2, late); p.caughtUp != e || p.dots != 8 || p.keys != 3 {
		t.Errorf("a late one: %+v", p)
	}
}

// TestAStatusIsAnsweredIfItAsks checks that a Status with Reply set is answered in every state of the
// two replicas.
func TestAStatusIsAnsweredIfItAsks(t *testing.T) {
	for name, edit := range map[string]func(s *single, m *Status){
		"equal":         func(s *single, m *Status) { m.Root = s.store.root },
		"different":     func(*single, *Status) {},
		"another floor": func(_ *single, m *Status) { m.Floor = 1 },
		"fresh here":    func(s *single, _ *Status) { s.barrier.fresh, s.retention.reported = true, map[gossip.NodeID]bool{} },
	} {
		replies := map[bool]int{}
		for _, asks := range []bool{false, true} {
			s := newSingle(t, 3, nil)
			s.sessions.current.peer = 3
			m := s.statusOf(1)
			m.Fresh = true
			edit(s, m)
			m.Reply = asks
			replies[asks] = len(sentTo[*Status](s.receive(2, m), 2))
		}
		if replies[true] != replies[false]+1 {
			t.Errorf("%s: %d answers to a question, %d without", name, replies[true], replies[false])
		}
	}
}

// TestEqualStatesEndADifference checks that equal roots count as a completed session, as of the older of
// the two views.
func TestEqualStatesEndADifference(t *testing.T) {
	s := newSingle(t, 3, nil)
	e := s.members.epoch
	s.put("k", "e")
	p := s.members.byID[2]
	p.differed, s.antiEntropy.lags = 2, map[gossip.NodeID]lag{3: {1, 1}}
	m := s.statusOf(1)
	m.Root, m.Epoch, m.CaughtUp, m.Sweep, m.Vector = s.store.root, e+1, e, s.barrier.sweep, []Seen{{Node: 1, Seen: 9}, {Node: 3, Seen: 6}, {Node: 8, Seen: 4}}
	if s.receive(2, m); p.differed != 0 || len(s.antiEntropy.lags) != 0 || p.synced != e || p.joined != e {
		t.Errorf("%+v, lags %v", p, s.antiEntropy.lags)
	}
	if tr := s.stream.tracks[3]; tr == nil || tr.seen != 6 || s.stream.tracks[1] != nil {
		t.Errorf("streams %v", s.stream.seenVector())
	}
	if s.stream.tracks[8] == nil {
		t.Error("the stream of a node that is gone is not noted while a peer has not caught up")
	}
	for _, id := range ids(2, 3) {
		s.members.byID[id].caughtUp = e
	}
	if s.receive(2, m); s.stream.tracks[8] != nil {
		t.Error("the stream of a node that is gone stays, although all have caught up")
	}
	m.Root++
	if s.sessions.current.peer = 3; true {
		for want := 1; want <= 2; want++ {
			if s.receive(2, m); p.differed != want {
				t.Errorf("differed %d times, want %d", p.differed, want)
			}
		}
	}
}

// TestASessionBeginsWithAPeerThatDiffers checks that one session runs at a time. The peer of the session
// that failed last is skipped once.
func TestASessionBeginsWithAPeerThatDiffers(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoStream = true })
	s.sessions.avoidPeer = 2
	if s.receive(2, s.statusOf(4)); s.sessions.current.peer != 0 || s.sessions.avoidPeer != 0 {
		t.Errorf("a session with %v, avoiding %v", s.sessions.current.peer, s.sessions.avoidPeer)
	}
	out := s.receive(2, s.statusOf(4))
	cmp := sentTo[*Compare](out, 2)
	if c := s.sessions.current; c.peer != 2 || c.caughtUp != s.members.epoch || s.stats.Descents != 1 || len(cmp) != 1 || cmp[0].Start != 0 || len(cmp[0].Sums) != bucketCount {
		t.Errorf("a session %+v, sent %+v", c, out.Send)
	}
	if out = s.receive(3, s.statusOf(4)); s.sessions.current.peer != 2 || len(receivers[*Compare](out)) != 0 || s.stats.Descents != 1 {
		t.Error("a second session begins")
	}
}

// TestMessagesOfNonMembersAreCounted checks that messages of nodes outside the view are counted and
// ignored, and that a message of a lost peer shows that the peer is back.
func TestMessagesOfNonMembersAreCounted(t *testing.T) {
	s := newSingle(t, 3, nil)
	if out := s.receive(9, s.statusOf(1)); s.stats.ForeignFrames != 1 || len(out.Send) != 0 {
		t.Errorf("%d counted, sends %v", s.stats.ForeignFrames, out.Send)
	}
	p := s.members.byID[2]
	s.put("k", "e")
	s.do(PeerLost{ID: 2})
	if s.pass(s.cfg.BatchEvery); !p.down || p.next != 1 {
		t.Fatalf("down %v, next %d", p.down, p.next)
	}
	p.backoff = 3
	out := s.receive(2, &partAck{})
	if p.down || p.backoff != 0 || len(sentTo[*Deltas](out, 2)) != 1 {
		t.Errorf("down %v, back-off %d, sends %v", p.down, p.backoff, out.Send)
	}
	s.do(PeerUp{ID: 9})
	s.do(PeerLost{ID: 9})
}

// TestALostPeerHasItsRequestsSpread checks that the loss of a peer sends to all members the requests that
// the peer has not answered, unless they were sent to all before.
func TestALostPeerHasItsRequestsSpread(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	first, _ := s.read(majority, replicator.Fence{}, "k")
	second, _ := s.read(majority, replicator.Fence{}, "k")
	s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: first, Prints: []uint64{0}})
	out := s.do(PeerLost{ID: 2})
	if r := s.table.open[first]; r.spread {
		t.Error("a request that it has answered turns to all")
	}
	if r := s.table.open[second]; !r.spread || !slices.Equal(receivers[*ReadRequest](out), ids(2, 3, 4, 5)) {
		t.Errorf("spread %v, asks %v", r.spread, receivers[*ReadRequest](out))
	}
	if out = s.do(PeerLost{ID: 2}); len(out.Send) != 0 {
		t.Error("lost twice")
	}
	if out = s.do(PeerLost{ID: 3}); len(receivers[*ReadRequest](out)) == 0 || !s.table.open[first].spread {
		t.Error("the loss of another one changes nothing")
	}
}

// TestARestSendsAStatusToOnePeer checks that rounds send a Status to the peers in turn. While the view is
// not settled they send it to all peers, and ask for an answer where a state is missing.
func TestARestSendsAStatusToOnePeer(t *testing.T) {
	s := newSingle(t, 3, nil)
	e := s.members.epoch
	for _, p := range s.members.peers {
		p.synced, p.caughtUp = e, e
	}
	var turns []gossip.NodeID
	for range 4 {
		out := s.pass(s.cfg.GossipEvery)
		got := receivers[*Status](out)
		if len(got) != 1 || !sentTo[*Status](out, got[0])[0].Reply {
			t.Fatalf("sends to %v", got)
		}
		turns = append(turns, got[0])
	}
	if turns[0] == turns[1] || turns[0] != turns[2] || turns[1] != turns[3] {
		t.Errorf("in turn: %v", turns)
	}
	s.members.former = []kept{{members: ids(2, 3)}}
	if s.antiEntropy.roundWait() != 2*s.cfg.ResendAfter {
		t.Errorf("the next round in %v", s.antiEntropy.roundWait())
	}
	for name, c := range map[string]struct {
		edit func()
		asks bool
	}{
		"all is here":          {func() {}, false},
		"its state is missing": {func() { s.members.byID[2].synced = e - 1 }, true},
		"it has not caught up": {func() { s.members.byID[2].caughtUp = e - 1 }, true},
		"caught up with less":  {func() { s.members.caughtUp = e - 1 }, true},
	} {
		s.members.byID[2].synced, s.members.byID[2].caughtUp, s.members.caughtUp = e, e, e
		c.edit()
		s.out = &Effects{}
		s.antiEntropy.startRound(s.at)
		if m := sentTo[*Status](s.out, 2); len(m) != 1 || m[0].Reply != c.asks || len(sentTo[*Status](s.out, 3)) != 1 {
			t.Errorf("%s: sends %+v", name, s.out.Send)
		}
	}
	lone := newSingle(t, 1, nil)
	if out := lone.pass(time.Second); len(out.Send) != 0 || lone.antiEntropy.round != 0 || lone.antiEntropy.gossipAt == 0 {
		t.Error("a replica alone begins rounds")
	}
}

// TestTheDeadlineIsTheFirstOfAll checks that the deadline is the earliest of batches, rounds,
// retransmissions, requests and questions.
func TestTheDeadlineIsTheFirstOfAll(t *testing.T) {
	for name, edit := range map[string]func(s *single, at clock.Instant){
		"a batch":          func(s *single, at clock.Instant) { s.stream.batchAt = at },
		"a round":          func(s *single, at clock.Instant) { s.antiEntropy.gossipAt = at },
		"pruning":          func(s *single, at clock.Instant) { s.pruner.pruneAt = at },
		"a retransmission": func(s *single, at clock.Instant) { s.members.byID[3].resendAt = at },
		"a part":           func(s *single, at clock.Instant) { s.members.byID[3].out.queue = []*sending{{at: at}} },
		"a request":        func(s *single, at clock.Instant) { s.table.timers.pushTimer(at, 1) },
		"a question": func(s *single, at clock.Instant) {
			s.sessions.current = session{peer: 2, sources: []source{{peer: 2}}, asks: []ask{{peer: 2, at: at.Add(-s.cfg.ResendAfter), tries: 1}}}
		},
	} {
		s := newSingle(t, 3, nil)
		at := clock.Instant(100 * time.Millisecond)
		if edit(s, at); s.Deadline() != at {
			t.Errorf("%s: %v, want %v", name, s.Deadline(), at)
		}
	}
	s := newSingle(t, 3, nil)
	s.disk.failure = replicator.ErrDurable
	if s.DiskFails(nil); s.Deadline() != s.now {
		t.Error("a disk that works again is not due immediately")
	}
	if s.do(Tick{}); s.Deadline() == s.now || s.disk.mended {
		t.Error("it is due for ever")
	}
}

// TestWhichStateReplacesWhich checks that a later generation wins, then the lower kind, then the later
// era, and that values join otherwise.
func TestWhichStateReplacesWhich(t *testing.T) {
	set := func(id crdt.NodeID) crdt.Value {
		v, _ := crdt.New(crdt.KindORSet)
		v.(*crdt.ORSet[string]).Add(id, "e")
		return v
	}
	register := func() crdt.Value {
		v, _ := crdt.New(crdt.KindLWWRegister)
		v.(*crdt.LWWRegister[string]).Set("r", crdt.Stamp{Time: 1 << 40, Node: 1})
		return v
	}
	low, high := set(1), register()
	if low.Kind() > high.Kind() {
		low, high = high, low
	}
	for name, c := range map[string]struct {
		gen      uint64
		v        crdt.Value
		inGen    uint64
		in       crdt.Value
		changed  bool
		wantGen  uint64
		wantKind crdt.Kind
	}{
		"an earlier generation":     {2, low, 1, high, false, 2, low.Kind()},
		"a later one":               {1, low, 2, high, true, 2, high.Kind()},
		"a later deletion":          {1, low, 2, nil, true, 2, 0},
		"a deletion of the same":    {1, low, 1, nil, false, 1, low.Kind()},
		"a value in a deleted one":  {1, nil, 1, low, true, 1, low.Kind()},
		"a lower kind":              {1, high, 1, low, true, 1, low.Kind()},
		"a higher kind":             {1, low, 1, high, false, 1, low.Kind()},
		"the same value":            {1, low, 1, low.Clone(), false, 1, low.Kind()},
		"the same deletion, twice":  {1, nil, 1, nil, false, 1, 0},
		"another value of its kind": {1, set(1), 1, set(2), true, 1, crdt.KindORSet},
	} {
		st := &store{}
		it := st.obtain("k")
		st.absorb(it, c.gen, 0, c.v)
		before := st.changes
		if got := st.absorb(it, c.inGen, 0, c.in); got != c.changed || it.gen != c.wantGen || it.kind() != c.wantKind || (st.changes > before) != c.changed {
			t.Errorf("%s: changed %v, generation %d, kind %v", name, got, it.gen, it.kind())
		}
	}
	st := &store{}
	it := st.obtain("k")
	if !st.absorb(it, 0, 0, nil) || it.print == 0 || st.tombs != 1 {
		t.Error("the first deletion of a key is no change")
	}
	r := st.obtain("r")
	st.absorb(r, 0, 1, register())
	if st.absorb(r, 0, 0, register()) && r.era != 1 {
		t.Errorf("a state of an earlier era takes the key back to %d", r.era)
	}
	if !st.absorb(r, 0, 2, register()) || r.era != 2 {
		t.Errorf("a state of a later era: the key is in era %d", r.era)
	}
}

// TestStateOfPeersHasTwiceTheRoom checks that state of peers may be twice as large as own writes.
func TestStateOfPeersHasTwiceTheRoom(t *testing.T) {
	e, ms := newParts(Config{Limits: Limits{KeyBytes: 4, Keys: 2, ValueBytes: 10, TotalBytes: 1000}}, 2)
	for name, c := range map[string]struct {
		edit  func(vs *values)
		in    Item
		limit string
	}{
		"a long name":               {func(*values) {}, Item{Key: "12345678"}, ""},
		"a longer one":              {func(*values) {}, Item{Key: "123456789"}, "KeyBytes"},
		"another key":               {func(vs *values) { vs.store.keys = 3 }, Item{Key: "k"}, ""},
		"one too many":              {func(vs *values) { vs.store.keys = 4 }, Item{Key: "k"}, "Keys"},
		"a known key":               {func(vs *values) { vs.store.obtain("k"); vs.store.keys = 4 }, Item{Key: "k"}, ""},
		"a large value":             {func(*values) {}, Item{Key: "k", Bytes: make([]byte, 20)}, ""},
		"a larger one":              {func(*values) {}, Item{Key: "k", Bytes: make([]byte, 21)}, "ValueBytes"},
		"to a large value":          {func(vs *values) { vs.store.obtain("k").bytes = 20 }, Item{Key: "k"}, ""},
		"to a larger one":           {func(vs *values) { vs.store.obtain("k").bytes = 21 }, Item{Key: "k"}, "ValueBytes"},
		"as much as fits":           {func(vs *values) { vs.store.bytes = 1990 }, Item{Key: "k", Bytes: make([]byte, 10)}, ""},
		"a byte more than that":     {func(vs *values) { vs.store.bytes = 1990 }, Item{Key: "k", Bytes: make([]byte, 11)}, "TotalBytes"},
		"a key, where values count": {func(vs *values) { vs.store.bytes = 2000 }, Item{Key: "k"}, ""},
	} {
		vs := newValues(e, ms)
		c.edit(vs)
		limit := ""
		if err, ok := vs.checkRoom(&c.in).(*replicator.Error); ok {
			limit = err.Limit
		}
		if limit != c.limit {
			t.Errorf("%s: refused by %q, want %q", name, limit, c.limit)
		}
	}
}
