package sharding

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Type.MinMembers holds the first allocation back until that many nodes host the
// type; then the shards are spread. Once passed, fewer nodes do (A5).
func TestMinMembersOfTheType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[int, heardCount]
		for i := range 3 {
			n := c.add(fmt.Sprint("n", i+1))
			r, err := Register(n.reg, Type[int, heardCount]{
				Name: "tally", Shards: 9, MinMembers: 3, New: func(string) Entity[int, heardCount] { return &tally{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes[:2]...)
		if got, err := regions[0].Ask(within(t, 5*time.Second), "a", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two of three nodes: %+v, %v", got, err)
		}
		c.install(c.nodes...)
		at := map[int]bool{}
		for i := range 60 {
			got, err := regions[0].Ask(within(t, 10*time.Second), fmt.Sprint("e", i), 1)
			if err != nil {
				t.Fatal(err)
			}
			at[got.Node] = true
		}
		if len(at) != 3 {
			t.Errorf("entities live on %v, want three nodes", at)
		}
		c.kill(c.nodes[2])
		c.install(c.nodes[:2]...)
		for i := range 60 {
			if _, err := regions[0].Ask(within(t, 10*time.Second), fmt.Sprint("e", i), 1); err != nil {
				t.Fatalf("e%d with two nodes left: %v", i, err)
			}
		}
	})
}
