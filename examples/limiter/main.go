// Command limiter limits the rate of requests of each client over all nodes of a cluster.
// It starts three nodes in this process, and sends requests of two clients to all of them:
//
//	go run ./examples/limiter
//
// docs/howto/limiter.md explains it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/examples/internal/trio"
	"github.com/peerage-go/peerage/sharding"
)

func main() { os.Exit(trio.Main("limiter", startLimiter, sendRequests)) }

// startLimiter starts a node that hosts buckets, and returns it with their region.
func startLimiter(ctx context.Context, cfg peerage.Config) (*peerage.Node, *buckets, error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), bucketType())
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}

// sendRequests sends 60 requests of each client, in turn to all nodes.
func sendRequests(ctx context.Context, nodes []trio.Member[*buckets]) error {
	for _, client := range []string{"ada", "bob"} {
		passed := 0
		for i := range 60 {
			if allowRequest(ctx, nodes[i%len(nodes)].Service, client) {
				passed++
			}
		}
		fmt.Printf("%s: %d of 60 requests at three nodes passed, the burst is %d\n", client, passed, burst)
	}
	return nil
}
