package sharding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// homes returns where a node believes the shards of its first type to be.
func (n *node) homes() map[ShardID]gossip.NodeID {
	out := map[ShardID]gossip.NodeID{}
	for _, s := range n.s.Status()[0].Shards {
		if s.Home != 0 {
			out[s.Shard] = s.Home
		}
	}
	return out
}

// A8 through the public API: shards are placed where the application says, move
// when it says otherwise, and move to a node that was no member when that appears.
func TestApplicationPlacesShards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		external := func(ty *Type[say, heard]) {
			ty.Strategy, ty.RebalanceInterval = strategy.External{}, 100*time.Millisecond
		}
		c, nodes, regions := three(t, j, external)
		ctx := context.Background()
		place := func(wanted map[ShardID]string) {
			t.Helper()
			if err := nodes[2].reg.Place(ctx, "ear", wanted); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		want := func(shard ShardID, node gossip.NodeID) {
			t.Helper()
			if got := nodes[0].homes()[shard]; got != node {
				t.Errorf("shard %v is at %v, want %v", shard, got, node)
			}
		}
		place(map[ShardID]string{1: "n2", 2: "n3", 3: "late"})
		n := 0
		ask := func() {
			t.Helper()
			n++
			for i := range 40 {
				if _, err := regions[0].Ask(ctx, string(rune('A'+i)), say{"x", n}); err != nil {
					t.Fatal(err)
				}
			}
		}
		ask()
		want(1, 2)
		want(2, 3)
		want(3, 1) // n1 asked, and nobody is called late
		place(map[ShardID]string{1: "n1", 2: ""})
		ask()
		want(1, 1)
		want(2, 3) // no wish, no move
		late := c.add("late")
		late.register(j, external)
		late.start()
		c.install(append(nodes, late)...)
		pass(time.Second)
		ask()
		want(3, 4)
		j.checkOrder(t)
	})
}

func TestPlaceRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		host, proxy := c.add("host", "backend"), c.add("proxy")
		for _, n := range []*node{host, proxy} {
			n.register(j, func(ty *Type[say, heard]) { ty.Role = "backend" })
		}
		ctx := context.Background()
		if err := host.reg.Place(ctx, "ear", nil); !errors.Is(err, ErrNotReady) {
			t.Errorf("before the start: %v", err)
		}
		host.start()
		proxy.start()
		c.install(host, proxy)
		for _, x := range []struct {
			n    *node
			typ  string
			err  error
			want map[ShardID]string
		}{
			{host, "nose", ErrUnknownType, nil},
			{proxy, "ear", ErrNoRole, nil},
			{host, "ear", nil, map[ShardID]string{15: "host"}},
		} {
			if err := x.n.reg.Place(ctx, x.typ, x.want); !errors.Is(err, x.err) {
				t.Errorf("%s at %s: %v, want %v", x.typ, x.n.self.Name, err, x.err)
			}
		}
		if err := host.reg.Place(ctx, "ear", map[ShardID]string{16: "host"}); err == nil {
			t.Error("a shard out of range is placed")
		}
		var wrong *TypeError
		if err := host.reg.Place(ctx, "ear", map[ShardID]string{1: strings.Repeat("n", 257)}); !errors.As(err, &wrong) {
			t.Errorf("a name that no node can have: %v", err)
		}
	})
}

// Of three nodes the one of twice the capacity gets half of the shards.
func TestCapacityDecidesWhoGetsHowMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var regions []*Region[say, heard]
		for i, name := range []string{"small", "too", "large"} {
			n := c.add(name)
			n.capacity = []uint32{100, 0, 200}[i]
			if i == 1 {
				n.capacity = 100
			}
			regions = append(regions, n.register(j, func(ty *Type[say, heard]) { ty.Strategy, ty.MinMembers = strategy.Weighted{}, 3 }))
			n.start()
		}
		c.install(c.nodes...)
		for i := range 200 {
			if _, err := regions[0].Ask(context.Background(), string(rune('A'+i)), say{"x", 1}); err != nil {
				t.Fatal(err)
			}
		}
		count := map[gossip.NodeID]int{}
		for _, home := range c.nodes[0].homes() {
			count[home]++
		}
		if count[1] != 4 || count[2] != 4 || count[3] != 8 {
			t.Errorf("shards by node: %v, want 4, 4 and 8", count)
		}
	})
}
