package standby

import (
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// succeeded returns the home of a shard with one entity, whose former home had the holders 2, 3
// and 4. The first layout of the new home is filled and announced. former is the holder that is
// not in it.
func succeeded(t *testing.T) (s *scripted, members []gossip.NodeID, former gossip.NodeID) {
	s = newScripted(t, 1, 2, 3, 4)
	s.step(Begin{Token: tokenOf(5)})
	s.step(held(1, Held{}))
	holders := Layout{Token: tokenOf(1), Seq: 4, Active: true, Members: []gossip.NodeID{2, 3, 4}}
	for id := gossip.NodeID(2); id <= 4; id++ {
		s.step(held(id, Held{Layout: holders, Copies: []Copy{copyOf("a", 1)}}))
	}
	o := s.c.owners[0]
	members = o.chooseHolders()
	for id := gossip.NodeID(2); id <= 4; id++ {
		if !slices.Contains(members, id) {
			former = id
		}
	}
	for _, id := range members {
		s.step(Received{From: id, Msg: Ack{Token: tokenOf(5), Stream: o.peers[id].stream, Next: 1}})
	}
	return s, members, former
}

// confirmation confirms the layout that the home announces.
func (s *scripted) confirmation(from gossip.NodeID) Received {
	return Received{From: from, Msg: Announced{Token: tokenOf(5), Seq: s.c.owners[0].seq}}
}

// TestAFormerHolderMustConfirm checks that a layout becomes active only when each holder of the former
// layout has confirmed it or has left the view. A view that changes no holder begins no new layout.
func TestAFormerHolderMustConfirm(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		s, members, former := succeeded(t)
		o := s.c.owners[0]
		for _, id := range members {
			s.step(s.confirmation(id))
		}
		if o.layout.Active {
			t.Fatalf("the layout %v is active before %v has confirmed it", members, former)
		}
		if leaves {
			s.step(viewOf(2, members...))
		} else {
			s.step(s.confirmation(former))
		}
		if !o.layout.Active || o.seq != 1 || !slices.Equal(o.layout.Members, members) {
			t.Errorf("%v leaves: %v; the layout is number %d, %v, active: %v; want number 1, %v, active", former, leaves, o.seq, o.layout.Members, o.layout.Active, members)
		}
	}
}

// TestALayoutIsFilledBeforeItIsAnnounced checks that a layout which replaces one that was being
// announced is announced only when a quorum of its own holders has all copies.
func TestALayoutIsFilledBeforeItIsAnnounced(t *testing.T) {
	s, _, _ := succeeded(t)
	o := s.c.owners[0]
	if got := s.step(viewOf(2, 1, 8, 9)); strings.Contains(got, "announce 2") {
		t.Errorf("announced before 8 or 9 has a copy: %q", got)
	}
	ack := Ack{Token: tokenOf(5), Stream: o.peers[8].stream, Next: 1}
	if got := s.step(Received{From: 8, Msg: ack}); strings.Count(got, "announce 2") != 3 {
		t.Errorf("two of three holders have all copies: %q, want the announcement", got)
	}
}
