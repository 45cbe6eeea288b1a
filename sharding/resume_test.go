package sharding

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/placement"
)

// A node is drained, and the coordinator dies at any moment of it: its successor
// carries the moves on, and no state is lost but what lived on the dead node
// itself. Some of the states are on their way to that very node.
func TestStateSurvivesTheCoordinatorInTheMiddleOfAMove(t *testing.T) {
	resumed := 0
	for after := time.Duration(0); after < 60*time.Millisecond; after += 2 * time.Millisecond {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) { resumed += drainAndKill(t, after) })
		})
	}
	if resumed == 0 {
		t.Error("no run has resumed a move: the moments are badly chosen")
	}
}

func drainAndKill(t *testing.T, after time.Duration) (resumed int) {
	c := newCluster(t)
	regions := tallies(t, c, 4)
	c.install(c.nodes...)
	pass(time.Second)
	const ids = 40
	at := map[string]int{}
	for i := range ids {
		id := fmt.Sprint("e", i)
		got, err := regions[0].Ask(within(t, 10*time.Second), id, 7)
		if err != nil {
			t.Fatal(err)
		}
		at[id] = got.Node
	}
	c.delay = 3 * time.Millisecond
	drained := make(chan error, 1)
	go func() { drained <- c.nodes[1].s.Drain(within(t, 30*time.Second)) }()
	pass(after)
	c.kill(c.nodes[0])
	c.install(c.nodes[1:]...)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	for id, was := range at {
		got, err := regions[2].Ask(within(t, 20*time.Second), id, 1)
		if err != nil {
			t.Fatal(id, err)
		}
		if was != 1 && !allocatedTo(c.nodes[0], id) && got.Count != 8 {
			t.Errorf("killed after %v: %s was at node %d and counts %d at node %d", after, id, was, got.Count, got.Node)
		}
	}
	for shard := range ShardID(8) {
		for _, e := range c.nodes[1].explain("tally", shard) {
			if e.Kind == coordinator.TraceResumed {
				resumed++
			}
		}
	}
	return resumed
}

// allocatedTo reports whether a coordinator's node has allocated the shard of an
// entity to itself: then it may have run there, and its state died with it.
func allocatedTo(n *node, id string) bool {
	shard, _ := n.reg.ShardOf("tally", id)
	return slices.ContainsFunc(n.explain("tally", shard), func(e placement.Event) bool {
		return e.Kind == coordinator.TraceChosen && e.Node == n.self.ID
	})
}
