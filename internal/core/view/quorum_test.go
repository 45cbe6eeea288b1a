package view

import (
	"testing"

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
