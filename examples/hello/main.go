package main

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// greeter is an entity: one instance for each id, with state of its own.
type greeter struct{ greeted int }

// Handle handles one message at a time, so it needs no lock.
func (g *greeter) Handle(ctx *sharding.Context, name string) (string, error) {
	g.greeted++
	return fmt.Sprintf("%s greets %s, guest number %d",
		ctx.ID(), name, g.greeted), nil
}

func main() {
	ctx := context.Background()
	// Without contact points, the node forms a cluster of one.
	node, err := peerage.Start(ctx, peerage.Config{})
	check(err)
	greeters, err := sharding.Register(node.Registry(),
		sharding.Type[string, string]{
			Name: "greeter",
			New: func(id string) sharding.Entity[string, string] {
				return &greeter{}
			},
		})
	check(err)
	// Tell sends and waits for no reply; Ask waits for the reply.
	check(greeters.Tell(ctx, "the butler", "Ada"))
	answer, err := greeters.Ask(ctx, "the butler", "Grace Hopper")
	check(err)
	fmt.Println(answer)
	check(node.Shutdown(ctx)) // hand all shards over, then leave
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
