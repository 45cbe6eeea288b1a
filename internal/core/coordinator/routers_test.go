package coordinator

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// with is the view of the bench with one more member.
func (b *bench) with(m gossip.Member) *bench {
	b.t.Helper()
	v := *b.c.view
	b.epoch++
	v.Epoch = b.epoch
	v.Members = append(slices.Clip(v.Members), m)
	return b.step(ViewChanged{View: &v})
}

// beginsTo lists whom the last step told to close routes.
func (b *bench) beginsTo() (nodes []gossip.NodeID) {
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
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 1}, 1, 2, 3).with(gossip.Member{Node: gossip.Node{ID: 4}, Status: gossip.Joining})
	b.step(ReadDone{ID: b.c.census.readID, Result: OK})
	for n := gossip.NodeID(1); n <= 3; n++ {
		r := &protocol.CensusReport{Head: b.head(), Hosts: true}
		if n == 2 {
			r.Claims = []protocol.Claim{{Token: tok}}
		}
		b.receive(n, r)
	}
	b.drain(2)
	if to := b.beginsTo(); !slices.Equal(to, []gossip.NodeID{1, 2, 3, 4}) {
		t.Fatalf("routes are closed at %v", to)
	}
	begin := find[*protocol.Begin](b)[0]
	b.begun(begin, 1, 2, 3).none(count[*protocol.HandOff])
	b.begun(begin, 4)
	one[*protocol.HandOff](b)
}

// outside is a coordinator of a role that 1 and 2 have and 3 and 4 do not, at the start of
// its census.
func outside(t *testing.T) *bench {
	b := newBench(t, Config{Shards: 1, Role: "host"})
	b.epoch++
	v := &gossip.View{Epoch: b.epoch}
	for id := gossip.NodeID(1); id <= 4; id++ {
		m := gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up}
		if id <= 2 {
			m.Roles = []string{"host"}
		}
		v.Members = append(v.Members, m)
	}
	return b.step(ViewChanged{View: v})
}

// role answers the census of an outside.
func (b *bench) role(claims ...protocol.Claim) *bench {
	b.t.Helper()
	s := protocol.Settings{Shards: 1, Role: "host"}
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true, Settings: s})
	return b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Settings: s, Claims: claims})
}

func (b *bench) proxy(n gossip.NodeID) *bench {
	b.t.Helper()
	return b.receive(n, &protocol.GetHome{Head: b.head(), Settings: protocol.Settings{Shards: 1, Role: "host"}, Shards: []protocol.ShardID{0}})
}

// A proxy is told of homes when the records name it, or a successor would not know that
// it routes (seed 1005629 of the simulator's TestOrderly with several leaves at once).
func TestProxiesAreToldOfHomesWhenTheRecordsNameThem(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := outside(t)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Home: 2, Token: tok, State: protocol.Allocated}}})
	b.role(protocol.Claim{Token: tok})
	b.proxy(3).none(count[*protocol.Homes])
	w := one[Write](b)
	if !slices.Equal(w.Proxies, []gossip.NodeID{3}) {
		t.Fatalf("written %+v", w)
	}
	b.step(WriteDone{ID: w.ID, Result: Unknown}).none(count[*protocol.Homes])
	b.proxy(3).none(count[*protocol.Homes])
	b.now = b.c.Deadline()
	again := one[Write](b.step(Tick{}))
	b.step(WriteDone{ID: again.ID, Result: OK})
	if h := one[*protocol.Homes](b).Homes; len(h) != 1 || h[0].Node != 2 {
		t.Errorf("told %+v", h)
	}
	b.proxy(3).none(count[Write])
	one[*protocol.Homes](b)
}

// A successor asks proxies that the records name to close their routes, also if they
// have not registered; others outside the role have none.
func TestAMoveClosesTheRoutesOfProxiesInTheRecords(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := outside(t)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Proxies: []gossip.NodeID{3}})
	b.role(protocol.Claim{Token: tok})
	b.drain(2)
	if to := b.beginsTo(); !slices.Equal(to, []gossip.NodeID{1, 2, 3}) {
		t.Errorf("routes are closed at %v", to)
	}
	b.proxy(3).none(count[Write])
}
