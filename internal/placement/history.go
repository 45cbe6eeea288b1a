package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Event is one event in a shard's history; its fields are those of sharding.TraceEvent.
type Event struct {
	At     time.Time
	On     gossip.NodeID
	Term   gossip.Epoch
	By     string
	Kind   string
	Shard  strategy.ShardID
	Node   gossip.NodeID
	Token  protocol.Token
	Detail string
}

// NodeEvents returns the events of a shard in the answer of one node.
func NodeEvents(on gossip.NodeID, shard strategy.ShardID, events []protocol.Event) []Event {
	var out []Event
	for _, e := range events {
		by := "region"
		if e.Coordinator {
			by = "coordinator"
		}
		out = append(out, Event{
			At: time.Unix(0, e.Unix), On: on, Term: e.Term, By: by, Kind: e.Kind, Shard: shard,
			Node: e.Node, Token: e.Token, Detail: e.Detail,
		})
	}
	return out
}

// History returns the events of a shard on all nodes that answered, in one order.
func (s *Survey) History(shard strategy.ShardID) []Event {
	var lists [][]Event
	for i := range s.View.Members {
		id := s.View.Members[i].ID
		if a := s.Answers[id]; a != nil {
			lists = append(lists, NodeEvents(id, shard, a.Events))
		}
	}
	return mergeEvents(lists)
}

// mergeEvents puts the nodes' lists into one order. An event counts as no earlier, by
// term, token and time, than the events before it on its node: a shard that is stopped
// in term 3 has a token of term 2, and its end is still listed in term 3.
func mergeEvents(lists [][]Event) []Event {
	type place struct {
		term  gossip.Epoch
		token protocol.Token
		at    time.Time
		event Event
	}
	compare := func(a, b place) int {
		return cmp.Or(cmp.Compare(a.term, b.term), a.token.Compare(b.token))
	}
	var all []place
	for _, list := range lists {
		var last place
		for _, e := range list {
			p := place{term: e.Term, token: e.Token, at: e.At, event: e}
			if compare(p, last) < 0 {
				p.term, p.token = last.term, last.token
			}
			if compare(p, last) == 0 && p.at.Before(last.at) {
				p.at = last.at
			}
			all, last = append(all, p), p
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Or(compare(a, b), a.at.Compare(b.at)) })
	var out []Event
	for _, p := range all {
		out = append(out, p.event)
	}
	return out
}
