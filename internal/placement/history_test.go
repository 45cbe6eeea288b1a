package placement

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
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
