package membership

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// keyed is a node's part in the agreement on keys, in a view with the nodes 1 to 4.
func keyed(self gossip.NodeID, keys ...int) (*keyAgreement, *[][]byte) {
	ring := testKeys(keys...)
	k := &keyAgreement{self: self, cluster: "carts", keys: func() [][]byte { return ring }}
	v := &gossip.View{}
	for id := range gossip.NodeID(4) {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id + 1, Name: "n", Addr: "10.0.0.1:1"}, Status: gossip.Up})
	}
	k.onView(v, func(gossip.NodeID) bool { return true }, &actions{})
	return k, &ring
}

// exchangeWith sends one node's ids to another, and returns the other's actions.
func (k *keyAgreement) exchangeWith(to *keyAgreement) (a actions) {
	var sent actions
	k.requestIDs(to.self, &sent)
	to.onIDs(k.self, sent.send[0].msg.(*keyIDs), &a)
	return a
}

func TestKeysOfMembersAreCompared(t *testing.T) {
	for _, c := range []struct {
		mine, theirs []int
		want         agreement
	}{
		{nil, nil, keysAgree},
		{[]int{1}, []int{1}, keysAgree},
		{[]int{1, 2}, []int{2, 1}, keysAgree}, // between two steps of a rotation
		{[]int{1, 2}, []int{1}, keysAgree},
		{[]int{2, 1}, []int{1}, keysPartly}, // a step was skipped
		{[]int{1}, []int{2, 1}, keysPartly},
		{[]int{1, 3}, []int{2, 3}, keysPartly},
		{[]int{1}, []int{2}, keysDiffer},
		{[]int{1}, nil, keysDiffer},
		{nil, []int{1}, keysDiffer},
	} {
		mine, _ := keyed(1, c.mine...)
		theirs, _ := keyed(2, c.theirs...)
		a := theirs.exchangeWith(mine)
		got := mine.members[2]
		if got.state != c.want || mine.mostDiffer() != (c.want == keysDiffer) {
			t.Errorf("%v and %v: %d, unfit %v, want %d", c.mine, c.theirs, got.state, mine.mostDiffer(), c.want)
		}
		if warned := slices.ContainsFunc(a.notes, func(n note) bool { return n.level == slog.LevelWarn }); warned != (c.want > keysAgree) {
			t.Errorf("%v and %v: warned %v", c.mine, c.theirs, warned)
		}
		if again := theirs.exchangeWith(mine); len(again.notes) != 0 {
			t.Errorf("%v and %v: noted again: %v", c.mine, c.theirs, again.notes)
		}
	}
}

// TestOneWrongKeyIsOutvoted: only a node that differs from more than half is not ready,
// and a rotation fixes it.
func TestOneWrongKeyIsOutvoted(t *testing.T) {
	k, ring := keyed(1, 1)
	others := map[gossip.NodeID]*keyAgreement{}
	for id, key := range map[gossip.NodeID]int{2: 1, 3: 2, 4: 2} {
		others[id], _ = keyed(id, key)
	}
	others[2].exchangeWith(k)
	others[3].exchangeWith(k)
	if k.mostDiffer() {
		t.Error("one of two outvotes this node")
	}
	others[4].exchangeWith(k)
	if !k.mostDiffer() || k.differ != 2 {
		t.Errorf("two of three differ: unfit %v, %d differ", k.mostDiffer(), k.differ)
	}
	*ring = testKeys(1, 2)
	var a actions
	k.onRotation(&a)
	if k.mostDiffer() || k.differ != 0 || len(a.send) != 3 {
		t.Errorf("after the rotation: unfit %v, %d differ, %d messages", k.mostDiffer(), k.differ, len(a.send))
	}
	// Members that have left do not count.
	*ring = testKeys(1)
	k.onRotation(&a)
	k.onView(&gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 1}}, {Node: gossip.Node{ID: 2}}}}, func(gossip.NodeID) bool { return true }, &a)
	if k.mostDiffer() || k.differ != 0 || k.answeredCount != 1 {
		t.Errorf("without them: unfit %v, %d of %d differ", k.mostDiffer(), k.differ, k.answeredCount)
	}
}

// TestAttackAStrangerAsksForKeyIDs: a non-member learns nothing about keys, and makes no
// node unready; ids reveal no key, and are invalid from another sender.
func TestAttackAStrangerAsksForKeyIDs(t *testing.T) {
	k, _ := keyed(1, 1)
	var a actions
	k.onIDs(99, &keyIDs{Ask: true, IDs: []keyID{{1, 1}}}, &a)
	if !a.isEmpty() || k.mostDiffer() {
		t.Errorf("a stranger gets %v, unfit %v", a.send, k.mostDiffer())
	}
	k.requestIDs(2, &a)
	frame := appendMessage(nil, a.send[0].msg)
	if key := testKey(1); bytes.Contains(frame, key[:8]) {
		t.Error("the frame holds the key")
	}
	m, err := decodeMessage(frame)
	if err != nil {
		t.Fatal(err)
	}
	k.onIDs(3, m.(*keyIDs), &a) // as if they were its own
	if k.members[3].state != keysDiffer {
		t.Error("the ids of one node prove the keys of another")
	}
	// A node without discovery has no keys to compare.
	quiet, _ := keyed(1, 1)
	quiet.keys, quiet.members = nil, nil
	a = actions{}
	quiet.onIDs(2, &keyIDs{Ask: true}, &a)
	if !a.isEmpty() {
		t.Error("a node without discovery answers")
	}
}
