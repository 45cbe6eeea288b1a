package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/peeragetest"
	"github.com/peerage-go/peerage/sharding"
)

func Example() {
	main()
	// Output:
	// visits: 1
	// visits: 2
	// visits: 3
	// its node crashes
	// visits: 4
}

// Of three nodes any one may crash: the count continues on another one, from any node.
func TestVisitsSurviveACrashOfAnyNode(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			c := peeragetest.Start(t, 3, joinCluster)
			visit := func(n *peeragetest.Node[*sharding.Region[string, visited]], page string) byte {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				v, err := n.Service.Ask(ctx, page, "visit", sharding.Retry())
				if err != nil {
					t.Fatal(err)
				}
				return v.Count
			}
			for i := range 20 {
				visit(c.Node("a"), fmt.Sprint("page", i))
			}
			c.Node(victim).Crash()
			for i := range 20 {
				for k, n := range c.Nodes() {
					if count := visit(n, fmt.Sprint("page", i)); count != byte(k+2) {
						t.Errorf("page%d at node %s: %d visits after the crash of %s, want %d", i, n.Name, count, victim, k+2)
					}
				}
			}
			c.AssertSingleInstance()
		})
	}
}
