// Command sessions keeps the sessions of a web service in memory, on several nodes. It
// starts three nodes in this process, logs in at one, crashes it and goes on:
//
//	go run ./examples/sessions
//
// docs/howto/sessions.md explains it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/sharding"
)

func main() { os.Exit(trio.Main("sessions", startSessions, useSession)) }

// startSessions starts a node that hosts sessions of half an hour.
func startSessions(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sessions, error) {
	return startNode(ctx, cfg, 30*time.Minute)
}

// startNode starts a node that hosts sessions, and returns it with their region.
func startNode(ctx context.Context, cfg peerage.Config, lifetime time.Duration) (*peerage.Node, *sessions, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), sessionType(lifetime))
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}

// useSession logs in at one node, and goes on at another one when a node has crashed.
func useSession(ctx context.Context, nodes []trio.Member[*sessions]) error {
	const token = "h7Qe93xk" // a service draws it at random
	show := func(what string, node int, a action) {
		values, err := nodes[node].Service.Ask(ctx, token, a, sharding.Retry())
		if err != nil {
			fmt.Printf("%s: %v\n", what, err)
			return
		}
		fmt.Printf("%s: %v\n", what, values)
	}
	show("ada logs in at node a", 0, action{User: "ada"})
	show("she fills her cart at node b", 1, action{Set: map[string]string{"cart": "tea"}})
	if err := nodes[0].Close(); err != nil { // abrupt: to the other nodes it looks like a crash
		return err
	}
	show("node a has crashed; node c shows", 2, action{})
	show("she logs out", 2, action{End: true})
	show("she comes back", 2, action{})
	return nil
}
