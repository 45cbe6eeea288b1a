package peerage_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// visits is the entity of the examples: a count that moves with its shard.
type visits struct{ n byte }

func (v *visits) Handle(*sharding.Context, struct{}) (byte, error) {
	v.n++
	return v.n, nil
}

func (v *visits) Snapshot(*sharding.Context) ([]byte, error) { return []byte{v.n}, nil }

func (v *visits) Restore(_ *sharding.Context, state []byte) error {
	v.n = state[0]
	return nil
}

// join starts a node that hosts visits, and joins the others.
func join(ctx context.Context, cfg peerage.Config, others ...*peerage.Node) (*peerage.Node, *sharding.Region[struct{}, byte]) {
	cfg.BootstrapExpect = len(others) // they have formed the cluster
	for _, o := range others {
		cfg.Join = append(cfg.Join, o.Self().Addr)
	}
	node, err := peerage.Start(ctx, cfg)
	check(err)
	region, err := sharding.Register(node.Registry(), sharding.Type[struct{}, byte]{
		Name: "visits", Shards: 4,
		New: func(string) sharding.Entity[struct{}, byte] { return &visits{} },
	})
	check(err)
	check(node.WaitReady(ctx))
	return node, region
}

// A node that drains hands its entities over, with their states, and leaves; the
// process can then be replaced.
func ExampleNode_Drain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	old, _ := join(ctx, peerage.Config{})
	defer old.Close()
	next, visits := join(ctx, peerage.Config{}, old)
	defer next.Close()
	for _, page := range []string{"/", "/about", "/contact"} {
		_, err := visits.Ask(ctx, page, struct{}{})
		check(err)
	}
	check(old.Drain(ctx))
	fmt.Println("ready:", old.Ready(), "draining:", old.Draining())
	for _, page := range []string{"/", "/about", "/contact"} {
		fmt.Println(visits.Ask(ctx, page, struct{}{}))
	}
	// Output:
	// ready: false draining: true
	// 2 <nil>
	// 2 <nil>
	// 2 <nil>
}

// With MinMembers nothing is placed before enough nodes are there: here the second one
// finds its part of the work still to be given out.
func ExampleConfig() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, visits := join(ctx, peerage.Config{Name: "a", MinMembers: 2})
	defer a.Close()
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := visits.Ask(soon, "/", struct{}{})
	fmt.Println(err, errors.Is(err, sharding.ErrNoHome))

	b, _ := join(ctx, peerage.Config{Name: "b", MinMembers: 2}, a)
	defer b.Close()
	fmt.Println(visits.Ask(ctx, "/", struct{}{}))
	// Output:
	// sharding: shard has no home: context deadline exceeded true
	// 1 <nil>
}

func ExampleNode_Status() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	node, visits := join(ctx, peerage.Config{Name: "a", Roles: []string{"web"}})
	defer node.Close()
	_, err := visits.Ask(ctx, "/", struct{}{})
	check(err)
	s := node.Status()
	fmt.Println(s.Cluster, s.Name, s.Ready, s.Leader == s.Node)
	for _, m := range s.View.Members {
		fmt.Println(m.Name, m.Status, m.Roles)
	}
	for _, t := range s.Types {
		fmt.Println(t.Name, t.Shards, "of", t.ShardsTotal, "shards here,", t.Entities, "entity, at", len(t.Homes), "home")
	}
	// Output:
	// peerage a true true
	// a up [web]
	// visits 1 of 4 shards here, 1 entity, at 1 home
}
