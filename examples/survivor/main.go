// Command survivor shows replicated state: three nodes, a counter that lives on one
// of them, and the same counter after that one has crashed.
//
//	go run ./examples/survivor
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// visits is the entity. With Snapshot and Restore its state can be kept elsewhere.
type visits struct{ n byte }

// visited is the answer: the count, and where it was counted.
type visited struct {
	Count byte
	Node  string
}

func (v *visits) Handle(ctx *sharding.Context, _ string) (visited, error) {
	v.n++
	return visited{v.n, ctx.Self().Node.String()}, nil
}

func (v *visits) Snapshot(*sharding.Context) ([]byte, error) { return []byte{v.n}, nil }

func (v *visits) Restore(_ *sharding.Context, state []byte) error {
	v.n = state[0]
	return nil
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := runPeer(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "survivor:", err)
		os.Exit(1)
	}
}

func runPeer(ctx context.Context) error {
	var nodes []*peerage.Node
	var regions []*sharding.Region[string, visited]
	list, err := freeAddresses(3)
	if err != nil {
		return err
	}
	for _, addr := range list {
		cfg := peerage.LocalConfig()
		cfg.Cluster, cfg.Listen, cfg.Join = "survivor", addr, list // all nodes have the same list
		node, region, err := joinCluster(ctx, cfg)
		if err != nil {
			return err
		}
		defer node.Close()
		nodes, regions = append(nodes, node), append(regions, region)
	}
	var last visited
	for range 3 {
		var err error
		if last, err = regions[0].Ask(ctx, "page", "visit"); err != nil {
			return err
		}
		fmt.Println("visits:", last.Count)
	}
	for i, node := range nodes {
		if node.Self().ID.String() != last.Node {
			continue
		}
		// Close is abrupt: to the other nodes it looks like a crash.
		if err := node.Close(); err != nil {
			return err
		}
		fmt.Println("its node crashes")
		regions = append(regions[:i], regions[i+1:]...)
	}
	last, err = regions[0].Ask(ctx, "page", "visit", sharding.Retry())
	if err != nil {
		return err
	}
	fmt.Println("visits:", last.Count)
	return nil
}

// freeAddresses returns addresses at which nothing listens. A service has fixed ones.
func freeAddresses(n int) (list []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list, nil
}

// joinCluster starts a node of the cluster with the settings of cfg.
func joinCluster(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sharding.Region[string, visited], error) {
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), sharding.Type[string, visited]{
		Name: "visits", MinMembers: 3,
		New:   func(string) sharding.Entity[string, visited] { return &visits{} },
		State: sharding.Replicated{Replicas: 3, Mode: sharding.Quorum},
	})
	if err != nil {
		return nil, nil, err
	}
	return node, region, node.Start(ctx)
}
