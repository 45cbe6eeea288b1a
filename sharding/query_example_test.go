package sharding_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func ExampleRegistry() {
	ctx := context.Background()
	node, err := peerage.Start(ctx, peerage.Config{})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	registry := node.Registry()
	accounts, err := sharding.Register(registry, sharding.Type[Deposit, Balance]{
		Name: "account", Shards: 8, Strategy: strategy.External{},
		New: func(string) sharding.Entity[Deposit, Balance] { return &Account{} },
	})
	if err != nil {
		panic(err)
	}
	if err := node.WaitReady(ctx); err != nil {
		panic(err)
	}
	// The application knows best where Alice's shard belongs.
	shard := accounts.ShardOf("alice")
	fmt.Println("placed:", registry.Place(ctx, "account", map[sharding.ShardID]string{shard: node.Self().Name}))
	_, _ = accounts.Ask(ctx, "alice", Deposit{5})

	at, err := registry.Where(ctx, "account", "alice")
	fmt.Println("found:", at.Node == node.Self().ID, err)
	live, _, err := registry.Search(ctx, "account", "lic")
	fmt.Println("search:", len(live), live[0].ID, live[0].Waiting, "waiting", err)
	all, _ := registry.Cluster(ctx, "account")
	shards, entities := all.Totals()
	fmt.Println("cluster:", len(all.Nodes), "node", shards, "shard", entities, "entity", len(all.Failed), "failed")
	history, _ := registry.Explain(ctx, "account", shard)
	var told []string
	for _, e := range history.Events {
		if e.By == "coordinator" && e.Token == at.Token {
			told = append(told, e.Kind)
		}
	}
	// What comes third, that the shard is hosted, may be on its way still.
	fmt.Println("explain:", strings.Join(told[:2], ", "))
	// Output:
	// placed: <nil>
	// found: true <nil>
	// search: 1 alice 0 waiting <nil>
	// cluster: 1 node 1 shard 1 entity 0 failed
	// explain: home chosen, allocation written
}
