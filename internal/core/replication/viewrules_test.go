package replication

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// TestOlderViewsAreIgnored checks that only a newer view than the present one changes anything.
func TestOlderViewsAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		change int64
		none   bool
		taken  bool
	}{
		"none":     {none: true},
		"older":    {change: -1},
		"the same": {change: 0},
		"the next": {change: 1, taken: true},
		"a later":  {change: 7, taken: true},
	} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		own := s.members.view
		var v *gossip.View
		if !c.none {
			v = &gossip.View{Cluster: 1, Epoch: gossip.Epoch(int64(own.Epoch) + c.change), Members: []gossip.Member{member(1, gossip.Up), member(2, gossip.Up)}}
		}
		s.do(ViewChanged{View: v})
		if got := s.members.view == own; got == c.taken || (len(s.members.voters) == 2) != c.taken {
			t.Errorf("%s: taken %v, %d voters", name, !got, len(s.members.voters))
		}
	}
}

// TestAReplicaAloneHasCaughtUp checks that in a view without other members a replica waits for none of
// the former ones, is no longer fresh, and takes writes at a majority.
func TestAReplicaAloneHasCaughtUp(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Keep = true, func(string) bool { return true } })
	s.barrier.fresh, s.retention.reported = true, map[gossip.NodeID]bool{}
	if s.withView(1); len(s.members.former) != 0 || s.members.behind || s.members.caughtUp != s.members.epoch || s.barrier.fresh {
		t.Errorf("former %v, behind %v, caught up with %v of %v, fresh %v", s.members.former, s.members.behind, s.members.caughtUp, s.members.epoch, s.barrier.fresh)
	}
	if _, out := s.update(majority, replicator.Fence{}, addTo(1, "k", "e")); len(out.Reply) != 1 || out.Reply[0].Err != nil {
		t.Errorf("replies %+v", out.Reply)
	}
}

// TestAReplicaLeftByItsJoinerIsNotBehind checks that a replica which was behind, and is the only voter, has
// caught up when the last joining member goes.
func TestAReplicaLeftByItsJoinerIsNotBehind(t *testing.T) {
	s := newSingle(t, 2, func(c *Config) { c.NoGossip = true })
	v := &gossip.View{Cluster: 1, Epoch: s.members.epoch + 1, Members: []gossip.Member{member(1, gossip.Up), member(2, gossip.Joining)}}
	s.do(ViewChanged{View: v})
	s.members.former, s.members.behind, s.members.caughtUp = nil, true, 0
	if s.withView(1); s.members.behind || s.members.caughtUp != s.members.epoch {
		t.Errorf("behind %v, caught up with %v of %v", s.members.behind, s.members.caughtUp, s.members.epoch)
	}
}

// TestAViewEndsTheRoundOfPruning checks that a new view ends the round of pruning: its members differ.
func TestAViewEndsTheRoundOfPruning(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.pruner.pruneRound.attempt, s.pruner.idleRounds = 7, 3
	if s.withView(1, 2); s.pruner.pruneRound.attempt != 0 || s.pruner.idleRounds != 0 {
		t.Errorf("round %d, %d idle ones", s.pruner.pruneRound.attempt, s.pruner.idleRounds)
	}
}

// TestACompletedSessionIsNoted checks that a session which finds nothing more notes that the state of
// its primary was taken over, as of the vector, the view and the sweep of its beginning.
func TestACompletedSessionIsNoted(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoStream = true })
	s.barrier.sweep = 5
	e, p := s.members.epoch, s.members.byID[2]
	cmp := sentTo[*Compare](s.receive(2, s.statusOf(1)), 2)
	if len(cmp) != 1 {
		t.Fatalf("%d comparisons", len(cmp))
	}
	s.barrier.sweep = 6
	s.receive(2, &Differ{Session: cmp[0].Session, Ask: cmp[0].Ask, Epoch: e, Next: bucketCount, Vector: []Seen{{Node: 3, Seen: 6}}, Fences: []replicator.Fence{{Group: "g", Term: 4}}})
	if p.synced != e || p.joined != e || p.swept != 5 || s.Term("g") != 4 {
		t.Errorf("%+v, term %d", p, s.Term("g"))
	}
	if tr := s.stream.tracks[3]; tr == nil || tr.seen != 6 {
		t.Error("the vector is not taken over")
	}
}

// TestValuesOfAnotherFloorEndASession checks that values of another floor than the own one are not
// merged and end the session with its primary, and that they are ignored if they belong to no session.
func TestValuesOfAnotherFloorEndASession(t *testing.T) {
	for _, other := range []bool{false, true} {
		s, _ := pulling(t, 2, 2)
		id := s.sessions.current.id
		if other {
			id++
		}
		s.receive(2, &Values{Floor: 3, Session: id, Ask: 2, Answered: 1, Items: []Item{setItem("k0", 2, "e")}})
		if (s.sessions.current.peer != 0) != other || s.Value("k0") != nil {
			t.Errorf("another session %v: pulls from %v", other, s.sessions.current.peer)
		}
	}
}

// TestAPeerIsUpAgain checks that the entries which were in flight when a connection was lost are sent
// again when it stands, without waiting for their retransmission.
func TestAPeerIsUpAgain(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.put("k", "e")
	s.pass(s.cfg.BatchEvery)
	s.do(PeerLost{ID: 2})
	out := s.do(PeerUp{ID: 2})
	if m := sentTo[*Deltas](out, 2); len(m) != 1 || m[0].From != 1 || s.members.byID[2].down {
		t.Errorf("sends %+v", out.Send)
	}
}

// TestSweepsAreCountedFromTheFirstStep checks that the time until the first sweep begins with the first
// step, and that later ones do not move it.
func TestSweepsAreCountedFromTheFirstStep(t *testing.T) {
	s := newSingle(t, 1, func(c *Config) { c.Keep, c.Retain = func(string) bool { return true }, 16*time.Hour })
	s.put("k", "e")
	s.deleteKey("k")
	at := s.retention.nextSweep()
	if s.pass(time.Minute); s.retention.nextSweep() != at || at.Sub(1) != time.Hour {
		t.Errorf("due in %v, then in %v", at.Sub(1), s.retention.nextSweep().Sub(1))
	}
	late := &single{Core: New(Config{Self: 1, NoPack: true, Keep: func(string) bool { return true }, Retain: 16 * time.Hour}), t: t, at: 1}
	late.at = late.at.Add(3 * time.Hour)
	late.put("k", "e")
	if late.deleteKey("k"); late.retention.nextSweep().Sub(late.at) != time.Hour {
		t.Errorf("started late: due in %v", late.retention.nextSweep().Sub(late.at))
	}
}

// TestStateOfAnotherFloorIsNotTaken checks that messages with state of another floor change nothing, and
// are answered with nothing that confirms them.
func TestStateOfAnotherFloorIsNotTaken(t *testing.T) {
	items := []Item{setItem("k", 2, "e")}
	for name, m := range map[string]Message{
		"entries":         &Deltas{Floor: 1, From: 1, Entries: []*Entry{{Items: items}}},
		"an answer":       &ReadResult{Floor: 1, Items: items},
		"parts":           &PartsResult{Floor: 1, Items: items},
		"a repair":        &Repair{Floor: 1, Items: items},
		"values":          &Values{Floor: 1, Items: items},
		"answered stamps": &StampAnswer{Floor: 1, Wall: noon},
	} {
		for _, same := range []bool{false, true} {
			s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Wall = true, func() uint64 { return noon } })
			s.clocks.peersReported = true
			if same {
				s.barrier.floor = 1
			}
			out := s.receive(2, m)
			if took := s.Value("k") != nil || s.members.byID[2].clocked; took != same {
				t.Errorf("%s, of the own floor %v: taken %v", name, same, took)
			}
			if confirmed := len(receivers[*Ack](out)) + len(receivers[*RepairAck](out)); !same && confirmed > 0 {
				t.Errorf("%s: confirmed", name)
			}
		}
	}
}

// TestQuestionsAreAnsweredAtAnyFloor checks that messages which only ask for the present
// state are answered at any floor.
func TestQuestionsAreAnsweredAtAnyFloor(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.put("k", "e")
	for name, c := range map[string]struct {
		m      Message
		answer func(*Effects) []gossip.NodeID
	}{
		"a read":           {&ReadRequest{Epoch: s.members.epoch, Keys: []string{"k"}, Prints: []uint64{0}}, receivers[*ReadResult]},
		"a read of parts":  {&ReadParts{Key: "k"}, receivers[*PartsResult]},
		"a stamp query":    {&StampQuery{Asks: []stampAsk{{Key: "k"}}}, receivers[*StampAnswer]},
		"a comparison":     {&Compare{Sums: make([]uint64, bucketCount)}, receivers[*Differ]},
		"a fetch":          {&Fetch{Keys: []string{"k"}, Credit: 1000}, receivers[*Values]},
		"a fetch of parts": {&FetchParts{Key: "k"}, receivers[*Values]},
		"a part":           {&Part{Transfer: 9, Total: 2, Data: []byte("x")}, receivers[*partAck]},
	} {
		if got := c.answer(s.receive(3, c.m)); !slices.Equal(got, ids(3)) {
			t.Errorf("%s: answers to %v", name, got)
		}
	}
}

// TestASettledViewEndsRequests checks that a write which waited for former voters alone ends in the step
// in which the view settles, and that a read asks anew.
func TestASettledViewEndsRequests(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	s.members.former = []kept{{members: ids(2, 3), all: true}}
	write, _ := s.update(majority, replicator.Fence{}, addTo(1, "k", "e"))
	read, _ := s.read(majority, replicator.Fence{}, "l")
	if out := s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1}); len(out.Reply) != 0 {
		t.Fatalf("ends without node 3: %+v", out.Reply)
	}
	s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: read, Prints: []uint64{0}})
	m := s.statusOf(1)
	m.Root = s.store.root
	out := s.receive(2, m)
	if len(s.members.former) != 0 || len(out.Reply) != 1 || out.Reply[0].ID != write || out.Reply[0].Err != nil {
		t.Errorf("former %v, replies %+v", s.members.former, out.Reply)
	}
	if q := sentTo[*ReadRequest](out, 2); len(q) != 1 || q[0].Round != 1 || len(s.table.open[read].answers) != 0 {
		t.Errorf("asks %+v", q)
	}
}
