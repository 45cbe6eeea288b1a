package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

// Clocks that differ change nothing between tokens, nor what one node saw in order.
func TestMergeGoesByTermTokenTime(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	ev := func(on gossip.NodeID, term gossip.Epoch, tokenTerm gossip.Epoch, seq uint64, s int, kind string) Event {
		return Event{On: on, Term: term, Token: protocol.Token{Term: tokenTerm, Seq: seq}, At: at(s), Kind: kind}
	}
	got := mergeEvents([][]Event{
		{ // the coordinator, whose clock is far behind
			ev(1, 2, 2, 0, 1, "office"), ev(1, 2, 2, 5, 2, "chosen"), ev(1, 2, 2, 5, 3, "written"), ev(1, 2, 2, 7, 4, "move"),
		},
		{ // the home, whose clock goes back once
			ev(2, 1, 1, 3, 90, "hosted before"), ev(2, 2, 2, 5, 95, "hosted"), ev(2, 2, 2, 7, 97, "closed"), ev(2, 2, 1, 3, 96, "stopped"),
		},
	})
	var kinds []string
	for _, e := range got {
		kinds = append(kinds, e.Kind)
	}
	want := []string{"hosted before", "office", "chosen", "written", "hosted", "move", "closed", "stopped"}
	if !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
}

// The sentence about a shard follows from the events, also if those of its dead home are missing.
func TestWhyAShardIsThere(t *testing.T) {
	s := &Survey{View: &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 2, Name: "b"}}, {Node: gossip.Node{ID: 3, Name: "c"}}}}}
	by := func(by string) func(on, node gossip.NodeID, kind string) Event {
		return func(on, node gossip.NodeID, kind string) Event { return Event{On: on, By: by, Node: node, Kind: kind} }
	}
	coord, reg := by("coordinator"), by("region")
	token := func(e Event, seq uint64) Event {
		e.Token = protocol.Token{Term: 1, Seq: seq}
		return e
	}
	first := []Event{coord(2, 2, coordinator.TraceChosen), reg(2, 2, region.TraceStart), reg(2, 2, region.TraceHosted), reg(3, 2, region.TraceOpened)}
	for want, events := range map[string][]Event{
		"It runs nowhere: no message has needed it yet, or its events are no longer on record.": {coord(2, 0, coordinator.TraceOffice)},
		"It runs on b: a message needed it when it had no home.":                                first,
		"It runs on c: it was moved there in order from b, by a rebalance, a drain or a wish.": append(slices.Clone(first), coord(2, 3, coordinator.TraceMove),
			token(reg(3, 2, region.TraceClosed), 5), reg(2, 2, region.TraceStopped), coord(2, 3, coordinator.TraceChosen), reg(3, 3, region.TraceHosted), reg(2, 3, region.TraceOpened)),
		"It runs on b: its former home 0000000000000001 left the view.": {reg(2, 1, region.TraceOpened), reg(3, 1, region.TraceOpened),
			coord(2, 1, coordinator.TraceFreed), coord(2, 2, coordinator.TraceChosen), reg(2, 2, region.TraceHosted)},
		"It runs on c: it was moved there in order from 0000000000000001, by a rebalance, a drain or a wish.": { // by a coordinator that is gone
			token(reg(2, 1, region.TraceOpened), 3), token(reg(2, 1, region.TraceClosed), 5), reg(3, 3, region.TraceHosted)},
		"It runs on c: its former home 0000000000000001 left the view.": { // with its coordinator
			token(reg(2, 1, region.TraceOpened), 3), token(reg(2, 1, region.TraceClosed), 0), coord(3, 3, coordinator.TraceChosen), reg(3, 3, region.TraceHosted)},
		"It runs nowhere now; its last home was 0000000000000001.":       {reg(2, 1, region.TraceOpened)},
		"It runs nowhere now; its last home was b.":                      append(slices.Clone(first), reg(2, 2, region.TraceStopped)),
		"It runs on c; why it was started there is no longer on record.": {reg(3, 3, region.TraceHosted)},
	} {
		if got := s.Why(events); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
