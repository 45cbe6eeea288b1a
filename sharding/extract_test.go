package sharding

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// byTenant keeps the entities of one tenant, the first letter, together.
func byTenant(id string) ShardID { return ShardID(id[0] - 'a') }

func TestShardOfKeepsEntitiesTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, nodes, regions := three(t, newJournal(), func(ty *Type[say, heard]) { ty.ShardOf = byTenant })
		for _, r := range regions {
			home := map[byte]bool{}
			for _, id := range []string{"a1", "a2", "a3"} {
				got, err := r.Ask(within(t, 5*time.Second), id, say{"x", 1})
				if err != nil {
					t.Fatal(err)
				}
				home[byte(got.Node)] = true
			}
			if len(home) != 1 {
				t.Errorf("one tenant lives on %d nodes", len(home))
			}
			// 16 shards: there is none for z, nor for a number.
			for _, id := range []string{"zoe", "7"} {
				if _, err := r.Ask(within(t, time.Second), id, say{}); !errors.Is(err, ErrNoShard) {
					t.Errorf("Ask %s: %v", id, err)
				}
				if err := r.Tell(within(t, time.Second), id, say{}); !errors.Is(err, ErrNoShard) {
					t.Errorf("Tell %s: %v", id, err)
				}
			}
		}
		if got, err := nodes[0].reg.ShardOf("ear", "c9"); got != 2 || err != nil {
			t.Errorf("ShardOf c9 = %v, %v", got, err)
		}
		_, err := nodes[0].reg.ShardOf("ear", "zoe")
		at, where := nodes[0].reg.Where(t.Context(), "ear", "zoe")
		for _, err := range []error{err, where} {
			if !errors.Is(err, ErrNoShard) || Retryable(err) || at != (Location{}) {
				t.Errorf("queries about zoe: %+v, %v", at, err)
			}
		}
	})
}

func TestDifferentShardOfIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var nodes []*node
		for i := range 2 {
			n := c.add("n")
			nodes = append(nodes, n)
			n.register(j, func(ty *Type[say, heard]) {
				if i == 1 {
					ty.ShardOf = byTenant
				}
			})
			n.start()
		}
		c.install(nodes...)
		pass(2 * time.Second)
		if got := nodes[1].s.Status()[0].Refused; !strings.HasPrefix(got, "function from id to shard is custom (") || !strings.HasSuffix(got, "here, the hash there") {
			t.Errorf("status says %q", got)
		}
	})
}

// Who hosts must agree on what is kept; a proxy need not know.
func TestDifferentKeepingIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		var nodes []*node
		for i := range 3 {
			n := c.add("n")
			nodes = append(nodes, n)
			if i == 2 {
				if _, err := RegisterProxy(n.reg, Type[say, heard]{Name: "ear", Shards: 16}); err != nil {
					t.Fatal(err)
				}
			} else {
				n.register(j, func(ty *Type[say, heard]) { ty.Remember = i == 1 })
			}
			n.start()
		}
		c.install(nodes...)
		pass(2 * time.Second)
		for i, want := range []string{"", "what is kept of entities is no state, remembered here, no state there", ""} {
			if got := nodes[i].s.Status()[0].Refused; got != want {
				t.Errorf("node %d: status says %q, want %q", i+1, got, want)
			}
		}
	})
}
