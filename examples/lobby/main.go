// Command lobby lets players gather in rooms until a game is full. It starts three nodes in
// this process; players come in at all of them, and one node crashes:
//
//	go run ./examples/lobby
//
// docs/howto/lobby.md explains it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/sharding"
)

func main() { os.Exit(trio.Main("lobby", startRooms, gatherPlayers)) }

// startRooms starts a node that hosts rooms, and returns it with their region.
func startRooms(ctx context.Context, cfg peerage.Config) (*peerage.Node, *rooms, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), roomType())
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}

// gatherPlayers lets five players visit one room of four, from different nodes.
func gatherPlayers(ctx context.Context, nodes []trio.Member[*rooms]) error {
	for i, player := range []string{"ada", "bob", "eve", "joe", "max"} {
		if i == 2 {
			if err := nodes[0].Close(); err != nil { // abrupt: to the other nodes it looks like a crash
				return err
			}
			fmt.Println("node a crashes")
		}
		// Retry: a visit that arrives twice does no harm.
		n := nodes[1+i%2]
		if i == 0 {
			n = nodes[0]
		}
		t, err := n.Service.Ask(ctx, "chess-1", visit{Player: player}, sharding.Retry())
		if err != nil {
			fmt.Printf("%s: %v\n", player, err)
			continue
		}
		fmt.Printf("%s: %v, playing: %v\n", player, t.Players, t.Playing)
	}
	return nil
}
