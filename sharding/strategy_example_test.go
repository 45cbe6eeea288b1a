package sharding_test

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// newest is a strategy of the application's own: everything goes to the most
// junior node, and stays where it is.
type newest struct{}

func (newest) Allocate(s *strategy.State, _ sharding.ShardID, _ gossip.NodeID) gossip.NodeID {
	for i := len(s.Regions) - 1; i >= 0; i-- {
		if s.Regions[i].Eligible() {
			return s.Regions[i].Node
		}
	}
	return 0
}

func (newest) Rebalance(*strategy.State) []sharding.ShardID { return nil }

func ExampleStrategy() {
	var registry sharding.Registry
	for name, s := range map[string]sharding.Strategy{
		"own":      newest{},
		"weighted": strategy.Weighted{},
		"hashed":   &strategy.ConsistentHashing{VirtualNodes: 200},
		"external": strategy.External{},
		"even":     strategy.LeastShards{AbsoluteLimit: 20, RelativeLimit: 0.05},
	} {
		_, err := sharding.Register(&registry, sharding.Type[Deposit, Balance]{
			Name: name, Strategy: s, RebalanceInterval: time.Minute,
			New: func(string) sharding.Entity[Deposit, Balance] { return &Account{} },
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(registry.Types())
	// Output: [even external hashed own weighted]
}
