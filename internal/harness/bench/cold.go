package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
)

// coldNode is one of the nodes of the cold start: all are in this process, over
// TCP on the loopback interface.
type coldNode struct {
	node     *peerage.Node
	ints     *sharding.Region[int, int]
	registry *prometheus.Registry
}

func startCold(ctx context.Context, first string, nodes, shards int) (*coldNode, error) {
	cfg := peerage.LocalConfig()
	cfg.Listen, cfg.Bootstrap = "127.0.0.1:0", first == ""
	if first != "" {
		cfg.Join, cfg.BootstrapExpect = []string{first}, 1
	}
	n := &coldNode{registry: prometheus.NewRegistry()}
	cfg.Registerer = n.registry
	var err error
	if n.node, err = peerage.New(cfg); err != nil {
		return nil, err
	}
	n.ints, err = sharding.Register(n.node.Registry(), sharding.Type[int, int]{
		Name: "ints", Shards: shards, MinMembers: nodes,
		New: func(string) sharding.Entity[int, int] {
			return sharding.Func(func(_ *sharding.Context, i int) (int, error) { return i, nil })
		},
	})
	if err == nil {
		err = n.node.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, n.node.Close())
	}
	return n, nil
}

// sent returns the bytes that the node has sent to its peers, framing included.
func (n *coldNode) sent() (float64, error) {
	families, err := n.registry.Gather()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "peerage_transport_bytes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "direction" && l.GetValue() == "sent" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum, nil
}

// measureColdStart measures how long a cluster without homes takes to answer every node.
// All nodes ask for every shard simultaneously. It waits until each node has all its
// answers, and so has cached all homes.
func measureColdStart(ctx context.Context, b *Suite) error {
	nodes, shards := scale(b.cfg, 10, 3), scale(b.cfg, 1000, 100)
	var all []*coldNode
	defer func() {
		for _, n := range all {
			n.node.Close()
		}
	}()
	first := ""
	for range nodes {
		n, err := startCold(ctx, first, nodes, shards)
		if err != nil {
			return err
		}
		all = append(all, n)
		first = all[0].node.Self().Addr
	}
	for _, n := range all {
		if err := n.node.WaitReady(ctx); err != nil {
			return err
		}
	}
	before, err := sentByAll(all)
	if err != nil {
		return err
	}
	ids := idPerShard(all[0].ints, shards)
	began := time.Now()
	if err := askAll(ctx, all, ids); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := sentByAll(all)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("cold start of %d shards x %d nodes", shards, nodes)
	b.addRow(Row{Name: name + ", every node has all homes", Unit: "ms", Value: harness.Milliseconds(took), Target: "at most 1 s", Met: took <= time.Second, Note: fmt.Sprintf("%d asks answered; all nodes in one process", shards*nodes)})
	each := (after - before) / float64(shards*nodes)
	b.addRow(Row{Name: name + ", bytes sent per shard and node", Unit: "B", Value: each, Target: "O(n) in all", Met: each <= coldBytesMost, Note: fmt.Sprintf("asks included; met means at most %d", coldBytesMost)})
	return nil
}

// coldBytesMost bounds the bytes of a home for each node that caches it.
// They include the node's ask and its answer.
const coldBytesMost = 500

func sentByAll(all []*coldNode) (float64, error) {
	sum := 0.0
	for _, n := range all {
		s, err := n.sent()
		if err != nil {
			return 0, err
		}
		sum += s
	}
	return sum, nil
}

// idPerShard returns an id of each shard.
func idPerShard(r *sharding.Region[int, int], shards int) []string {
	ids := make([]string, shards)
	for i, found := 0, 0; found < shards; i++ {
		id := fmt.Sprintf("id-%d", i)
		if s := r.ShardOf(id); ids[s] == "" {
			ids[s] = id
			found++
		}
	}
	return ids
}

func askAll(ctx context.Context, all []*coldNode, ids []string) error {
	errs := make(chan error, len(all)*len(ids))
	var wg sync.WaitGroup
	for _, n := range all {
		for _, id := range ids {
			wg.Go(func() {
				if _, err := n.ints.Ask(ctx, id, 0); err != nil {
					errs <- err
				}
			})
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("%d of %d asks failed, one with: %w", len(errs)+1, len(all)*len(ids), err)
	default:
		return nil
	}
}
