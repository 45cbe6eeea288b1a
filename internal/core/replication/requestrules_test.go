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
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// TestRequestsAreAdmittedUpToTheLimits checks that a request at a limit is admitted, and that a request
// above it is refused.
func TestRequestsAreAdmittedUpToTheLimits(t *testing.T) {
	limits := Limits{RequestOps: 3, Pending: 2, LogEntries: 2, FenceGroups: 2}
	far := uint64(gossip.FirstEpoch(9+gossip.GenerationsAhead)) | (1<<32 - 1)
	for name, c := range map[string]struct {
		level  replicator.Level
		fence  replicator.Fence
		keys   int
		voters int
		open   int
		own    int
		fresh  bool
		limit  string
		max    int
		got    int
		code   error
	}{
		"as many keys as may be":     {keys: 3, voters: 3},
		"more":                       {keys: 4, voters: 3, limit: "RequestOps", max: 3, got: 4},
		"a place is left":            {voters: 3, open: 1},
		"none is":                    {voters: 3, open: 2, limit: "Pending", max: 2, got: 2},
		"fresh, with room":           {voters: 3, own: 1, fresh: true},
		"fresh, without":             {voters: 3, own: 2, fresh: true, limit: "LogEntries", max: 2, got: 2},
		"no longer fresh":            {voters: 3, own: 2},
		"a known group":              {fence: replicator.Fence{Group: "a", Term: 5}, voters: 3},
		"another group":              {fence: replicator.Fence{Group: "c", Term: 5}, voters: 3, limit: "FenceGroups", max: 2, got: 2},
		"an earlier term":            {fence: replicator.Fence{Group: "a", Term: 4}, voters: 3, code: replicator.ErrFenced},
		"the last term":              {fence: replicator.Fence{Group: "a", Term: far}, voters: 3},
		"a term that is far":         {fence: replicator.Fence{Group: "a", Term: far + 1}, voters: 3, limit: "FenceTerm", max: 9 + gossip.GenerationsAhead, got: 9 + gossip.GenerationsAhead + 1},
		"a long group":               {fence: replicator.Fence{Group: strings.Repeat("b", groupBytesMax), Term: 5}, voters: 3},
		"a longer one":               {fence: replicator.Fence{Group: strings.Repeat("b", groupBytesMax+1), Term: 5}, voters: 3, limit: "fence group bytes", max: groupBytesMax, got: groupBytesMax + 1},
		"no voter":                   {level: majority, code: replicator.ErrTooFewMembers},
		"no voter, local":            {},
		"as many as there are":       {level: replicator.To(3), voters: 3},
		"more than there are":        {level: replicator.To(4), voters: 3, code: replicator.ErrTooFewMembers},
		"all of them, which is none": {level: replicator.All, code: replicator.ErrTooFewMembers},
	} {
		e, ms := newParts(Config{Limits: limits}, gossip.NodeID(c.voters))
		ms.epoch = gossip.FirstEpoch(9)
		second := "b"
		if len(c.fence.Group) > 1 {
			second = c.fence.Group
		}
		tb := &table{env: e, members: ms, disk: &disk{env: e}, open: map[RequestID]*request{}, barrier: &barrier{fresh: c.fresh, own: make([]Item, c.own)},
			fences: &fences{env: e, members: ms, max: 2, terms: map[string]uint64{"a": 5, second: 1}}}
		for i := range c.open {
			tb.open[RequestID(i+1)] = &request{}
		}
		err := tb.admitRequest(c.level, c.fence, c.keys)
		var limit *replicator.Error
		switch {
		case c.limit != "":
			if !errors.As(err, &limit) || limit.Limit != c.limit || limit.Max != c.max || limit.Got != c.got {
				t.Errorf("%s: %v, want %s of %d at most %d", name, err, c.limit, c.got, c.max)
			}
		case !errors.Is(err, c.code):
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
}

// TestAdmissionPrecedesTheOps checks that a replica without room refuses a faulty request for lack of
// room, in the same step, and changes nothing.
func TestAdmissionPrecedesTheOps(t *testing.T) {
	for _, full := range []bool{false, true} {
		s := newSingle(t, 3, func(c *Config) { c.Limits.LogEntries = 1 })
		s.barrier.fresh, s.retention.reported = true, map[gossip.NodeID]bool{}
		if full {
			s.put("own", "e")
		}
		root := s.store.root
		other := Mutate("k", crdt.KindGCounter, 1, func(crdt.Value) crdt.Value { return nil })
		_, out := s.update(replicator.Local, replicator.Fence{}, addTo(1, "k", "e"), other)
		var e *replicator.Error
		want := replicator.Error{Code: replicator.ErrKind}
		if full {
			want = replicator.Error{Code: replicator.ErrLimit, Limit: "LogEntries"}
		}
		if len(out.Reply) != 1 || !errors.As(out.Reply[0].Err, &e) || e.Code != want.Code || e.Limit != want.Limit || s.store.root != root {
			t.Errorf("full %v: replies %+v, changed %v", full, out.Reply, s.store.root != root)
		}
	}
}

// TestARequestTurnsToAllAndRetransmits checks that a request is sent to all members when its wait ends.
// It is retransmitted to those without an answer, with waits that double up to 16 times ResendAfter.
func TestARequestTurnsToAllAndRetransmits(t *testing.T) {
	s := newSingle(t, 5, func(c *Config) { c.NoGossip, c.Timeout, c.SpreadMax = true, 4*time.Second, 30*time.Millisecond })
	id, out := s.read(majority, replicator.Fence{}, "k")
	if got := receivers[*ReadRequest](out); !slices.Equal(got, ids(2, 3)) {
		t.Fatalf("asks %v first", got)
	}
	var asked []time.Duration
	for s.table.open[id] != nil {
		s.at = s.Deadline()
		if out = s.do(Tick{}); len(out.Send) == 0 {
			continue
		}
		if asked = append(asked, s.at.Sub(1)); !slices.Equal(receivers[*ReadRequest](out), ids(2, 3, 4, 5)) {
			t.Errorf("at %v: asks %v", s.at.Sub(1), receivers[*ReadRequest](out))
		}
	}
	var want []time.Duration
	for _, ms := range []int{30, 50, 150, 350, 750, 1550, 2350, 3150, 3950} {
		want = append(want, time.Duration(ms)*time.Millisecond)
	}
	if !slices.Equal(asked, want) || s.at.Sub(1) != 4*time.Second {
		t.Errorf("asks at %v, want %v; ends at %v", asked, want, s.at.Sub(1))
	}
	if len(out.Reply) != 1 || !errors.Is(out.Reply[0].Err, replicator.ErrOutcomeUnknown) {
		t.Errorf("replies %+v", out.Reply)
	}
}

// TestARequestTurnsToAllAfterAFifthOfItsTime checks that the wait is a fifth of the time to the deadline,
// and at most SpreadMax.
func TestARequestTurnsToAllAfterAFifthOfItsTime(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{100 * time.Millisecond: 20 * time.Millisecond, time.Second: 50 * time.Millisecond} {
		s := newSingle(t, 5, func(c *Config) { c.NoGossip, c.Timeout, c.ResendAfter = true, timeout, time.Second })
		s.read(majority, replicator.Fence{}, "k")
		if out := s.pass(want - 1); len(out.Send) > 0 {
			t.Errorf("timeout %v: asks %v too early", timeout, out.Send)
		}
		if got := receivers[*ReadRequest](s.pass(1)); !slices.Equal(got, ids(2, 3, 4, 5)) {
			t.Errorf("timeout %v: asks %v", timeout, got)
		}
		if out := s.pass(want); len(out.Send) > 0 {
			t.Errorf("timeout %v: asks again: %v", timeout, out.Send)
		}
	}
}

// TestADeadlineInAPauseIsExtendedOnce checks that a deadline which is noticed more than ResendAfter late
// is extended once, by four times ResendAfter, and that the request is sent again.
func TestADeadlineInAPauseIsExtendedOnce(t *testing.T) {
	for _, spread := range []bool{false, true} {
		for late, extended := range map[time.Duration]bool{0: false, 50 * time.Millisecond: false, 50*time.Millisecond + 1: true} {
			s := newSingle(t, 5, func(c *Config) { c.NoGossip, c.Timeout = true, time.Second })
			id, _ := s.read(majority, replicator.Fence{}, "k")
			if spread {
				s.pass(50 * time.Millisecond)
				s.at = s.at.Add(-50 * time.Millisecond)
			}
			out := s.pass(time.Second + late)
			if r := s.table.open[id]; (r != nil) != extended || (len(out.Reply) == 0) != extended {
				t.Fatalf("spread %v, %v late: open %v, replies %v", spread, late, r != nil, out.Reply)
			}
			if !extended {
				continue
			}
			if got := receivers[*ReadRequest](out); !slices.Equal(got, ids(2, 3, 4, 5)) {
				t.Errorf("spread %v: asks %v", spread, got)
			}
			if d := s.table.open[id].deadline; d != s.at.Add(200*time.Millisecond) {
				t.Errorf("spread %v: deadline in %v", spread, d.Sub(s.at))
			}
			if out = s.pass(200*time.Millisecond - 1); len(out.Reply) != 0 {
				t.Errorf("spread %v: ends before its second deadline", spread)
			}
			if out = s.pass(time.Second); len(out.Reply) != 1 {
				t.Errorf("spread %v: extended twice", spread)
			}
		}
	}
}

// changing is an update of a register whose plan stamps another entry at each attempt.
func changing(key string) operation.Op {
	n := 0
	return operation.Op{Key: key, Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
		n++
		entry := fmt.Sprint("entry", n)
		return operation.Plan{Entries: []string{entry}, Stamped: func(v crdt.Value, above []uint64, _ uint64) crdt.Value {
			return v.(*entryMap).Set(entry, "v", crdt.Stamp{Time: above[0] + 1, Node: 1})
		}}, nil
	}}
}

// TestAPlanThatChangesAsksAgain checks that a changed plan asks in another round, up to a number of
// rounds.
func TestAPlanThatChangesAsksAgain(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip, c.NoStream = true, true })
	id, out := s.update(majority, replicator.Fence{}, changing("m"))
	for round := range uint64(replansMax + 1) {
		q := sentTo[*StampQuery](out, 2)
		if len(q) != 1 || q[0].Round != round || len(q[0].Asks) != 1 || len(out.Reply) != 0 {
			t.Fatalf("round %d: asked %+v, replies %+v", round, q, out.Reply)
		}
		if r := s.table.open[id]; !slices.Equal(r.asked, ids(2)) {
			t.Errorf("round %d: has asked %v", round, r.asked)
		}
		if round > 0 {
			if out = s.receive(2, &StampAnswer{Epoch: s.members.epoch, ID: id, Round: round - 1, Newest: []Newest{{Times: []uint64{0}}}}); len(out.Send) > 0 {
				t.Errorf("round %d: an answer of an earlier round counts", round)
			}
		}
		out = s.receive(2, &StampAnswer{Epoch: s.members.epoch, ID: id, Round: round, Newest: []Newest{{Times: []uint64{0}}}})
	}
	if len(out.Reply) != 1 || !errors.Is(out.Reply[0].Err, replicator.ErrContended) || s.Value("m") != nil {
		t.Errorf("replies %+v after %d rounds", out.Reply, replansMax+1)
	}
}

// TestAPlanThatStaysIsWritten checks that a plan which stays is written after the first round, above the
// stamps of the answers.
func TestAPlanThatStaysIsWritten(t *testing.T) {
	s := newSingle(t, 3, func(c *Config) { c.NoGossip = true })
	id, _ := s.update(majority, replicator.Fence{}, stampRegister(1, "v"))
	for _, m := range []*StampAnswer{
		{ID: id, Round: 1, Newest: []Newest{{Times: []uint64{7}}}},
		{ID: id + 1, Newest: []Newest{{Times: []uint64{7}}}},
		{ID: id, Newest: []Newest{{Times: []uint64{7, 8}}}},
		{ID: id},
	} {
		if m.Epoch = s.members.epoch; len(s.receive(2, m).Send) > 0 || s.Value(registerKey) != nil {
			t.Errorf("%+v counts", m)
		}
	}
	out := s.receive(2, &StampAnswer{Epoch: s.members.epoch, ID: id, Newest: []Newest{{Times: []uint64{7}}}})
	if _, at := registerIn(s.Core, registerKey); at.Time != 8 || !slices.Equal(receivers[*Deltas](out), ids(2)) {
		t.Errorf("written at %d, sent to %v", at.Time, receivers[*Deltas](out))
	}
	if out = s.receive(2, &Ack{Epoch: s.members.epoch, From: 1, To: 1, Seen: 1}); len(out.Reply) != 1 || out.Reply[0].Err != nil {
		t.Errorf("replies %+v", out.Reply)
	}
}
