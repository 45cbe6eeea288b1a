// The operations command performs one operation of the library n times, and writes the
// coverage counters of those alone. The walk command builds it with coverage, and runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/coverage"
	"strconv"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

func main() {
	name := flag.String("op", "", "what to perform: ask-local, ask-remote, majority-write, view-change, first-ask or handoff")
	n := flag.Int("n", 0, "how often")
	dir := flag.String("dir", "", "where to write the counters")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := countOperation(ctx, *name, *n, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "operations:", err)
		os.Exit(1)
	}
}

// countOperation prepares the operation, and counts from there on.
func countOperation(ctx context.Context, name string, n int, dir string) error {
	prepare, ok := operations()[name]
	if !ok {
		return fmt.Errorf("-op %q is none", name)
	}
	c := &cluster{shards: max(n, 4)}
	defer c.closeNodes()
	perform, err := prepare(ctx, c, n)
	if err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := perform(); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return coverage.WriteCountersDir(dir)
}

// counter is the entity: a count that moves with its shard.
type counter struct{ n byte }

func (c *counter) Handle(*sharding.Context, struct{}) (byte, error) {
	c.n++
	return c.n, nil
}

func (c *counter) Snapshot(*sharding.Context) ([]byte, error) { return []byte{c.n}, nil }

func (c *counter) Restore(_ *sharding.Context, state []byte) error {
	c.n = state[0]
	return nil
}

// cluster is one of two nodes, and of those that leave it.
type cluster struct {
	shards        int
	first, second *peerage.Node
	counters      *sharding.Region[struct{}, byte] // of the second node
	leavers       []*peerage.Node
	// removed receives the members whose removal the second node has learned.
	removed chan gossip.NodeID
}

// startNodes starts the first node with prepare, then the second.
func (c *cluster) startNodes(ctx context.Context, prepare func(*sharding.Region[struct{}, byte]) error) error {
	var err error
	var onFirst *sharding.Region[struct{}, byte]
	if c.first, onFirst, err = c.joinNode(ctx, peerage.Config{}); err != nil {
		return err
	}
	if err := prepare(onFirst); err != nil {
		return err
	}
	c.second, c.counters, err = c.joinNode(ctx, peerage.Config{Join: []string{c.first.Self().Addr}, BootstrapExpect: 1})
	return err
}

func (c *cluster) joinNode(ctx context.Context, cfg peerage.Config) (*peerage.Node, *sharding.Region[struct{}, byte], error) {
	node, err := peerage.Start(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	region, err := sharding.Register(node.Registry(), sharding.Type[struct{}, byte]{
		Name: "counter", Shards: c.shards,
		New: func(string) sharding.Entity[struct{}, byte] { return &counter{} },
		ShardOf: func(id string) sharding.ShardID {
			k, _ := strconv.Atoi(id)
			return sharding.ShardID(k % c.shards)
		},
	})
	if err != nil {
		return node, nil, err // closeNodes ends it
	}
	return node, region, node.WaitReady(ctx)
}

func (c *cluster) closeNodes() {
	for _, n := range append([]*peerage.Node{c.second, c.first}, c.leavers...) {
		if n != nil {
			_ = n.Close()
		}
	}
}

// findID returns an id whose home is node.
func (c *cluster) findID(ctx context.Context, node *peerage.Node) (string, error) {
	for i := range c.shards {
		id := strconv.Itoa(i)
		if err := c.askTimes(ctx, c.counters, id, 1); err != nil {
			return "", err
		}
		at, err := c.second.Registry().Where(ctx, "counter", id)
		if err != nil {
			return "", err
		}
		if at.Node == node.Self().ID {
			return id, nil
		}
	}
	return "", fmt.Errorf("no shard is on %v", node.Self())
}

func (c *cluster) askTimes(ctx context.Context, on *sharding.Region[struct{}, byte], id string, n int) error {
	for range n {
		if _, err := on.Ask(ctx, id, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// askAll asks n shards once each.
func (c *cluster) askAll(ctx context.Context, on *sharding.Region[struct{}, byte], n int) error {
	for i := range n {
		if err := c.askTimes(ctx, on, strconv.Itoa(i), 1); err != nil {
			return err
		}
	}
	return nil
}

type region = sharding.Region[struct{}, byte]

// operations returns what prepares each operation and returns a function that performs it.
func operations() map[string]func(context.Context, *cluster, int) (func() error, error) {
	nothing := func(*region) error { return nil }
	asking := func(home func(*cluster) *peerage.Node) func(context.Context, *cluster, int) (func() error, error) {
		return func(ctx context.Context, c *cluster, n int) (func() error, error) {
			c.shards = 16
			if err := c.startNodes(ctx, nothing); err != nil {
				return nil, err
			}
			id, err := c.findID(ctx, home(c))
			return func() error { return c.askTimes(ctx, c.counters, id, n) }, err
		}
	}
	return map[string]func(context.Context, *cluster, int) (func() error, error){
		"ask-local":  asking(func(c *cluster) *peerage.Node { return c.second }),
		"ask-remote": asking(func(c *cluster) *peerage.Node { return c.first }),
		"majority-write": func(ctx context.Context, c *cluster, n int) (func() error, error) {
			c.shards = 4
			err := c.startNodes(ctx, nothing)
			return func() error { return c.writeTimes(ctx, n) }, err
		},
		"view-change": func(ctx context.Context, c *cluster, n int) (func() error, error) {
			c.shards = 4
			err := c.startNodes(ctx, nothing)
			if err == nil {
				err = c.joinLeavers(ctx, n)
			}
			return func() error { return c.closeLeavers(ctx) }, err
		},
		"first-ask": func(ctx context.Context, c *cluster, n int) (func() error, error) {
			err := c.startNodes(ctx, nothing)
			return func() error { return c.askAll(ctx, c.counters, n) }, err
		},
		"handoff": func(ctx context.Context, c *cluster, n int) (func() error, error) {
			err := c.startNodes(ctx, func(r *region) error { return c.askAll(ctx, r, n) })
			return func() error { return c.first.Drain(ctx) }, err
		},
	}
}

// joinLeavers starts n nodes without types beside the first two.
func (c *cluster) joinLeavers(ctx context.Context, n int) error {
	c.removed = make(chan gossip.NodeID, n)
	c.second.Subscribe(func(ev gossip.Event) {
		if gone, is := ev.(gossip.MemberRemoved); is {
			c.removed <- gone.Member.ID
		}
	})
	for range n {
		node, err := peerage.Start(ctx, peerage.Config{Join: []string{c.first.Self().Addr}, BootstrapExpect: 1})
		if err != nil {
			return err
		}
		c.leavers = append(c.leavers, node)
		if err := node.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closeLeavers ends one node after the other. Each ends with a goodbye, which proves its
// death, and the leader changes the view.
func (c *cluster) closeLeavers(ctx context.Context) error {
	for _, node := range c.leavers {
		id := node.Self().ID
		if err := node.Close(); err != nil {
			return err
		}
		for gone := gossip.NodeID(0); gone != id; {
			select {
			case gone = <-c.removed:
			case <-ctx.Done():
				return fmt.Errorf("waiting for a view without %v: %w", id, ctx.Err())
			}
		}
	}
	return nil
}

// writeTimes adds an element to a set and removes it, in turns.
func (c *cluster) writeTimes(ctx context.Context, n int) error {
	key := ddata.ORSetKey[string]("k")
	for i := range n {
		err := ddata.Update(ctx, c.second.Data(""), key, ddata.Majority, func(s *ddata.ORSetTx[string]) error {
			if i%2 == 0 {
				s.Add("ada")
			} else {
				s.Remove("ada")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
