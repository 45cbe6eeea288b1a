package coordinator

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// with is the view of the bench with one more member.
func (b *bench) with(m view.Member) *bench {
	b.t.Helper()
	v := *b.c.view
	b.epoch++
	v.Epoch = b.epoch
	v.Members = append(slices.Clip(v.Members), m)
	return b.step(ViewChanged{View: &v})
}

// beginsTo lists whom the last step told to close routes.
func (b *bench) beginsTo() (nodes []view.NodeID) {
	for _, e := range b.did {
		if s, ok := e.(Send); ok {
			if _, is := s.Msg.(*protocol.Begin); is {
				nodes = append(nodes, s.To)
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// A member that joins registered with the predecessor, and routes by what that one said:
// its view is late, and it has not registered here. No shard stops before its routes are
// closed, or what it sends on goes to a home that has left (seed 1003571 of the
// simulator's TestOrderly with several leaves at once).
func TestAMoveClosesTheRoutesOfWhoHasNotRegistered(t *testing.T) {
	tok := protocol.Token{Term: view.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 1}, 1, 2, 3).with(view.Member{Node: view.Node{ID: 4}, Status: view.Joining})
	b.step(ReadDone{ID: b.c.census.readID, Result: OK})
	for n := view.NodeID(1); n <= 3; n++ {
		r := &protocol.CensusReport{Head: b.head(), Hosts: true}
		if n == 2 {
			r.Claims = []protocol.Claim{{Token: tok}}
		}
		b.hear(n, r)
	}
	b.drain(2)
	if to := b.beginsTo(); !slices.Equal(to, []view.NodeID{1, 2, 3, 4}) {
		t.Fatalf("routes are closed at %v", to)
	}
	begin := find[*protocol.Begin](b)[0]
	b.begun(begin, 1, 2, 3).none(count[*protocol.HandOff])
	b.begun(begin, 4)
	one[*protocol.HandOff](b)
}
