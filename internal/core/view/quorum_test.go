package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"pgregory.net/rapid"
)

// viewOf builds a view from letters: u up, j joining, l leaving; ids from 1.
func viewOf(word string) *gossip.View {
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	for i, r := range word {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1)}, Status: map[rune]gossip.Status{'u': gossip.Up, 'j': gossip.Joining, 'l': gossip.Leaving}[r]})
	}
	return v
}

func setOf(ids ...gossip.NodeID) has {
	return func(id gossip.NodeID) bool {
		for _, x := range ids {
			if x == id {
				return true
			}
		}
		return false
	}
}

func TestPlainQuorum(t *testing.T) {
	for _, c := range []struct {
		view string
		in   []gossip.NodeID
		want bool
	}{
		{"u", []gossip.NodeID{1}, true}, {"u", nil, false},
		{"uu", []gossip.NodeID{1}, true}, {"uu", []gossip.NodeID{2}, false}, {"uu", []gossip.NodeID{1, 2}, true},
		{"uuu", []gossip.NodeID{1}, false}, {"uuu", []gossip.NodeID{2, 3}, true},
		{"uuuu", []gossip.NodeID{1, 4}, true}, {"uuuu", []gossip.NodeID{2, 3}, false}, {"uuuu", []gossip.NodeID{2, 3, 4}, true},
		{"uujj", []gossip.NodeID{2, 3, 4}, false}, {"uujj", []gossip.NodeID{1}, true},
		{"juu", []gossip.NodeID{2}, true}, {"juu", []gossip.NodeID{1, 3}, false}, // the most senior voter counts
		{"luu", []gossip.NodeID{1, 2}, true}, {"lu", []gossip.NodeID{1}, true},
		{"jj", []gossip.NodeID{1, 2}, false}, {"", nil, false}, {"uuu", []gossip.NodeID{7, 8, 9}, false},
	} {
		if got := (gossip.KeepMajority{}).Quorum(viewOf(c.view), setOf(c.in...)); got != c.want {
			t.Errorf("%s %v: %v", c.view, c.in, got)
		}
	}
}

func TestTotalQuorum(t *testing.T) {
	for _, c := range []struct {
		view     string
		in, dead []gossip.NodeID
		want     bool
	}{
		{"uuu", []gossip.NodeID{3}, []gossip.NodeID{1, 2}, true}, {"uuu", []gossip.NodeID{3}, []gossip.NodeID{1}, false},
		{"uuj", []gossip.NodeID{2}, []gossip.NodeID{1}, false}, {"uuj", []gossip.NodeID{2, 3}, []gossip.NodeID{1}, true},
		{"uuj", []gossip.NodeID{3}, []gossip.NodeID{1, 2}, false}, {"uu", nil, []gossip.NodeID{1, 2}, false},
	} {
		if got := totalQuorum(viewOf(c.view), setOf(c.in...), setOf(c.dead...)); got != c.want {
			t.Errorf("%s in %v dead %v: %v", c.view, c.in, c.dead, got)
		}
	}
}

func drawSet(t *rapid.T, n int, name string) has {
	bits := rapid.Uint64().Draw(t, name)
	return func(id gossip.NodeID) bool { return id >= 1 && int(id) <= n && bits>>id&1 == 1 }
}

// TestPlainQuorumsMeet: two plain quorums share a voter, and a total quorum shares one
// with every plain quorum that has a living member.
func TestPlainQuorumsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		word := rapid.StringOfN(rapid.RuneFrom([]rune("uuujl")), n, n, -1).Draw(t, "view")
		v, a, b, dead := viewOf(word), drawSet(t, n, "a"), drawSet(t, n, "b"), drawSet(t, n, "dead")
		shares := func(in, other has) bool {
			for i := range v.Members {
				if m := &v.Members[i]; m.Status.Votes() && in(m.ID) && other(m.ID) {
					return true
				}
			}
			return false
		}
		p := drawPolicy(t)
		if p.Quorum(v, a) && p.Quorum(v, b) && !shares(a, b) {
			t.Fatalf("%v: %s: two plain quorums do not meet", p, word)
		}
		alive := func(id gossip.NodeID) bool { return !dead(id) }
		if totalQuorum(v, a, dead) && p.Quorum(v, b) && !shares(a, b) && shares(b, func(id gossip.NodeID) bool { return alive(id) && !a(id) }) {
			t.Fatalf("%s: a total quorum misses a living member of a plain one", word)
		}
	})
}

// quorumsOf returns the quorums of node 1, whose newest grant was requested now.
func quorumsOf(word string) *quorums {
	e := evidenceOf(1, word)
	return &quorums{history: e.history, evidence: e, holder: &leaseHolder{history: e.history, grantedAt: e.now}}
}

// TestTheWindowOfProofs: the newest certain proof must have come less than a lease, less the
// drift, after the newest grant was requested.
func TestTheWindowOfProofs(t *testing.T) {
	lease := testLease - time.Microsecond
	for name, c := range map[string]struct {
		change func(q *quorums)
		want   bool
	}{
		"no proof":              {func(*quorums) {}, true},
		"never granted a lease": {func(q *quorums) { q.holder.grantedAt = 0 }, false},
		"a proof in time":       {func(q *quorums) { q.proveAt(2, lease-1, true) }, true},
		"a proof too late":      {func(q *quorums) { q.proveAt(2, lease, true) }, false},
		"one of two too late":   {func(q *quorums) { q.proveAt(2, lease, true); q.proveAt(3, 0, true) }, false},
		"a weak one too late":   {func(q *quorums) { q.proveAt(2, lease, false) }, true},
	} {
		q := quorumsOf("uuu")
		c.change(q)
		if got := q.inWindow(); got != c.want {
			t.Errorf("%s: in the window %v", name, got)
		}
	}
}

// proveAt records the proof of a death that came some time after the newest grant.
func (q *quorums) proveAt(id gossip.NodeID, after time.Duration, certain bool) {
	q.evidence.proofs[id] = &proof{at: q.holder.grantedAt.Add(after), certain: certain}
}

// TestTotalQuorumsAreAllowed: to a voter with full evidence whose policy lets its part survive.
func TestTotalQuorumsAreAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *quorums)
		want   bool
	}{
		"all others are dead":         {func(*quorums) {}, true},
		"this node leaves":            {func(q *quorums) { q.holder.waived = true }, false},
		"evidence within the quorum":  {func(q *quorums) { q.cfg.Evidence = gossip.EvidenceWithinQuorum }, false},
		"a joiner":                    {func(q *quorums) { q.status = gossip.Joining }, false},
		"a weak proof":                {func(q *quorums) { q.evidence.proofs[2].certain = false }, false},
		"a denied proof":              {func(q *quorums) { q.evidence.deny([]gossip.NodeID{2}) }, false},
		"outside the window":          {func(q *quorums) { q.holder.grantedAt = 0 }, false},
		"the policy lets others live": {func(q *quorums) { q.cfg.Partition = gossip.StaticQuorum{N: 2} }, false},
	} {
		q := quorumsOf("uuu")
		q.proveAt(2, 0, true)
		q.proveAt(3, 0, true)
		c.change(q)
		if got := q.total(setOf(1)); got != c.want {
			t.Errorf("%s: total quorum %v", name, got)
		}
	}
}

// TestTheWayOfANewLeader: what its promises uncovered decides how it begins.
func TestTheWayOfANewLeader(t *testing.T) {
	plainOf := setOf(1, 2, 3)
	for name, c := range map[string]struct {
		plain bool
		in    has
		next  []gossip.NodeID // the members that the uncovered attempt leaves out; nil if none was
		dead  []gossip.NodeID
		want  way
	}{
		"nothing was uncovered":                {true, plainOf, nil, nil, wayAfresh},
		"a total quorum only":                  {false, setOf(1), nil, []gossip.NodeID{2, 3, 4, 5}, wayTakeOver},
		"an attempt that can be committed":     {true, plainOf, []gossip.NodeID{5}, nil, wayCarry},
		"one that the living can commit":       {true, plainOf, []gossip.NodeID{5}, []gossip.NodeID{4}, wayCarry},
		"one that needs the dead, all answer":  {true, plainOf, []gossip.NodeID{1, 2}, []gossip.NodeID{4, 5}, wayTakeOver},
		"one that needs the dead, not all do":  {true, setOf(1, 2), []gossip.NodeID{1, 2}, []gossip.NodeID{4, 5}, wayWait},
		"one that needs the dead, we may not":  {true, plainOf, []gossip.NodeID{1, 2}, []gossip.NodeID{4, 5}, wayNone},
		"the living are no quorum of our view": {true, plainOf, []gossip.NodeID{4, 5}, []gossip.NodeID{1, 4, 5}, wayTakeOver},
	} {
		q := quorumsOf("uuuuu")
		for _, id := range c.dead {
			q.proveAt(id, 0, true)
		}
		if c.want == wayNone {
			q.holder.grantedAt = 0
		}
		var found *attempt
		if c.next != nil {
			found = &attempt{next: q.after(c.next...)}
		}
		if got := q.chooseWay(c.in, c.plain, found); got != c.want {
			t.Errorf("%s: way %d, want %d", name, got, c.want)
		}
	}
}

// TestAnEmergencyViewIsCarriedByAll: of its members, by a total quorum of the view before.
func TestAnEmergencyViewIsCarriedByAll(t *testing.T) {
	for name, c := range map[string]struct {
		emergency bool
		in        has
		dead      bool
		want      bool
	}{
		"both quorums":                {false, setOf(1, 2), false, true},
		"all of an emergency view":    {true, setOf(1), true, true},
		"all of another view":         {false, setOf(1), true, false},
		"no proof of the others":      {true, setOf(1), false, false},
		"not all of the view":         {true, setOf(2), true, false},
		"a quorum of the former only": {false, setOf(2, 3), false, false},
	} {
		q := quorumsOf("uuu")
		if c.dead {
			q.proveAt(2, 0, true)
			q.proveAt(3, 0, true)
		}
		next := q.after(2, 3)
		if got := q.carriesStep(next, c.emergency, c.in); got != c.want {
			t.Errorf("%s: carries %v", name, got)
		}
		if hopeless := q.hopeless(next, c.emergency, q.evidence.mayLive); hopeless != (c.dead && !c.emergency) {
			t.Errorf("%s: hopeless %v", name, hopeless)
		}
	}
	if allOf(&gossip.View{}, setOf()) || !allOf(viewOf("uj"), setOf(1, 2)) || allOf(viewOf("uj"), setOf(1)) {
		t.Error("all of a view are its members, and there is one")
	}
}
