package view

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func TestJoiningAsksInTurnAndBacksOff(t *testing.T) {
	j := &joining{history: &history{env: envOf(1)}}
	j.onContacts([]gossip.Node{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}, {ID: 5}, {ID: 2}})
	j.driveJoining()
	if got := j.sentTo(); !slices.Equal(got, []gossip.NodeID{2, 3, 4}) {
		t.Errorf("asks %v, the contacts are 2 to 5", got)
	}
	if j.driveJoining(); j.sentTo() != nil || j.joiningDeadline() < j.now.Add(testPing/2) {
		t.Errorf("asks again at %v, now %v", j.joiningDeadline(), j.now)
	}
	j.now = j.joiningDeadline()
	j.driveJoining()
	if got := j.sentTo(); !slices.Equal(got, []gossip.NodeID{5, 2, 3}) || j.wait != testPing {
		t.Errorf("asks %v, and waits %v", got, j.wait)
	}
	j.onContacts([]gossip.Node{{ID: 6}})
	if j.driveJoining(); j.sentTo()[0] != 6 {
		t.Error("does not ask a new contact first")
	}
}

// TestJoiningAsksMoreAfterLongerWaits: of many contacts, most of them dead, all are asked in a few
// attempts.
func TestJoiningAsksMoreAfterLongerWaits(t *testing.T) {
	j := &joining{history: &history{env: envOf(1)}}
	var contacts []gossip.Node
	for id := gossip.NodeID(2); id < 102; id++ {
		contacts = append(contacts, gossip.Node{ID: id})
	}
	j.onContacts(contacts)
	asked := map[gossip.NodeID]bool{}
	var sizes []int
	for range 8 {
		j.now = j.joiningDeadline()
		j.driveJoining()
		sent := j.sentTo()
		sizes = append(sizes, len(sent))
		for _, id := range sent {
			asked[id] = true
		}
	}
	if !slices.Equal(sizes, []int{3, 3, 6, 12, 24, 24, 24, 24}) || len(asked) != 100 {
		t.Errorf("asks %v contacts at a time, %d of 100 in all", sizes, len(asked))
	}
}

// TestJoiningAcceptsOnlyThoseThatItAsked: contacts, and the leaders that contacts named.
func TestJoiningAcceptsOnlyThoseThatItAsked(t *testing.T) {
	j := &joining{history: &history{env: envOf(1)}}
	j.onContacts([]gossip.Node{{ID: 2}})
	j.onPassed(3)
	if j.onPassed(0); len(j.passed) != 1 {
		t.Errorf("keeps %v after a contact that has no leader", j.passed)
	}
	msg := &Decided{View: Whole(viewOf("uu"))}
	for id, want := range map[gossip.NodeID]bool{2: true, 3: true, 4: false} {
		if got := j.joinerMayAccept(id, msg); got != want {
			t.Errorf("accepts a view of %v: %v", id, got)
		}
	}
	for id := gossip.NodeID(10); id < 10+leadersMax; id++ {
		j.onPassed(id)
	}
	if len(j.passed) != leadersMax || j.joinerMayAccept(3, msg) {
		t.Errorf("keeps %v, at most %d leaders", j.passed, leadersMax)
	}
}
