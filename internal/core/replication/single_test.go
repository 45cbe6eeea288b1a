package replication

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// single is the core of node 1 alone. The test plays its peers: it sends what they would send,
// and looks at each message of the core. No time passes unless the test moves at.
type single struct {
	*Core
	t   *testing.T
	at  clock.Instant
	ids RequestID
}

// newSingle returns the core of node 1 in a view of nodes 1..n, with which it has caught up.
func newSingle(t *testing.T, n gossip.NodeID, tweak func(*Config)) *single {
	cfg := Config{Self: 1, NoPack: true}
	if tweak != nil {
		tweak(&cfg)
	}
	s := &single{Core: New(cfg), t: t, at: 1}
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	for id := gossip.NodeID(1); id <= n; id++ {
		v.Members = append(v.Members, member(id, gossip.Up))
	}
	s.do(ViewChanged{View: v})
	s.members.former, s.members.caughtUp, s.members.behind = nil, s.members.epoch, false
	return s
}

// do hands the core an event at the present time, and returns its effects.
func (s *single) do(ev Event) *Effects {
	s.t.Helper()
	out := &Effects{}
	s.Step(s.at, ev, out)
	s.checkInvariants()
	return out
}

func (s *single) receive(from gossip.NodeID, m Message) *Effects {
	s.t.Helper()
	return s.do(Received{From: from, Msg: m})
}

// pass moves the time on, and returns the effects of the Tick at its end.
func (s *single) pass(d time.Duration) *Effects {
	s.t.Helper()
	s.at = s.at.Add(d)
	return s.do(Tick{})
}

// update begins an update at a level. It returns its number with the effects.
func (s *single) update(level replicator.Level, f replicator.Fence, ops ...operation.Op) (RequestID, *Effects) {
	s.t.Helper()
	s.ids++
	return s.ids, s.do(Update{ID: s.ids, Ops: ops, Level: level, Fence: f})
}

// read begins a read at a level. It returns its number with the effects.
func (s *single) read(level replicator.Level, f replicator.Fence, keys ...string) (RequestID, *Effects) {
	s.t.Helper()
	s.ids++
	return s.ids, s.do(Read{ID: s.ids, Keys: keys, Level: level, Fence: f})
}

// put adds an element to the set of a key at level Local.
func (s *single) put(key, e string) {
	s.t.Helper()
	s.update(replicator.Local, replicator.Fence{}, addTo(1, key, e))
}

// sentTo returns the messages of one type that effects send to a node.
func sentTo[M Message](out *Effects, to gossip.NodeID) (all []M) {
	for _, s := range out.Send {
		if m, ok := s.Msg.(M); ok && s.To == to {
			all = append(all, m)
		}
	}
	return all
}

// receivers returns the nodes to which effects send messages of one type, in order.
func receivers[M Message](out *Effects) (all []gossip.NodeID) {
	for _, s := range out.Send {
		if _, ok := s.Msg.(M); ok && !slices.Contains(all, s.To) {
			all = append(all, s.To)
		}
	}
	slices.Sort(all)
	return all
}

// setItem is the state of a key whose set holds elements of a node.
func setItem(key string, id gossip.NodeID, elements ...string) Item {
	v, _ := crdt.New(crdt.KindORSet)
	for _, e := range elements {
		v.(*crdt.ORSet[string]).Add(crdt.NodeID(id), e)
	}
	return Item{Key: key, Kind: crdt.KindORSet, Bytes: v.Append(nil)}
}
