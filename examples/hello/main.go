package main

import (
	"context"
	"fmt"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

type greeter struct{ greeted int }

func (g *greeter) Handle(ctx *sharding.Context, name string) (string, error) {
	g.greeted++
	return fmt.Sprintf("%s greets %s, guest number %d", ctx.ID(), name, g.greeted), nil
}

func main() {
	ctx := context.Background()
	node, err := peerage.Start(ctx, peerage.Config{}) // a cluster of one; with a list of contact points, one of many
	check(err)
	greeters, err := sharding.Register(node.Registry(), sharding.Type[string, string]{
		Name: "greeter",
		New:  func(id string) sharding.Entity[string, string] { return &greeter{} },
	})
	check(err)
	check(greeters.Tell(ctx, "the butler", "Ada"))                 // fire and forget
	answer, err := greeters.Ask(ctx, "the butler", "Grace Hopper") // wait for the answer
	check(err)
	fmt.Println(answer)
	check(node.Shutdown(ctx)) // hands everything over, then leaves
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
