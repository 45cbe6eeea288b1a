package protocol

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// upView returns view n of some nodes, all of them up.
func upView(n gossip.Epoch, ids ...gossip.NodeID) *gossip.View {
	v := &gossip.View{Epoch: n}
	for _, id := range ids {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	return v
}

// Declines of earlier views are presumed, as far as their nodes are still members. The latest of
// a node counts.
func TestWhoIsPresumedToDecline(t *testing.T) {
	var e Election
	e.BeginView(upView(1, 2, 3, 8))
	e.AddDeclines(Decliner{Node: 3, Missing: true}, Decliner{Node: 2, Missing: true}, Decliner{Node: 8, Missing: true})
	e.BeginView(upView(2, 2, 3, 8, 9))
	e.AddDeclines(Decliner{Node: 2}, Decliner{Node: 9})
	e.BeginView(upView(3, 1, 2, 3))
	if want := []Decliner{{Node: 2}, {Node: 3, Missing: true}}; !slices.Equal(e.Presumed(), want) || len(e.Declined()) > 0 {
		t.Errorf("presumed %v, declined %v, want %v presumed", e.Presumed(), e.Declined(), want)
	}
	if v := upView(1, 1); Candidate(&gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 1}}}}, "", 1) || !Candidate(v, "", 1) {
		t.Error("who joins is no candidate, who is up is one")
	}
}

// The declines of the view elect the candidate. With those presumed they elect the node that
// stays in office.
func TestWhoIsElectedAndWhoIsExpected(t *testing.T) {
	var e Election
	check := func(what string, candidate, expected gossip.NodeID) {
		t.Helper()
		if c, x := e.Candidate(), e.Expected(); c != candidate || x != expected {
			t.Errorf("%s: elects %v and expects %v, want %v and %v", what, c, x, candidate, expected)
		}
	}
	check("before the first view", 0, 0)
	e.BeginView(upView(1, 1, 2, 3))
	check("without declines", 1, 1)
	e.AddDeclines(Decliner{Node: 1}, Decliner{Node: 2, Missing: true})
	check("two have declined", 3, 3)
	e.BeginView(upView(2, 1, 2, 3))
	check("in the next view", 1, 3)
	e.AddDeclines(Decliner{Node: 1, Missing: true})
	check("the first has declined again", 2, 3)
	// The second one would be elected, if all decline, by what it declines now.
	e.AddDeclines(Decliner{Node: 2}, Decliner{Node: 3, Missing: true})
	check("all have declined", 2, 2)
	e.DropPresumed()
	check("nothing is presumed", 2, 2)
	e.AskAgain()
	check("all are asked again", 1, 2)
	e.AddDeclines(Decliner{Node: 1})
	e.Restart()
	check("from the first", 1, 2)
	e.DropPresumed()
	check("from the first, nothing presumed", 1, 1)
}

// Of two declines by one node in a view the first counts, and non-members have no say.
func TestADeclineOfAViewStands(t *testing.T) {
	var e Election
	e.BeginView(upView(1, 1, 2))
	e.AddDeclines(Decliner{Node: 1, Missing: true}, Decliner{Node: 7, Unbound: true})
	e.AddDeclines(Decliner{Node: 1, Unbound: true})
	if d, ok := e.DeclineOf(1); !ok || !d.Missing || d.Unbound || e.Unbound() {
		t.Errorf("declined %v with %+v, without a promise: %v", ok, d, e.Unbound())
	}
	if d, ok := e.DeclineOf(7); ok {
		t.Errorf("a node outside the view declines with %+v", d)
	}
	if e.AddDeclines(Decliner{Node: 2, Unbound: true}); !e.Unbound() {
		t.Error("no decline without a promise")
	}
}
