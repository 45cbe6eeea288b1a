package view

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"pgregory.net/rapid"
)

// Every policy of package gossip is counted: without the method, a leader would call Quorum
// at each answer.
var _ = [...]countingPolicy{gossip.KeepMajority{}, gossip.StaticQuorum{}, gossip.KeepOldest{}, gossip.AssumeCrash{}}

// TestTallyCountsLikePlainQuorum: the leader's incremental count equals a full count.
func TestTallyCountsLikePlainQuorum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "n")
		word := "u" + rapid.StringOfN(rapid.RuneFrom([]rune("uuujl")), n-1, n-1, -1).Draw(t, "view")
		other := rapid.StringOfN(rapid.RuneFrom([]rune("uuujl")), n, n, -1).Draw(t, "next")
		self := gossip.NodeID(rapid.IntRange(1, n).Draw(t, "self"))
		v, next := viewOf(word), viewOf(other)
		p := drawPolicy(t)
		o := &rounds{history: &history{env: envOf(self)}, peers: map[gossip.NodeID]*peer{}}
		o.cfg.Partition = p
		for i := range v.Members {
			o.peers[v.Members[i].ID] = &peer{now: v.Members[i].Status.Votes(), next: next.Members[i].Status.Votes()}
		}
		o.current, o.proposed = o.newTally(v), o.newTally(next)
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				o.round++
				o.current.openRound(o.round)
				o.proposed.openRound(o.round)
			} else if id := gossip.NodeID(rapid.IntRange(1, n).Draw(t, "who")); id != self {
				x := o.peers[id]
				o.recordAnswer(id, x, x.round+uint64(rapid.IntRange(0, int(o.round-x.round)).Draw(t, "round")))
			}
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				o.current, o.proposed = o.newTally(v), o.newTally(next)
			}
			slow := func(both bool) uint64 {
				for r := o.round; r > 0 && r+roundsKept > o.round; r-- {
					in := func(id gossip.NodeID) bool { return id == self || o.peers[id].round >= r }
					if p.Quorum(v, in) && (!both || p.Quorum(next, in)) {
						return r
					}
				}
				return 0
			}
			if got, want := o.current.newestAnswered(nil, o.round, 0), slow(false); got != want {
				t.Fatalf("%v: %s: %d, full count %d", p, word, got, want)
			}
			if got, want := o.current.newestAnswered(o.proposed, o.round, 0), slow(true); got != want {
				t.Fatalf("%s %s: %d, full count %d", word, other, got, want)
			}
		}
	})
}

// TestAVoterMovesBetweenTheRoundsKept checks that an answer counts for the round that it answers, though the
// place of a round in the tally is that of the round 64 later.
func TestAVoterMovesBetweenTheRoundsKept(t *testing.T) {
	for name, c := range map[string]struct {
		word             string
		from, to, newest uint64
		want             uint64
	}{
		"from a round whose place is taken": {"uuu", 1, 1 + roundsKept, 1 + roundsKept, 1 + roundsKept},
		"to a round whose place is taken":   {"uuu", 0, 1, 1 + roundsKept, 0},
		"to the oldest round kept":          {"uuu", 0, 2, 1 + roundsKept, 2},
		"from one kept round to the next":   {"uuuuu", 6 + roundsKept, 7 + roundsKept, 7 + roundsKept, 0},
	} {
		p := &peer{now: true, round: c.from}
		o := &rounds{history: &history{env: envOf(1)}, peers: map[gossip.NodeID]*peer{2: p}, round: c.from}
		o.cfg.Partition = gossip.KeepMajority{}
		o.current = o.newTally(viewOf(c.word))
		for o.round < c.newest {
			o.beginRound()
		}
		o.recordAnswer(2, p, c.to)
		if got := o.current.newestAnswered(nil, o.round, 0); got != c.want {
			t.Errorf("%s: with one answer %s has a quorum in round %d of %d, want %d", name, c.word, got, o.round, c.want)
		}
	}
}

// TestATallyCountsTheNewestRoundsAlone checks that an answer to a round that was superseded in the tally
// no longer counts.
func TestATallyCountsTheNewestRoundsAlone(t *testing.T) {
	for round, want := range map[uint64]int{roundsKept: 0, roundsKept + 1: 1, 2 * roundsKept: 1, 0: 0} {
		o := &rounds{history: &history{env: envOf(1)}, peers: map[gossip.NodeID]*peer{2: {round: round}}, round: 2 * roundsKept}
		o.cfg.Partition = gossip.KeepMajority{}
		counted := 0
		for _, n := range o.newTally(viewOf("uu")).at {
			counted += n
		}
		if counted != want {
			t.Errorf("an answer to round %d of %d counts %d times, want %d", round, 2*roundsKept, counted, want)
		}
	}
}
