package sharding

import (
	"testing"
	"testing/synctest"
	"time"
)

// Answers share the connection with requests, in the order in which both are sent, and need
// no grant: a node whose requests are held up answers the asks of the node that holds them up.
func TestAnswersNeedNoGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		nodes := [2]*node{c.add("a", "a"), c.add("b", "b")}
		gate := make(chan struct{})
		var regions [2]map[string]*Region[int, int]
		for i, n := range nodes {
			regions[i] = map[string]*Region[int, int]{}
			for _, role := range []string{"a", "b"} {
				r, err := Register(n.reg, Type[int, int]{
					Name: "in-" + role, Role: role, Limits: Limits{Mailbox: 10}, Shards: 1,
					New: func(string) Entity[int, int] {
						return Func(func(_ *Context, n int) (int, error) {
							if n < 0 {
								<-gate
							}
							return n, nil
						})
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				regions[i][role] = r
			}
			n.start()
		}
		c.install(nodes[:]...)
		toB, toA := regions[0]["b"], regions[1]["a"]
		for _, r := range []*Region[int, int]{toB, toA} {
			if err := r.Start(within(t, time.Minute), "x"); err != nil {
				t.Fatal(err)
			}
		}
		go func() { // a fills the mailbox of b's entity, and then the window to its shard
			for range 5000 {
				if err := toB.Tell(within(t, time.Hour), "x", -1); err != nil {
					t.Error(err)
				}
			}
		}()
		synctest.Wait()
		if s := toB.Stats(); s.HeldUp != 1 {
			t.Fatalf("%d callers are held up", s.HeldUp)
		}
		for i := range 1000 {
			if n, err := toA.Ask(within(t, time.Second), "x", i); err != nil || n != i {
				t.Fatalf("ask %d beside requests that are held up: %d, %v", i, n, err)
			}
		}
		close(gate)
		pass(time.Minute)
		if s := toB.Stats(); s.HeldUp != 0 {
			t.Errorf("%d callers are held up once the entity is awake", s.HeldUp)
		}
	})
}
