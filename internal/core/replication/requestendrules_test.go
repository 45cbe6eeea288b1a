package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// TestTimersAreDueInOrder checks that timers are due by their times, those of one time by the
// numbers of their requests.
func TestTimersAreDueInOrder(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var ts timers
		var want []timer
		for id := range RequestID(rng.IntN(40)) {
			tm := timer{clock.Instant(rng.IntN(8)), id}
			want = append(want, tm)
		}
		for _, i := range rng.Perm(len(want)) {
			ts.pushTimer(want[i].at, want[i].id)
		}
		slices.SortFunc(want, func(a, b timer) int {
			if a.at != b.at {
				return int(a.at) - int(b.at)
			}
			return int(a.id) - int(b.id)
		})
		var got []timer
		for len(ts) > 0 {
			got = append(got, ts.pop())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: due %v, want %v", seed, got, want)
		}
	}
}

// TestEndedWritesLeaveTheList checks that ended writes are removed once more than 32 have ended
// and they outnumber the rest. Reads are not counted.
func TestEndedWritesLeaveTheList(t *testing.T) {
	for name, c := range map[string]struct{ ended, open, reads, left int }{
		"few have ended":              {32, 0, 0, 32},
		"enough have":                 {33, 0, 0, 0},
		"as many are open":            {33, 33, 0, 66},
		"they outnumber the open":     {34, 33, 0, 33},
		"reads end":                   {20, 0, 40, 20},
		"the count begins anew":       {33 + 32, 0, 0, 32},
		"and reaches the bound again": {33 + 33, 0, 0, 0},
	} {
		e, ms := newParts(Config{}, 3)
		tb := &table{env: e, members: ms, open: map[RequestID]*request{}}
		for range c.open {
			tb.writes = append(tb.writes, &request{entry: &Entry{}, update: true})
		}
		for range c.reads {
			tb.removeRequest(&request{})
		}
		var ended []*request
		for range c.ended {
			r := &request{entry: &Entry{}, update: true}
			if tb.writes = append(tb.writes, r); c.open == 0 {
				tb.removeRequest(r)
			} else {
				ended = append(ended, r)
			}
		}
		for _, r := range ended {
			tb.removeRequest(r)
		}
		if len(tb.writes) != c.left {
			t.Errorf("%s: %d writes are left, want %d", name, len(tb.writes), c.left)
		}
	}
}

// TestTheOwnCopyCountsUnlessItsDiskFails checks that this node counts for its own requests, but for
// writes of durable keys while the disk fails.
func TestTheOwnCopyCountsUnlessItsDiskFails(t *testing.T) {
	kept, other := &Entry{Items: []Item{{Key: "kept"}}}, &Entry{Items: []Item{{Key: "other"}}}
	for name, c := range map[string]struct {
		fails  bool
		entry  *Entry
		counts bool
	}{
		"a durable write":               {false, kept, true},
		"a durable write, disk fails":   {true, kept, false},
		"a write in memory":             {false, other, true},
		"a write in memory, disk fails": {true, other, true},
		"a read":                        {false, nil, true},
		"a read, disk fails":            {true, nil, true},
	} {
		e, ms := newParts(Config{Keep: func(key string) bool { return key == "kept" }}, 3)
		tb := &table{env: e, members: ms, disk: &disk{env: e}}
		if c.fails {
			tb.disk.failure = errors.New("full")
		}
		if got := tb.counts(&request{entry: c.entry})(1); got != c.counts {
			t.Errorf("%s: counts %v", name, got)
		}
	}
}

// TestAWriteThatHasEndedIsAnsweredOnce checks that a write which ended before the disk failed has no
// second reply when the disk works again.
func TestAWriteThatHasEndedIsAnsweredOnce(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Keep = true, func(string) bool { return true } })
	s.update(majority, replicator.Fence{}, addTo(1, "k", "e"))
	if out := s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1}); len(out.Reply) != 1 || !out.Reply[0].Disk {
		t.Fatalf("replies %+v", out.Reply)
	}
	s.update(majority, replicator.Fence{}, addTo(1, "k", "f"))
	s.DiskFails(errors.New("full"))
	if out := s.receive(2, &Ack{Epoch: s.members.epoch, From: 2, To: 2, Seen: 2}); len(out.Reply) != 0 {
		t.Fatalf("without the own copy: %+v", out.Reply)
	}
	s.DiskFails(nil)
	if out := s.do(Tick{}); len(out.Reply) != 1 || out.Reply[0].ID != s.ids || out.Reply[0].Err != nil {
		t.Errorf("replies %+v", out.Reply)
	}
}

// TestWhichRepliesWaitForTheDisk checks that a reply waits for the disk if it counts this node for
// durable keys: not if it is about other keys, and not if it is an error.
func TestWhichRepliesWaitForTheDisk(t *testing.T) {
	for _, key := range []string{"kept", "other"} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.Keep = true, func(k string) bool { return k == "kept" } })
		s.update(majority, replicator.Fence{}, addTo(1, key, "e"))
		if out := s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1}); len(out.Reply) != 1 || out.Reply[0].Disk != (key == "kept") {
			t.Errorf("%s: replies %+v", key, out.Reply)
		}
		if _, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, key, "f")); out.Reply[0].Disk != (key == "kept") {
			t.Errorf("%s, locally: replies %+v", key, out.Reply)
		}
		if out := s.pass(s.cfg.BatchEvery); len(out.Send) != 2 || out.Send[0].Disk || out.Send[1].Disk {
			t.Errorf("%s: its entry waits for the disk: %+v", key, out.Send)
		}
		s.update(majority, replicator.Fence{}, addTo(1, key, "g"))
		if out := s.pass(s.cfg.Timeout); len(out.Reply) != 1 || out.Reply[0].Err == nil || out.Reply[0].Disk {
			t.Errorf("%s, an error: replies %+v", key, out.Reply)
		}
		id, _ := s.read(majority, replicator.Fence{}, key)
		if out := s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{s.store.print(key)}}); len(out.Reply) != 1 || out.Reply[0].Disk != (key == "kept") {
			t.Errorf("%s, a read: replies %+v", key, out.Reply)
		}
		if _, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, "another", "e")); out.Reply[0].Disk {
			t.Errorf("after %s, another key waits for the disk", key)
		}
	}
}

// TestARequestThatEndsReleasesItsSnapshots checks that an update which is cancelled or given up
// while it asks for stamps releases the snapshots of its plans. Unknown requests may be cancelled.
func TestARequestThatEndsReleasesItsSnapshots(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		s.update(replicator.Local, replicator.Fence{}, stampRegister(1, "v"))
		base := s.Snapshot(registerKey)
		s.ids++
		s.do(Update{ID: s.ids, Ops: []operation.Op{stampRegister(1, "w")}, Bases: []*Snapshot{base}, Level: majority})
		if pins := s.store.itemOf(registerKey).pins; s.table.open[s.ids].phase != stamping || pins.n != 1 {
			t.Fatalf("%d snapshots are held while it asks for stamps", pins.n)
		}
		pins := s.store.itemOf(registerKey).pins
		if cancel {
			if out := s.do(Cancel{ID: s.ids}); len(out.Reply) != 0 {
				t.Errorf("a cancelled request is answered: %+v", out.Reply)
			}
		} else {
			s.pass(s.cfg.Timeout)
		}
		if s.table.open[s.ids] != nil || pins.n != 0 {
			t.Errorf("cancelled %v: %d snapshots are held at the end", cancel, pins.n)
		}
		if out := s.do(Cancel{ID: 99}); len(out.Reply) != 0 {
			t.Errorf("an unknown request: %+v", out.Reply)
		}
	}
}

// TestOnlyAVoterWithALeaseEndsRequests checks that neither a lease without a vote nor a vote without
// a lease ends requests above level Local, and that a core without leases needs none.
func TestOnlyAVoterWithALeaseEndsRequests(t *testing.T) {
	for name, c := range map[string]struct {
		leases, valid, votes, has bool
	}{
		"a lease and a vote":       {true, true, true, true},
		"a lease alone":            {true, true, false, false},
		"a vote alone":             {true, false, true, false},
		"neither":                  {true, false, false, false},
		"leases are not in use":    {false, false, true, true},
		"nor is there a vote here": {false, false, false, true},
	} {
		var cfg Config
		if c.leases {
			cfg.LeaseValid = func() bool { return c.valid }
		}
		e, ms := newParts(cfg, 3)
		if !c.votes {
			ms.voters = ids(2, 3)
		}
		if got := (&table{env: e, members: ms}).hasLease(); got != c.has {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAnErrorAtTheDeadlineNamesTheRefusal checks that a write which a member refused as ahead of its
// clock fails with that refusal at its deadline, unless this node has no lease.
func TestAnErrorAtTheDeadlineNamesTheRefusal(t *testing.T) {
	for _, lease := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.LeaseValid = true, func() bool { return lease } })
		s.update(majority, replicator.Fence{}, fixedIn("k", "v", crdt.Stamp{Time: 5 << tickBits, Node: 1}))
		s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Refused: []Refusal{{Seq: 1, Why: whyAhead, Wall: 3}}})
		out := s.pass(s.cfg.Timeout)
		want := map[bool]error{true: replicator.ErrAhead, false: replicator.ErrNoLease}[lease]
		if len(out.Reply) != 1 || !errors.Is(out.Reply[0].Err, want) {
			t.Errorf("lease %v: replies %+v", lease, out.Reply)
		}
		if errors := s.stats.LeaseErrors; errors != map[bool]uint64{true: 0, false: 1}[lease] {
			t.Errorf("lease %v: counts %d errors of leases", lease, errors)
		}
	}
}

// TestAReadRetransmitsItsRepairs checks that a read which repairs sends its values again to the nodes
// that have answered and not confirmed, and to no other.
func TestAReadRetransmitsItsRepairs(t *testing.T) {
	s, id := newReading(t, replicator.Fence{})
	s.pass(s.cfg.SpreadMax)
	s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{1}, Items: []Item{setItem("k", 9, "e")}})
	s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}})
	if s.table.open[id].phase != repairing {
		t.Fatal("does not repair")
	}
	s.receive(2, &RepairAck{Epoch: s.members.epoch, ID: id})
	out := s.pass(s.table.open[id].resendAt.Sub(s.at))
	if got := receivers[*Repair](out); !slices.Equal(got, ids(3)) {
		t.Errorf("repairs %v", got)
	}
	if m := sentTo[*Repair](out, 3); len(m) != 1 || m[0].ID != id || len(m[0].Items) != 1 || m[0].Items[0].Key != "k" {
		t.Errorf("sends %+v", m)
	}
}

// TestAMissingAnswerIsCountedOnce checks that a member of several quorums is asked once, and that
// this node is not asked.
func TestAMissingAnswerIsCountedOnce(t *testing.T) {
	e, ms := newParts(Config{}, 4)
	ms.former = []kept{{members: ids(1, 2, 3)}, {members: ids(3, 4), all: true}}
	tb := &table{env: e, members: ms}
	r := &request{level: majority, answers: map[gossip.NodeID]gossip.Epoch{2: ms.epoch}}
	if got := tb.missingAnswers(r); !slices.Equal(got, ids(3, 4)) {
		t.Errorf("missing %v", got)
	}
}

// withView hands the core the next view, with these members, all voting.
func (s *single) withView(members ...gossip.NodeID) *Effects {
	s.t.Helper()
	v := &gossip.View{Cluster: 1, Epoch: s.members.epoch + 1}
	for _, id := range members {
		v.Members = append(v.Members, member(id, gossip.Up))
	}
	return s.do(ViewChanged{View: v})
}

// TestARequestTurnsToNewMembers checks that in a new view each open request turns, in the order of
// their numbers, to as many further members as it needs.
func TestARequestTurnsToNewMembers(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
	var reads []RequestID
	for i := range 8 {
		id, _ := s.read(majority, replicator.Fence{}, fmt.Sprint("k", i))
		reads = append(reads, id)
	}
	_, out := s.update(majority, replicator.Fence{}, addTo(1, "w", "e"))
	if got := receivers[*Deltas](out); !slices.Equal(got, ids(2, 3)) {
		t.Fatalf("writes to %v", got)
	}
	s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: reads[0], Prints: []uint64{0}})
	out = s.withView(1, 2, 4, 5)
	var asked []RequestID
	for _, m := range sentTo[*ReadRequest](out, 4) {
		asked = append(asked, m.ID)
	}
	if !slices.Equal(asked, reads) || slices.Contains(receivers[*ReadRequest](out), 2) {
		t.Errorf("asks node 4 in the requests %v, and the nodes %v", asked, receivers[*ReadRequest](out))
	}
	if got := receivers[*Deltas](out); !slices.Contains(got, gossip.NodeID(4)) {
		t.Errorf("writes to %v", got)
	}
}

// TestAMemberThatIsDownIsNotReliedOn checks that in a new view a request which was sent to a member
// whose connection is lost turns to another member.
func TestAMemberThatIsDownIsNotReliedOn(t *testing.T) {
	for _, down := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		s.read(replicator.To(2), replicator.Fence{}, "k")
		s.members.byID[2].down = down
		out := s.withView(1, 2, 3, 4)
		if got := receivers[*ReadRequest](out); slices.Equal(got, ids(3)) != down || len(got) > 1 {
			t.Errorf("down %v: asks %v", down, got)
		}
	}
}

// TestRemovedKeysAreAskedAnew checks that reads and questions for stamps begin a new round when keys
// are set aside, as their answers rest on these. Writes and repairs go on.
func TestRemovedKeysAreAskedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(s *single) RequestID
		anew  bool
	}{
		"a read": {func(s *single) RequestID { id, _ := s.read(replicator.To(3), replicator.Fence{}, "k"); return id }, true},
		"a question for stamps": {func(s *single) RequestID {
			id, _ := s.update(replicator.To(3), replicator.Fence{}, stampRegister(1, "v"))
			return id
		}, true},
		"a write": {func(s *single) RequestID {
			id, _ := s.update(replicator.To(3), replicator.Fence{}, addTo(1, "k", "e"))
			return id
		}, false},
	} {
		s := newSingle(t, 5, func(c *Config) { c.NoGossip = true })
		id := c.begin(s)
		r := s.table.open[id]
		r.answers[2], r.asked = s.members.epoch, append(r.asked, 5)
		out := &Effects{}
		s.out = out
		s.requests.askAfterRemoval(s.at)
		s.out = nil
		asked := slices.Concat(receivers[*ReadRequest](out), receivers[*StampQuery](out))
		if c.anew != (r.round == 1) || c.anew != (len(r.answers) == 0) || c.anew != slices.Equal(asked, ids(2, 3)) {
			t.Errorf("%s: round %d, answers %v, asks %v", name, r.round, r.answers, asked)
		}
		if c.anew && !slices.Equal(r.asked, ids(2, 3)) {
			t.Errorf("%s: still counts on %v", name, r.asked)
		}
	}
}

// TestAnExtendedRequestIsSentAgain checks that a request whose deadline passes in a pause is sent
// again in the step that extends it, though its next retransmission is due later, and that it ends at
// its second deadline to the nanosecond. A read that repairs sends its values again.
func TestAnExtendedRequestIsSentAgain(t *testing.T) {
	for _, repairs := range []bool{false, true} {
		s := newSingle(t, 5, func(c *Config) { c.NoGossip, c.Timeout = true, 4*time.Second })
		began := s.at
		id, _ := s.read(majority, replicator.Fence{}, "k")
		if repairs {
			s.pass(s.cfg.SpreadMax)
			s.receive(2, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{1}, Items: []Item{setItem("k", 9, "e")}})
			s.receive(3, &ReadResult{Epoch: s.members.epoch, ID: id, Prints: []uint64{0}})
		}
		for s.Deadline() < began.Add(4*time.Second) {
			s.at = s.Deadline()
			s.do(Tick{})
		}
		s.at = began.Add(4100 * time.Millisecond)
		if r := s.table.open[id]; r == nil || r.resendAt <= s.at {
			t.Fatalf("repairs %v: a retransmission is due anyway", repairs)
		}
		out := s.do(Tick{})
		if repairs && !slices.Equal(receivers[*Repair](out), ids(2, 3)) || repairs == (len(receivers[*ReadRequest](out)) == 4) {
			t.Errorf("repairs %v: sends %v", repairs, out.Send)
		}
		if out = s.pass(200*time.Millisecond - 1); len(out.Reply) != 0 || s.Deadline() != s.at.Add(1) {
			t.Errorf("repairs %v: replies %v, looks again in %v", repairs, out.Reply, s.Deadline().Sub(s.at))
		}
		if out = s.pass(1); len(out.Reply) != 1 {
			t.Errorf("repairs %v: is open after its second deadline", repairs)
		}
	}
}

// TestARequestIsSentOnceAtATime checks that a retransmission before a request turns to all goes to the
// members that were asked, and that each member has one message of it at a time.
func TestARequestIsSentOnceAtATime(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip, c.SpreadMax = true, 70*time.Millisecond })
	s.read(majority, replicator.Fence{}, "k")
	for _, c := range []struct {
		pass time.Duration
		to   []gossip.NodeID
	}{{50, ids(2, 3)}, {20, ids(2, 3, 4, 5)}, {80, ids(2, 3, 4, 5)}} {
		out := s.pass(c.pass * time.Millisecond)
		if got := receivers[*ReadRequest](out); !slices.Equal(got, c.to) || len(out.Send) != len(c.to) {
			t.Errorf("after %v: %d messages to %v, want %v", s.at.Sub(1), len(out.Send), got, c.to)
		}
	}
}

// TestAnUpdateHasTheTimeOfItsRequest checks that a request without a deadline has Config.Timeout.
func TestAnUpdateHasTheTimeOfItsRequest(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second} {
		s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
		ev := Read{ID: 1, Keys: []string{"k"}, Level: majority}
		if given > 0 {
			ev.Deadline = s.at.Add(given)
		}
		s.do(ev)
		if got := s.table.open[1].deadline.Sub(s.at); got != want {
			t.Errorf("deadline %v: ends after %v", given, got)
		}
	}
}
