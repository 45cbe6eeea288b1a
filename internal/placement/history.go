package placement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
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

// Why describes in one sentence where a shard runs and what brought it there, as far as the events
// show, which are in the order of History. The name of a node that is no member is its NodeID.
func (s *Survey) Why(events []Event) string {
	name := func(id gossip.NodeID) string {
		if m := s.View.Member(id); m != nil {
			return m.Name
		}
		return id.String()
	}
	var w whereabouts
	for i := range events {
		w.addEvent(&events[i])
	}
	if s.View.Member(w.runs) == nil {
		w.runs = 0 // it ran there until the node ended
	}
	switch {
	case w.runs == 0 && w.last == 0:
		return "It runs nowhere: no message has needed it yet, or its events are no longer on record."
	case w.runs == 0:
		return fmt.Sprintf("It runs nowhere now; its last home was %s.", name(w.last))
	case w.moved:
		return fmt.Sprintf("It runs on %s: it was moved there in order from %s, by a rebalance, a drain or a wish.", name(w.runs), name(w.from))
	case w.from != 0:
		return fmt.Sprintf("It runs on %s: its former home %s left the view.", name(w.runs), name(w.from))
	case w.needed:
		return fmt.Sprintf("It runs on %s: a message needed it when it had no home.", name(w.runs))
	}
	return fmt.Sprintf("It runs on %s; why it was started there is no longer on record.", name(w.runs))
}

// whereabouts is what a shard's events show about its home.
type whereabouts struct {
	// runs is the node on which it runs, 0 if on none; last is the one on which it ran last.
	runs, last gossip.NodeID
	// from is the home before, 0 if there was none; moved is set if an order ended that.
	from  gossip.NodeID
	moved bool
	// needed is set if it had no home before.
	needed bool
	// token is the highest by which it ran.
	token protocol.Token
	// ordered is set between the order to move it and its next start.
	ordered bool
}

// startAt records that the shard runs on a node, by a token.
func (w *whereabouts) startAt(home gossip.NodeID, token protocol.Token) {
	w.token = w.token.Max(token)
	if w.runs == home || home == 0 {
		return
	}
	if w.from, w.moved = 0, false; w.last != home {
		w.from, w.moved = w.last, w.ordered && w.last != 0
	}
	w.runs, w.last, w.ordered = home, home, false
}

// addEvent follows the shard by its next event.
func (w *whereabouts) addEvent(e *Event) {
	if e.By != "region" {
		switch e.Kind {
		case coordinator.TraceMove:
			w.ordered = true
		case coordinator.TraceFreed:
			w.ordered, w.last = false, e.Node
		case coordinator.TraceChosen:
			w.needed = w.last == 0
		}
		return
	}
	switch e.Kind {
	case region.TraceClosed: // by a move, which has a newer token, or because the home is gone
		w.ordered = w.ordered || w.token.Less(e.Token)
	case region.TraceOpened: // the home may have crashed, and its own events with it
		w.startAt(e.Node, e.Token)
	case region.TraceHosted:
		w.startAt(e.On, e.Token)
	case region.TraceStopped, region.TraceAbandoned:
		if w.runs == e.On {
			w.runs = 0
		}
	}
}
