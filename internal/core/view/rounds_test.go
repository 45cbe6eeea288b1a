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
