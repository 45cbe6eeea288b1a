package trace

import (
	"bytes"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// TestListenersDoNotChangeTheHash: a trace has one hash, with and without a listener.
func TestListenersDoNotChangeTheHash(t *testing.T) {
	var out bytes.Buffer
	silent, loud := New(nil, 0), New(&out, 2)
	called := 0
	for i := range 5 {
		for _, tr := range []*Trace{&silent, &loud} {
			tr.Event(virtual.Instant(i), "a", "kind", uint64(i), func() string { called++; return "detail" })
		}
	}
	if silent.Hash() != loud.Hash() || silent.Events() != 5 || called != 5 {
		t.Errorf("hashes %x and %x, %d events, %d details", silent.Hash(), loud.Hash(), silent.Events(), called)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 5 {
		t.Errorf("%d lines", lines)
	}
	if tail := strings.Split(loud.LastLines(), "\n"); len(tail) != 2 || !strings.Contains(tail[1], "detail") {
		t.Errorf("the newest lines are %q", tail)
	}
}

func TestEveryPartOfAnEventCounts(t *testing.T) {
	hash := func(now virtual.Instant, node, kind string, num uint64) uint64 {
		tr := New(nil, 0)
		tr.Event(now, node, kind, num, nil)
		return tr.Hash()
	}
	seen := map[uint64]bool{hash(1, "a", "b", 2): true, hash(2, "a", "b", 2): true, hash(1, "c", "b", 2): true, hash(1, "a", "d", 2): true, hash(1, "a", "b", 3): true}
	if len(seen) != 5 {
		t.Errorf("5 events have %d hashes", len(seen))
	}
}

func TestNames(t *testing.T) {
	var n Names
	n.Add(7, Label(0, 0))
	n.Add(8, Label(1, 2))
	v := &gossip.View{Epoch: gossip.FirstEpoch(virtual.WallAtStart + 3), Members: []gossip.Member{
		{Node: gossip.Node{ID: 7}, Status: gossip.Up}, {Node: gossip.Node{ID: 8}, Status: gossip.Joining},
	}}
	for got, want := range map[string]string{
		n.Name(7):                     "a",
		n.Name(9):                     gossip.NodeID(9).String(),
		n.List([]gossip.NodeID{8, 7}): "b2 a",
		n.View(nil):                   "none",
		n.View(v)[strings.Index(n.View(v), "["):]:       "[a b2*]",
		n.Token(protocol.Token{}):                       "-",
		n.Readable("lost " + gossip.NodeID(8).String()): "lost b2",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLabelsOfManySlots(t *testing.T) {
	seen := map[string]bool{}
	for slot := range 1000 {
		seen[Label(slot, 0)] = true
	}
	if len(seen) != 1000 || Label(25, 0) != "z" || Label(26, 0) != "aa" || Label(53, 3) != "bb3" {
		t.Errorf("%d of 1000 labels differ; %s %s %s", len(seen), Label(25, 0), Label(26, 0), Label(53, 3))
	}
}
