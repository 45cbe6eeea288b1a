// Package trio runs three nodes of an example in one process, over TCP on the loopback
// interface. A service has one node in each process; its code is the same.
package trio

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/peerage-go/peerage"
)

// Member is a node, with what the function of its example returned beside it.
type Member[S any] struct {
	*peerage.Node
	Service S
}

// Main runs an example with a trio, prints its error if there is one, and returns the exit
// code of the process.
func Main[S any](name string, start func(context.Context, peerage.Config) (*peerage.Node, S, error), example func(context.Context, []Member[S]) error) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	members, err := Start(ctx, name, start)
	defer Close(members)
	if err == nil {
		err = example(ctx, members)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Start starts three nodes of a cluster, and waits until all of them are ready. It returns
// the nodes that have started, also with an error.
func Start[S any](ctx context.Context, cluster string, start func(context.Context, peerage.Config) (*peerage.Node, S, error)) ([]Member[S], error) {
	list, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	var members []Member[S]
	for i, addr := range list {
		cfg := peerage.LocalConfig()
		cfg.Name, cfg.Cluster, cfg.Listen = string(rune('a'+i)), cluster, addr
		cfg.Join, cfg.MinMembers = list, len(list) // all nodes have the same list
		node, service, err := start(ctx, cfg)
		if err != nil {
			return members, err
		}
		members = append(members, Member[S]{node, service})
	}
	for _, m := range members {
		if err := m.WaitReady(ctx); err != nil {
			return members, err
		}
	}
	return members, nil
}

// Close ends all nodes abruptly: to each other they look as if they had crashed.
func Close[S any](members []Member[S]) {
	for _, m := range members {
		_ = m.Close()
	}
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
