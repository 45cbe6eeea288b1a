package sharding

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// touchyStrategy panics wherever it is asked.
type touchyStrategy struct{}

func (touchyStrategy) Allocate(*strategy.State, ShardID, gossip.NodeID) gossip.NodeID { panic("oh") }
func (touchyStrategy) Rebalance(*strategy.State) []ShardID                            { panic("no") }

// A strategy that panics takes no coordinator's process down, let alone one after the
// other: its shards are placed, and taken over, without it, and that is logged.
func TestAStrategyThatPanicsIsContained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		var logged logbook
		var regions []*Region[say, heard]
		for _, name := range []string{"n1", "n2"} {
			n := c.add(name)
			if name == "n1" {
				n.log = logged.logger()
			}
			regions = append(regions, n.register(j, func(ty *Type[say, heard]) {
				ty.Shards, ty.Strategy, ty.RebalanceInterval = 8, touchyStrategy{}, time.Second
			}))
			n.start()
		}
		c.install(c.nodes...)
		for i := range ShardID(8) {
			if _, err := regions[1].Ask(within(t, 10*time.Second), idIn(regions[1], i), say{"x", 1}); err != nil {
				t.Error(err)
			}
		}
		pass(5 * time.Second)
		if a, b := regions[0].Stats().Shards, regions[1].Stats().Shards; a == 0 || b == 0 || a+b != 8 {
			t.Errorf("%d and %d shards on the two nodes", a, b)
		}
		for _, want := range []string{"strategy panicked", "touchyStrategy"} {
			if logged.count(want) == 0 {
				t.Errorf("the log does not say %q", want)
			}
		}
	})
}
