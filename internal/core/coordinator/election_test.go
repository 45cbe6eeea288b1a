package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// electionView has the members 1 to n, the most senior first.
func electionView(epoch gossip.Epoch, n int) *gossip.View {
	v := &gossip.View{Epoch: epoch}
	for id := range n {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(id + 1)}, Status: gossip.Up})
	}
	return v
}

// A view and the declines received in it decide. Declines of earlier views keep a coordinator
// elected until the same nodes have answered again.
func TestElection(t *testing.T) {
	e := election{cfg: &Config{Self: 2}}
	e.viewChanged(electionView(1, 3))
	if e.won() || e.mayWin() {
		t.Error("elected before the senior candidate has declined")
	}
	e.AddDeclines(protocol.Decliner{Node: 1})
	if !e.won() {
		t.Error("not elected although the senior candidate has declined")
	}
	e.viewChanged(electionView(2, 3))
	if e.won() || !e.mayWin() {
		t.Error("the decline of the former view counts as a new one, or not at all")
	}
	e.viewChanged(electionView(3, 3))
	if !e.mayWin() {
		t.Error("the decline is forgotten after a view without an answer")
	}
	e.AddDeclines(protocol.Decliner{Node: 1})
	if !e.won() {
		t.Error("not elected after the senior candidate has declined again")
	}
	e.viewChanged(electionView(4, 3))
	e.viewChanged(electionView(5, 3))
	if e.AddDeclines(); e.won() || !e.mayWin() {
		t.Error("elected without an answer in the view")
	}
}

// A node that has promised to decline, or that lacks settings, does so in each view.
func TestElectionDeclines(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     Config
		refused bool
		missing bool
		ok      bool
	}{
		"the senior candidate":              {Config{Self: 1}, false, false, true},
		"one that only sends messages":      {Config{Self: 1, Reluctant: true}, false, false, false},
		"refused for its settings":          {Config{Self: 1}, true, false, false},
		"declined before it ran the type":   {Config{Self: 1, DeclinedIn: 7}, false, true, false},
		"declined in a view that is behind": {Config{Self: 1, DeclinedIn: 6}, false, false, true},
	} {
		e := election{cfg: &c.cfg, refused: c.refused}
		e.viewChanged(electionView(7, 2))
		d, declined := e.DeclineOf(1)
		if e.won() != c.ok || declined == c.ok || d.Missing != c.missing {
			t.Errorf("%s: elected %v, declined %v, missing %v", name, e.won(), declined, d.Missing)
		}
	}
}

// TestAnElectedNodeForgetsEarlierDeclines checks that a node which is elected in a view presumes no decline of an
// earlier one: if it declines later, it leaves office to a node that has not declined since.
func TestAnElectedNodeForgetsEarlierDeclines(t *testing.T) {
	e := election{cfg: &Config{Self: 1}}
	e.viewChanged(electionView(1, 2))
	e.AddDeclines(protocol.Decliner{Node: 2})
	for epoch := gossip.Epoch(2); epoch <= 3; epoch++ {
		if !e.won() {
			t.Fatalf("not elected before view %v", epoch)
		}
		e.refused = epoch == 3
		e.viewChanged(electionView(epoch, 2))
	}
	if e.won() || e.mayWin() {
		t.Error("a decline of view 1 counts in view 3, although this node was elected in view 2")
	}
}
